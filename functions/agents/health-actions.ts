import { getChild } from "../../lib/agents/children.ts";
import { allow, mustCover } from "../../lib/auth/allow.ts";
import {
  healthOfNamed,
  listHealthActions,
  reopenHealthAction,
  skipHealthAction,
  verifyHealthAction,
} from "../../lib/health/queries.ts";
import { healthOf, healthOfAgent } from "../../lib/health/remote.ts";
import { healthAction, healthActionList, listHealthActionsQuery, toHealthAction } from "../../lib/health/schema.ts";
import { agentHealth, toAgentHealth } from "../../lib/health/view.ts";
import { Gate, inTurn } from "../../lib/http/gate.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";

const healthActions = router();
/** Scripts and servers that are asked at once: each may take a minute. */
const verifiers = new Gate({ most: 4, lease_ms: 90_000 });
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
  gives(200, healthAction, 422, 429),
  async (c) => {
    const row = await verifyHealthAction(c.var.db, idOf(c.req.param("health_action")), (action) =>
      inTurn(verifiers, c, () => healthOfAgent(c.env, action).verify(action), action),
    );
    return c.var.answer(toHealthAction(row));
  },
);

healthActions.post(
  "/api/v1/agent_health_actions/:health_action/skip",
  named("Skip a health action"),
  allow("health_actions:write"),
  gives(200, healthAction, 422),
  async (c) => {
    const row = await skipHealthAction(c.var.db, idOf(c.req.param("health_action")));
    return c.var.answer(toHealthAction(row));
  },
);

healthActions.post(
  "/api/v1/agent_health_actions/:health_action/reopen",
  named("Reopen a health action"),
  allow("health_actions:write"),
  gives(200, healthAction),
  async (c) => {
    const row = await reopenHealthAction(c.var.db, idOf(c.req.param("health_action")));
    return c.var.answer(toHealthAction(row));
  },
);

/** It shows the actions, too, and takes the scope for them. */
healthActions.get(
  "/api/v1/agents/:agent/health",
  named("Tell how an agent is"),
  allow("agents:read"),
  gives(200, agentHealth),
  async (c) => {
    mustCover(c.var.credential, ["health_actions"], "read");
    const known = await healthOfNamed(c.var.db, c.req.param("agent"));
    return c.var.answer(toAgentHealth(known, await healthOf(c.env, known.agent).judge(known)));
  },
);

export default healthActions;
