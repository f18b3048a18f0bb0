import { createMiddleware } from "hono/factory";
import * as v from "valibot";
import { getChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { invalid } from "../../lib/errors.ts";
import { givesEventsWhile } from "../../lib/http/events.ts";
import { givesPieces } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named, withSpec } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { watch } from "../../lib/http/watch.ts";
import { parseId } from "../../lib/ids.ts";
import { tapeOf } from "../../lib/sessions/export.ts";
import { framesAfter, viewsOf } from "../../lib/sessions/follow.ts";
import { frameSchemas } from "../../lib/sessions/frames.ts";
import { eventsQuery, sequence, session, tape, toSession } from "../../lib/sessions/schema.ts";

const streams = router();
const idOf = (text: string) => parseId("agent_session", text);

const LAST = "Last-Event-ID";
const resumable = withSpec(
  createMiddleware((_, next) => next()),
  {
    parameters: [
      {
        in: "header",
        name: LAST,
        description: "The id of the last event that was taken: what follows it is told. Wins over `after`.",
        schema: { type: "string" },
      },
    ],
  },
);
function resumedAt(id: string | undefined): number | undefined {
  if (id === undefined) return undefined;
  const { success, output, issues } = v.safeParse(sequence, id);
  if (!success) throw invalid({ field: LAST, message: issues[0].message });
  return output;
}

streams.get(
  "/api/v1/agent_sessions/:agent_session/stream",
  named("Follow the status of a session"),
  allow("sessions:read"),
  givesEventsWhile({ session_update: session }),
  async (c) => {
    const read = () => getChild(c.var.db, "agent_session", idOf(c.req.param("agent_session")));
    const row = await read();
    const watching = watch(c, "sessions:read", read);
    const updates = async function* () {
      for await (const view of viewsOf(c.env, row)) yield ["session_update", toSession(row, view)] as const;
    };
    return c.var.tell(updates(), watching);
  },
);

streams.get(
  "/api/v1/agent_sessions/:agent_session/events",
  named("Follow everything that happens in a session"),
  allow("sessions:read"),
  valid("query", eventsQuery),
  resumable,
  givesEventsWhile(frameSchemas),
  async (c) => {
    const after = resumedAt(c.req.header(LAST)) ?? c.req.valid("query").after ?? 0;
    const read = () => getChild(c.var.db, "agent_session", idOf(c.req.param("agent_session")));
    const row = await read();
    const watching = watch(c, "sessions:read", read);
    const events = async function* () {
      for await (const frame of framesAfter(c.env, row, after)) yield [frame.type, frame, frame.sequence] as never;
    };
    return c.var.tell(events(), watching);
  },
);

streams.get(
  "/api/v1/agent_sessions/:agent_session/export",
  named("Export the tape of a session"),
  allow("sessions:read"),
  givesPieces(tape, 409),
  async (c) => {
    const row = await getChild(c.var.db, "agent_session", idOf(c.req.param("agent_session")));
    return c.var.write(await tapeOf(c.env, row));
  },
);

export default streams;
