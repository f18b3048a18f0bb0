import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";

export const routers = [agents];
export default worker(...routers);
