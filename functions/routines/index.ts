import { worker } from "../../lib/http/worker.ts";
import automations from "./automations.ts";
import occurrences from "./occurrences.ts";
import routines from "./routines.ts";
import runs from "./runs.ts";
import workItems from "./work-items.ts";

// Runs first: theirs are the longer addresses.
export const routers = [automations, runs, occurrences, routines, workItems];
export default worker(...routers);
