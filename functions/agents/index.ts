import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import envVars from "./env-vars.ts";

export const routers = [agents, computers, envVars];
export default worker(...routers);
