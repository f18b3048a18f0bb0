import { parseId } from "../../lib/ids.ts";
import { occurrenceRoutes } from "../../lib/occurrences/routes.ts";

export default occurrenceRoutes(
  "/api/v1/agents/:agent/schedules/:schedule",
  "schedules",
  "a schedule",
  ({ agent = "", schedule = "" }) => ({ kind: "agent_schedule", id: parseId("agent_schedule", schedule), agent }),
);
