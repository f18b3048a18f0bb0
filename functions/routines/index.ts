import { worker } from "../../lib/http/worker.ts";
import occurrences from "./occurrences.ts";
import routines from "./routines.ts";
import runs from "./runs.ts";

// Runs first: theirs are the longer addresses.
export const routers = [runs, occurrences, routines];
export default worker(...routers);
