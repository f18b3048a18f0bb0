import { deleteChild, updateChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { paginate } from "../../lib/paging.ts";
import { listMemory } from "../../lib/working-memory/queries.ts";
import {
  listMemoryQuery,
  memoryEntry,
  memoryPage,
  toMemoryEntry,
  updateMemoryBody,
} from "../../lib/working-memory/schema.ts";

const workingMemory = router();
const idOf = (text: string) => parseId("working_memory_entry", text);

workingMemory.get(
  "/api/v1/agents/:agent/agent_working_memory",
  named("List the working memory of an agent"),
  allow("working_memory:read"),
  valid("query", listMemoryQuery),
  gives(200, memoryPage),
  async (c) => {
    const query = c.req.valid("query");
    return c.var.answer(paginate(query, await listMemory(c.var.db, c.req.param("agent"), query), toMemoryEntry));
  },
);

workingMemory.patch(
  "/api/v1/agents/:agent/agent_working_memory/:entry",
  allow("working_memory:write"),
  valid("json", updateMemoryBody),
  gives(200, memoryEntry),
  async (c) => {
    const { agent, entry } = c.req.param();
    const change = c.req.valid("json");
    const row = await updateChild(c.var.db, "working_memory_entry", idOf(entry), change, { agent });
    return c.var.answer(toMemoryEntry(row));
  },
);

workingMemory.delete(
  "/api/v1/agents/:agent/agent_working_memory/:entry",
  allow("working_memory:write"),
  givesNothing(),
  async (c) => {
    const { agent, entry } = c.req.param();
    await deleteChild(c.var.db, "working_memory_entry", idOf(entry), agent);
    return c.var.answer();
  },
);

export default workingMemory;
