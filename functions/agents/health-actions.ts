import { getChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { listHealthActions, verifyHealthAction } from "../../lib/health/queries.ts";
import { healthAction, healthActionList, listHealthActionsQuery, toHealthAction } from "../../lib/health/schema.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";

const healthActions = router();
const idOf = (text: string) => parseId("agent_health_action", text);

healthActions.get(
  "/api/v1/agents/:agent/agent_health_actions",
  named("List the health actions of an agent"),
  allow("health_actions:read"),
  valid("query", listHealthActionsQuery),
  gives(200, healthActionList),
  async (c) => {
    const rows = await listHealthActions(c.var.db, c.req.param("agent"), c.req.valid("query"));
    return c.var.answer({ data: rows.map(toHealthAction) });
  },
);

healthActions.get(
  "/api/v1/agent_health_actions/:health_action",
  allow("health_actions:read"),
  gives(200, healthAction),
  async (c) => {
    const row = await getChild(c.var.db, "agent_health_action", idOf(c.req.param("health_action")));
    return c.var.answer(toHealthAction(row));
  },
);

healthActions.post(
  "/api/v1/agent_health_actions/:health_action/verify",
  named("Verify a health action"),
  allow("health_actions:write"),
  gives(200, healthAction, 422),
  async (c) => {
    const row = await verifyHealthAction(c.var.db, idOf(c.req.param("health_action")));
    return c.var.answer(toHealthAction(row));
  },
);

export default healthActions;
