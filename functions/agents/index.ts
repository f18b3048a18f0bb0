import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import routines from "./routines.ts";
import schedules from "./schedules.ts";

export const routers = [agents, computers, routines, schedules];
export default worker(...routers);
