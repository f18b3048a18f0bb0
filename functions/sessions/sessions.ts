import { getChild, updateChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { invalid } from "../../lib/errors.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once, onceKept } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { isTerminal } from "../../lib/sessions/loop.ts";
import { createSession, deleteSession, listSessions, writableSession } from "../../lib/sessions/queries.ts";
import { changed, reached, senderOf } from "../../lib/sessions/reach.ts";
import { sessionOf } from "../../lib/sessions/remote.ts";
import {
  createSessionBody,
  listSessionsQuery,
  messageBody,
  session,
  sessionPage,
  toSession,
  updateSessionBody,
} from "../../lib/sessions/schema.ts";

const sessions = router();
const idOf = (text: string) => parseId("agent_session", text);

sessions.get(
  "/api/v1/agent_sessions",
  named("List sessions"),
  allow("sessions:read"),
  valid("query", listSessionsQuery),
  gives(200, sessionPage, 404),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openCursor(c.env.ROOT_SECRETS, "agent_sessions", c.var.db.tenant, query);
    const rows = await listSessions(c.var.db, query, page);
    return c.var.answer(await paginateByCursor(page, rows, (row) => toSession(row, null)));
  },
);

/** By who may change the agent. A session that its object didn't hear of is found by the sweep. */
sessions.post(
  "/api/v1/agent_sessions",
  named("Start a session"),
  allow("sessions:write"),
  valid("json", createSessionBody),
  once("agent_session"),
  gives(201, session, 404),
  async (c) => {
    const row = await c.var.once(
      (db, id) => createSession(db, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_session", id),
    );
    const begun = sessionOf(c.env, row).view(row);
    const view = await begun.catch((error) => {
      console.error(JSON.stringify({ session: row.id, error: String(error) }));
      return null;
    });
    return c.var.answer(toSession(row, view));
  },
);

sessions.get("/api/v1/agent_sessions/:agent_session", allow("sessions:read"), gives(200, session), async (c) => {
  const row = await getChild(c.var.db, "agent_session", idOf(c.req.param("agent_session")));
  return c.var.answer(toSession(row, await reached(sessionOf(c.env, row).view(row))));
});

sessions.patch(
  "/api/v1/agent_sessions/:agent_session",
  allow("sessions:write"),
  valid("json", updateSessionBody),
  gives(200, session),
  async (c) => {
    const { metadata } = c.req.valid("json");
    const row = await updateChild(c.var.db, "agent_session", idOf(c.req.param("agent_session")), {
      metadata: metadata && JSON.stringify(metadata),
    });
    return c.var.answer(toSession(row, await reached(sessionOf(c.env, row).view(row))));
  },
);

sessions.delete("/api/v1/agent_sessions/:agent_session", allow("sessions:write"), givesNothing(422), async (c) => {
  await deleteSession(c.var.db, idOf(c.req.param("agent_session")), async (row) =>
    isTerminal((await reached(sessionOf(c.env, row).view(row))).status),
  );
  return c.var.answer();
});

sessions.post(
  "/api/v1/agent_sessions/:agent_session/cancel",
  named("Cancel a session"),
  allow("sessions:write"),
  gives(200, session),
  async (c) => {
    const row = await writableSession(c.var.db, idOf(c.req.param("agent_session")));
    return c.var.answer(toSession(row, await reached(sessionOf(c.env, row).cancel(row))));
  },
);

sessions.post(
  "/api/v1/agent_sessions/:agent_session/message",
  named("Send a session a message"),
  allow("sessions:write"),
  valid("json", messageBody),
  onceKept("The same key is one message, however often it is sent, as long as the session is there."),
  gives(200, session, 409, 429),
  async (c) => {
    const { content, role, metadata, on_busy } = c.req.valid("json");
    if (role === "system" && c.var.credential.kind === "user") {
      throw invalid({ field: "role", message: "may be system for a secret key alone" });
    }
    const key = await c.var.readKey();
    const row = await writableSession(c.var.db, idOf(c.req.param("agent_session")));
    const message = { role, content, metadata: metadata ?? {}, sender: senderOf(c.var.credential), on_busy, key };
    return c.var.answer(toSession(row, await changed(sessionOf(c.env, row).message(row, message))));
  },
);

export default sessions;
