import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import envVars from "./env-vars.ts";
import healthActions from "./health-actions.ts";
import schedules from "./schedules.ts";
import skills from "./skills.ts";
import tools from "./tools.ts";

export const routers = [agents, computers, envVars, healthActions, schedules, skills, tools];
export default worker(...routers);
