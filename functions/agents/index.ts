import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import envVars from "./env-vars.ts";
import healthActions from "./health-actions.ts";
import installations from "./installations.ts";
import occurrences from "./occurrences.ts";
import routines from "./routines.ts";
import schedules from "./schedules.ts";
import skills from "./skills.ts";
import tools from "./tools.ts";
import workItems from "./work-items.ts";
import workingMemory from "./working-memory.ts";

export const routers = [
  agents,
  computers,
  envVars,
  healthActions,
  installations,
  occurrences,
  routines,
  schedules,
  skills,
  tools,
  workItems,
  workingMemory,
];
export default worker(...routers);
