import { deleteChild, getChild, listChildren, listChildrenOf } from "../../lib/agents/children.ts";
import { reachAgent } from "../../lib/agents/queries.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { catalogue } from "../../lib/installations/kinds.ts";
import {
  activateInstallation,
  createInstallation,
  createSource,
  listSources,
  pauseInstallation,
  suspendInstallation,
} from "../../lib/installations/queries.ts";
import {
  createInstallationBody,
  createSourceBody,
  installation,
  installationList,
  installationPage,
  kindList,
  listInstallationsQuery,
  shown,
  source,
  sourceList,
  suspendBody,
  toInstallation,
  toSource,
} from "../../lib/installations/schema.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";

const installations = router();
const idOf = (text: string) => parseId("agent_installation", text);

installations.get(
  "/api/v1/agents/:agent/agent_installations",
  named("List the installations of an agent"),
  allow("installations:read"),
  gives(200, installationList),
  async (c) => {
    const rows = await listChildren(c.var.db, "agent_installation", c.req.param("agent"), { columns: shown });
    return c.var.answer({ data: rows.map(toInstallation) });
  },
);

/** The same for every agent. */
installations.get(
  "/api/v1/agents/:agent/agent_installations/kinds",
  named("List the kinds of installation"),
  allow("installations:read"),
  gives(200, kindList),
  async (c) => {
    await reachAgent(c.var.db, c.req.param("agent"), "read").db.enter();
    return c.var.answer({ data: catalogue });
  },
);

installations.post(
  "/api/v1/agents/:agent/agent_installations",
  named("Install something for an agent"),
  allow("installations:write"),
  valid("json", createInstallationBody),
  once("agent_installation"),
  gives(200, installation, 409),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once(
      (db, id) => createInstallation(db, c.env.ROOT_SECRETS, agent, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_installation", id),
    );
    return c.var.answer(toInstallation(row));
  },
);

installations.get(
  "/api/v1/agent_installations",
  named("List installations"),
  allow("installations:read"),
  valid("query", listInstallationsQuery),
  gives(200, installationPage, 404),
  async (c) => {
    const { db } = c.var;
    const query = c.req.valid("query");
    const page = await openListCursor(c.env.ROOT_SECRETS, "agent_installations", db.tenant, query);
    const rows = await listChildrenOf(db, "agent_installation", query.agent, page, { columns: shown });
    return c.var.answer(await paginateList(page, rows, toInstallation));
  },
);

installations.get(
  "/api/v1/agent_installations/:installation",
  allow("installations:read"),
  gives(200, installation),
  async (c) => {
    const row = await getChild(c.var.db, "agent_installation", idOf(c.req.param("installation")));
    return c.var.answer(toInstallation(row));
  },
);

installations.delete(
  "/api/v1/agent_installations/:installation",
  allow("installations:write"),
  givesNothing(),
  async (c) => {
    await deleteChild(c.var.db, "agent_installation", idOf(c.req.param("installation")));
    return c.var.answer();
  },
);

installations.post(
  "/api/v1/agent_installations/:installation/activate",
  named("Activate an installation"),
  allow("installations:write"),
  gives(200, installation, 422),
  async (c) => {
    const row = await activateInstallation(c.var.db, idOf(c.req.param("installation")));
    return c.var.answer(toInstallation(row));
  },
);

installations.post(
  "/api/v1/agent_installations/:installation/pause",
  named("Pause an installation"),
  allow("installations:write"),
  gives(200, installation, 422),
  async (c) => {
    const row = await pauseInstallation(c.var.db, idOf(c.req.param("installation")));
    return c.var.answer(toInstallation(row));
  },
);

installations.post(
  "/api/v1/agent_installations/:installation/suspend",
  named("Suspend an installation"),
  allow("installations:write"),
  valid("json", suspendBody),
  gives(200, installation),
  async (c) => {
    const { reason = null } = c.req.valid("json");
    const row = await suspendInstallation(c.var.db, idOf(c.req.param("installation")), reason);
    return c.var.answer(toInstallation(row));
  },
);

installations.get(
  "/api/v1/agent_installations/:installation/installation_sources",
  allow("installations:read"),
  gives(200, sourceList),
  async (c) => {
    const rows = await listSources(c.var.db, idOf(c.req.param("installation")));
    return c.var.answer({ data: rows.map(toSource) });
  },
);

installations.post(
  "/api/v1/agent_installations/:installation/installation_sources",
  allow("installations:write"),
  valid("json", createSourceBody),
  once("installation_source"),
  gives(200, source),
  async (c) => {
    const above = idOf(c.req.param("installation"));
    const row = await c.var.once(
      (db, id) => createSource(db, above, id, c.req.valid("json")),
      (db, id) => getChild(db, "installation_source", id),
    );
    return c.var.answer(toSource(row));
  },
);

installations.delete(
  "/api/v1/installation_sources/:source",
  allow("installations:write"),
  givesNothing(),
  async (c) => {
    await deleteChild(c.var.db, "installation_source", parseId("installation_source", c.req.param("source")));
    return c.var.answer();
  },
);

export default installations;
