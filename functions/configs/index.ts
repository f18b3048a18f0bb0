import { worker } from "../../lib/http/worker.ts";
import scripts from "./scripts.ts";

export const routers = [scripts];
export default worker(...routers);
