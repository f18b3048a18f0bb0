import { createAgent, deleteAgent, getAgent, listAgents, updateAgent } from "../../lib/agents/queries.ts";
import {
  agent,
  agentPage,
  createAgentBody,
  createdAgent,
  listAgentsQuery,
  toAgent,
  updateAgentBody,
} from "../../lib/agents/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { paginate } from "../../lib/paging.ts";

const agents = router();

agents.get(
  "/api/v1/agents",
  allow("agents:read"),
  valid("query", listAgentsQuery),
  gives(200, agentPage),
  async (c) => {
    const query = c.req.valid("query");
    const { rows, total } = await listAgents(c.var.db, c.var.viewer, query);
    return c.var.answer(paginate(query, rows, total, toAgent));
  },
);

/** The contract answers 200 here, not 201. */
agents.post(
  "/api/v1/agents",
  allow("agents:write"),
  valid("json", createAgentBody),
  gives(200, createdAgent, 409),
  async (c) => {
    const { viewer } = c.var;
    const body = c.req.valid("json");
    const row = await once(
      c,
      "agent",
      (db, id) => createAgent(db, viewer, id, body),
      (db, id) => getAgent(db, viewer, id),
    );
    return c.var.answer({ ...toAgent(row), installed_configs: null });
  },
);

agents.get("/api/v1/agents/:agent", allow("agents:read"), gives(200, agent), async (c) => {
  return c.var.answer(toAgent(await getAgent(c.var.db, c.var.viewer, c.req.param("agent"))));
});

agents.patch(
  "/api/v1/agents/:agent",
  allow("agents:write"),
  valid("json", updateAgentBody),
  gives(200, agent, 409),
  async (c) => {
    const row = await updateAgent(c.var.db, c.var.viewer, c.req.param("agent"), c.req.valid("json"));
    return c.var.answer(toAgent(row));
  },
);

agents.delete("/api/v1/agents/:agent", allow("agents:write"), givesNothing(), async (c) => {
  await deleteAgent(c.var.db, c.var.viewer, c.req.param("agent"));
  return c.var.answer();
});

export default agents;
