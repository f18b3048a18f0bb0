import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import envVars from "./env-vars.ts";
import installations from "./installations.ts";
import workingMemory from "./working-memory.ts";

export const routers = [agents, computers, envVars, installations, workingMemory];
export default worker(...routers);
