import { getChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openListCursor, paginateList } from "../../lib/paging.ts";
import { catalog } from "../../lib/tools/catalog.ts";
import {
  activateTool,
  createTool,
  deactivateTool,
  deleteTool,
  listTools,
  listToolsOf,
  updateTool,
} from "../../lib/tools/queries.ts";
import {
  createToolBody,
  listToolsOfQuery,
  listToolsQuery,
  toCatalogEntry,
  tool,
  toolCatalog,
  toolList,
  toolPage,
  toTool,
  updateToolBody,
} from "../../lib/tools/schema.ts";

const tools = router();
const idOf = (text: string) => parseId("agent_tool", text);

tools.get(
  "/api/v1/agents/:agent/agent_tools",
  named("List the tools of an agent"),
  allow("tools:read"),
  valid("query", listToolsOfQuery),
  gives(200, toolList),
  async (c) => {
    const rows = await listToolsOf(c.var.db, c.req.param("agent"), c.req.valid("query").kind);
    return c.var.answer({ data: rows.map(toTool) });
  },
);

tools.post(
  "/api/v1/agents/:agent/agent_tools",
  named("Give an agent a tool"),
  allow("tools:write"),
  valid("json", createToolBody),
  once("agent_tool"),
  gives(200, tool, 409),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once(
      (db, id) => createTool(db, agent, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_tool", id),
    );
    return c.var.answer(toTool(row));
  },
);

tools.get(
  "/api/v1/agent_tools",
  allow("tools:read"),
  valid("query", listToolsQuery),
  gives(200, toolPage, 404),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openListCursor(c.env.ROOT_SECRETS, "agent_tools", c.var.db.tenant, query);
    return c.var.answer(await paginateList(page, await listTools(c.var.db, query, page), toTool));
  },
);

tools.get(
  "/api/v1/agent_tools/catalog",
  named("List the builtin tools"),
  allow("tools:read"),
  gives(200, toolCatalog),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(catalog.map(toCatalogEntry));
  },
);

tools.get("/api/v1/agent_tools/:tool", allow("tools:read"), gives(200, tool), async (c) => {
  return c.var.answer(toTool(await getChild(c.var.db, "agent_tool", idOf(c.req.param("tool")))));
});

tools.patch(
  "/api/v1/agent_tools/:tool",
  allow("tools:write"),
  valid("json", updateToolBody),
  gives(200, tool, 409),
  async (c) => {
    return c.var.answer(toTool(await updateTool(c.var.db, idOf(c.req.param("tool")), c.req.valid("json"))));
  },
);

tools.delete("/api/v1/agent_tools/:tool", allow("tools:write"), givesNothing(), async (c) => {
  await deleteTool(c.var.db, idOf(c.req.param("tool")));
  return c.var.answer();
});

tools.post(
  "/api/v1/agent_tools/:tool/activate",
  named("Activate a tool"),
  allow("tools:write"),
  gives(200, tool, 409, 422),
  async (c) => c.var.answer(toTool(await activateTool(c.var.db, idOf(c.req.param("tool"))))),
);

tools.post(
  "/api/v1/agent_tools/:tool/deactivate",
  named("Deactivate a tool"),
  allow("tools:write"),
  gives(200, tool),
  async (c) => c.var.answer(toTool(await deactivateTool(c.var.db, idOf(c.req.param("tool"))))),
);

export default tools;
