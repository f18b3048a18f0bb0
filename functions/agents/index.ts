import { worker } from "../../lib/http/worker.ts";
import agents from "./agents.ts";
import computers from "./computers.ts";
import schedules from "./schedules.ts";

export const routers = [agents, computers, schedules];
export default worker(...routers);
