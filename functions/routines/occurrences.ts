import { parseId } from "../../lib/ids.ts";
import { occurrenceRoutes } from "../../lib/occurrences/routes.ts";

export default occurrenceRoutes(
  "/api/v1/agent_routines/:routine",
  "routines",
  "a routine's schedule",
  ({ routine = "" }) => ({ kind: "agent_routine", id: parseId("agent_routine", routine) }),
);
