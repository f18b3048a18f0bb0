import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { listCalls, listCallsOf, writableSession } from "../../lib/sessions/queries.ts";
import { changed, senderOf } from "../../lib/sessions/reach.ts";
import { type Resolution, sessionOf } from "../../lib/sessions/remote.ts";
import {
  callPage,
  decideBody,
  listCallsQuery,
  resolveBody,
  session,
  toCall,
  toSession,
} from "../../lib/sessions/schema.ts";

const calls = router();
const idOf = (text: string) => parseId("agent_session", text);

/** Those that the viewer may act on, whatever session they are of: what waits for a person, by its outcome. */
calls.get(
  "/api/v1/tool_calls",
  named("List tool calls"),
  allow("sessions:read"),
  valid("query", listCallsQuery),
  gives(200, callPage),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openCursor(c.env.ROOT_SECRETS, "tool_calls", c.var.db.tenant, query);
    return c.var.answer(await paginateByCursor(page, await listCalls(c.var.db, query, page), toCall));
  },
);

calls.get(
  "/api/v1/agent_sessions/:agent_session/tool_calls",
  named("List the tool calls of a session"),
  allow("sessions:read"),
  valid("query", listCallsQuery),
  gives(200, callPage),
  async (c) => {
    const query = c.req.valid("query");
    const id = idOf(c.req.param("agent_session"));
    const page = await openCursor(c.env.ROOT_SECRETS, `tool_calls of ${id}`, c.var.db.tenant, query);
    return c.var.answer(await paginateByCursor(page, await listCallsOf(c.var.db, id, query, page), toCall));
  },
);

calls.post(
  "/api/v1/agent_sessions/:agent_session/tool_calls/:tool_call/approve",
  named("Approve a tool call"),
  allow("sessions:write"),
  valid("json", decideBody),
  gives(200, session, 409),
  async (c) => {
    const { agent_session, tool_call } = c.req.param();
    const decision = { ...c.req.valid("json"), approved: true, by: senderOf(c.var.credential) };
    const row = await writableSession(c.var.db, idOf(agent_session));
    const call = parseId("tool_call", tool_call);
    return c.var.answer(toSession(row, await changed(sessionOf(c.env, row).decide(row, call, decision))));
  },
);

calls.post(
  "/api/v1/agent_sessions/:agent_session/tool_calls/:tool_call/deny",
  named("Deny a tool call"),
  allow("sessions:write"),
  valid("json", decideBody),
  gives(200, session, 409),
  async (c) => {
    const { agent_session, tool_call } = c.req.param();
    const decision = { ...c.req.valid("json"), approved: false, by: senderOf(c.var.credential) };
    const row = await writableSession(c.var.db, idOf(agent_session));
    const call = parseId("tool_call", tool_call);
    return c.var.answer(toSession(row, await changed(sessionOf(c.env, row).decide(row, call, decision))));
  },
);

/** Says what became of a call of which nobody knows whether it happened. */
calls.post(
  "/api/v1/agent_sessions/:agent_session/tool_calls/:tool_call/resolve",
  named("Resolve a tool call"),
  allow("sessions:write"),
  valid("json", resolveBody),
  gives(200, session, 409),
  async (c) => {
    const { agent_session, tool_call } = c.req.param();
    const resolution = { ...(c.req.valid("json") as Resolution), by: senderOf(c.var.credential) };
    const row = await writableSession(c.var.db, idOf(agent_session));
    const call = parseId("tool_call", tool_call);
    return c.var.answer(toSession(row, await changed(sessionOf(c.env, row).resolve(row, call, resolution))));
  },
);

export default calls;
