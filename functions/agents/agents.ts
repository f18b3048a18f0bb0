import { agentNamed, createAgent, deleteAgent, getAgent, listAgents, updateAgent } from "../../lib/agents/queries.ts";
import {
  agent,
  agentPage,
  createAgentBody,
  listAgentsQuery,
  toAgent,
  updateAgentBody,
} from "../../lib/agents/schema.ts";
import { allow, mustCover } from "../../lib/auth/allow.ts";
import { exportAgent } from "../../lib/bundles/export.ts";
import { planOf } from "../../lib/bundles/plan.ts";
import {
  type Installed,
  installAgent,
  installedAgent,
  mustBeWhole,
  planOfTemplate,
} from "../../lib/bundles/queries.ts";
import { agentExport, createdAgent, exportQuery } from "../../lib/bundles/schema.ts";
import { namingUses } from "../../lib/configs/uses.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { paginate } from "../../lib/paging.ts";
import { wakeScheduler } from "../../lib/schedules/remote.ts";

const agents = router();

/** What a bundle brings and an export shows, besides the agent: it takes the scopes that making or reading each would. */
const CARRIED = [
  "computers",
  "configs",
  "health_actions",
  "installations",
  "routines",
  "schedules",
  "skills",
  "tools",
] as const;

agents.get(
  "/api/v1/agents",
  allow("agents:read"),
  valid("query", listAgentsQuery),
  gives(200, agentPage),
  async (c) => {
    const query = c.req.valid("query");
    return c.var.answer(paginate(query, await listAgents(c.var.db, query), toAgent));
  },
);

/** The contract answers 200 here, not 201. */
agents.post(
  "/api/v1/agents",
  allow("agents:write"),
  valid("json", createAgentBody),
  once("agent"),
  gives(200, createdAgent, 409),
  async (c) => {
    const body = c.req.valid("json");
    const { template_bundle, template } = body;
    if (template_bundle || template) mustCover(c.var.credential, CARRIED, "write");
    const bundle = template_bundle && (await planOf(template_bundle, c.env));
    if (bundle) await mustBeWhole(c.var.db, bundle);
    const { agent, configs } = await c.var.once(
      async (db, id): Promise<Installed> => {
        if (bundle) return installAgent(db, id, body, bundle, "template_bundle.template");
        if (!template) return { agent: await createAgent(db, id, body) };
        const plan = await planOfTemplate(c.var.db, body, c.env);
        await mustBeWhole(c.var.db, plan);
        return installAgent(db, id, body, plan, "template");
      },
      async (db, id): Promise<Installed> =>
        bundle ? installedAgent(db, id, bundle) : { agent: await getAgent(db, id) },
    );
    // What it carries may be due soon.
    if (bundle || template) await wakeScheduler(c.env, agent);
    return c.var.answer({ ...toAgent(agent), ...(configs && { installed_configs: configs }) });
  },
);

agents.get("/api/v1/agents/:agent", allow("agents:read"), gives(200, agent), async (c) => {
  return c.var.answer(toAgent(await getAgent(c.var.db, c.req.param("agent"))));
});

agents.get(
  "/api/v1/agents/:agent/export",
  named("Export an agent"),
  allow("agents:read"),
  valid("query", exportQuery),
  gives(200, agentExport, 422),
  async (c) => {
    mustCover(c.var.credential, CARRIED, "read");
    return c.var.answer(await exportAgent(c.var.db, c.req.param("agent")));
  },
);

agents.patch(
  "/api/v1/agents/:agent",
  allow("agents:write"),
  valid("json", updateAgentBody),
  gives(200, agent, 409),
  async (c) => {
    const row = await updateAgent(c.var.db, c.req.param("agent"), c.req.valid("json"));
    return c.var.answer(toAgent(row));
  },
);

agents.delete("/api/v1/agents/:agent", allow("agents:write"), givesNothing(409), async (c) => {
  const { db } = c.var;
  const name = c.req.param("agent");
  await namingUses(db, agentNamed(db, name), null, () => deleteAgent(db, name));
  return c.var.answer();
});

export default agents;
