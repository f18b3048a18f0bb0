import { worker } from "../../lib/http/worker.ts";
import sessions from "./sessions.ts";
import streams from "./streams.ts";
import calls from "./tool-calls.ts";
import trajectories from "./trajectories.ts";

export const routers = [sessions, streams, calls, trajectories];
export default worker(...routers);
