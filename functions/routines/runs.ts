import { createMiddleware } from "hono/factory";
import { allow } from "../../lib/auth/allow.ts";
import { invalid } from "../../lib/errors.ts";
import { givesEvents } from "../../lib/http/events.ts";
import { gives } from "../../lib/http/gives.ts";
import { isKey, KEY, keyHeader, NO_KEY } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named, withSpec } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { getRun, invokeRoutine, listRuns, listRunsOf } from "../../lib/routine-runs/queries.ts";
import {
  invokeBody,
  isOver,
  journalPage,
  journalQuery,
  listAllRunsQuery,
  listRunsQuery,
  run,
  runPage,
  toRun,
} from "../../lib/routine-runs/schema.ts";

const runs = router();
const idOf = (text: string) => parseId("agent_routine_run", text);

runs.get(
  "/api/v1/agent_routine_runs",
  named("List the runs of routines"),
  allow("routines:read"),
  valid("query", listAllRunsQuery),
  gives(200, runPage, 404),
  async (c) => {
    const query = c.req.valid("query");
    const page = await openCursor(c.env.ROOT_SECRETS, "agent_routine_runs", c.var.db.tenant, query);
    const { has_more: _, ...answer } = await paginateByCursor(page, await listRuns(c.var.db, query, page), toRun);
    return c.var.answer(answer);
  },
);

runs.get(
  "/api/v1/agent_routine_runs/:agent_routine_run/stream",
  named("Follow a run of a routine"),
  allow("routines:read"),
  givesEvents("run_update", run),
  async (c) => {
    const id = idOf(c.req.param("agent_routine_run"));
    const read = async () => toRun(await getRun(c.var.db, id));
    return c.var.follow({ now: await read(), read, isOver });
  },
);

runs.get(
  "/api/v1/agent_routines/runs/:run",
  named("Get a run of a routine"),
  allow("routines:read"),
  gives(200, run),
  async (c) => c.var.answer(toRun(await getRun(c.var.db, idOf(c.req.param("run"))))),
);

runs.get(
  "/api/v1/agent_routines/runs/:run/journal",
  named("Read the journal of a run"),
  allow("routines:read"),
  valid("query", journalQuery),
  gives(200, journalPage),
  async (c) => {
    await openCursor(c.env.ROOT_SECRETS, "agent_routine_run_journal", c.var.db.tenant, c.req.valid("query"));
    await getRun(c.var.db, idOf(c.req.param("run")));
    return c.var.answer({ data: [], journal: null, has_more: false, before_cursor: null, after_cursor: null });
  },
);

runs.get(
  "/api/v1/agent_routines/:routine/runs",
  named("List the runs of a routine"),
  allow("routines:read"),
  valid("query", listRunsQuery),
  gives(200, runPage),
  async (c) => {
    const query = c.req.valid("query");
    const id = parseId("agent_routine", c.req.param("routine"));
    const page = await openCursor(c.env.ROOT_SECRETS, `agent_routine_runs of ${id}`, c.var.db.tenant, query);
    const { has_more: _, ...answer } = await paginateByCursor(page, await listRunsOf(c.var.db, id, query, page), toRun);
    return c.var.answer(answer);
  },
);

const keyed = withSpec(
  createMiddleware((_, next) => next()),
  keyHeader("The same key makes one run, which is answered again until it is over; completed, a 409."),
);

/** The routine by its id or its lookup_key. */
runs.post(
  "/api/v1/agent_routines/:routine/invoke",
  named("Invoke a routine"),
  allow("routines:write"),
  valid("json", invokeBody),
  keyed,
  gives(200, run, 409),
  async (c) => {
    const body = c.req.valid("json");
    const idempotency_key = oneKey(c.req.header(KEY), body.idempotency_key);
    return c.var.answer(toRun(await invokeRoutine(c.var.db, c.req.param("routine"), { ...body, idempotency_key })));
  },
);

/** The header and the field of the body are one key. */
function oneKey(header: string | undefined, field: string | null | undefined): string | null {
  if (header !== undefined && !isKey(header)) throw invalid({ field: KEY, message: NO_KEY });
  if (header !== undefined && field != null && header !== field) {
    throw invalid({ field: "idempotency_key", message: `differs from the header ${KEY}` });
  }
  return header ?? field ?? null;
}

export default runs;
