import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";

export const routers = [agents, computers];
export default worker(...routers);
