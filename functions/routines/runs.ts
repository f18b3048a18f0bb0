import { createMiddleware } from "hono/factory";
import { allow } from "../../lib/auth/allow.ts";
import { invalid } from "../../lib/errors.ts";
import { wakeDispatcher } from "../../lib/events/remote.ts";
import { givesEventsWhile } from "../../lib/http/events.ts";
import { gives } from "../../lib/http/gives.ts";
import { isKey, KEY, keyHeader, NO_KEY, once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named, withSpec } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { watch } from "../../lib/http/watch.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { cancelRun, getRun, invokeRoutine, listRuns, listRunsOf, retryRun } from "../../lib/routine-runs/queries.ts";
import {
  invokeBody,
  journalPage,
  journalQuery,
  listAllRunsQuery,
  listRunsQuery,
  run,
  runPage,
  toJournal,
  toRun,
} from "../../lib/routine-runs/schema.ts";
import { liveRun, runsAfter } from "../../lib/runs/follow.ts";
import { runsOf } from "../../lib/runs/remote.ts";
import { reached } from "../../lib/sessions/reach.ts";

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
  givesEventsWhile({ run_update: run }),
  async (c) => {
    const read = () => getRun(c.var.db, idOf(c.req.param("agent_routine_run")));
    await read();
    const watching = watch(c, "routines:read", read);
    const updates = async function* () {
      for await (const row of runsAfter(c.env, read)) yield ["run_update", toRun(row)] as const;
    };
    return c.var.tell(updates(), watching);
  },
);

runs.get(
  "/api/v1/agent_routines/runs/:run",
  named("Get a run of a routine"),
  allow("routines:read"),
  gives(200, run),
  async (c) => c.var.answer(toRun(await liveRun(c.env, await getRun(c.var.db, idOf(c.req.param("run")))))),
);

runs.get(
  "/api/v1/agent_routines/runs/:run/journal",
  named("Read the journal of a run"),
  allow("routines:read"),
  valid("query", journalQuery),
  gives(200, journalPage),
  async (c) => {
    const id = idOf(c.req.param("run"));
    const query = c.req.valid("query");
    const page = await openCursor(c.env.ROOT_SECRETS, `journal of ${id}`, c.var.db.tenant, query);
    const row = await getRun(c.var.db, id);
    const after = Number(page.from ?? 0);
    const journal = toJournal(row, await reached(runsOf(c.env, row).frames(row, after, page.limit, 0)));
    const last = journal.data.at(-1)?.sequence ?? after;
    const after_cursor = journal.journal ? await page.seal(String(last)) : null;
    return c.var.answer({ ...journal, before_cursor: null, after_cursor });
  },
);

/** Ends it, whatever it does. By who may change its agent, and it; so are those below. */
runs.post(
  "/api/v1/agent_routines/runs/:run/cancel",
  named("Cancel a run of a routine"),
  allow("routines:write"),
  gives(200, run),
  async (c) => {
    const row = await cancelRun(c.var.db, idOf(c.req.param("run")));
    if (row.admitted_at === null) return c.var.answer(toRun(row));
    return c.var.answer(toRun({ ...row, ...(await reached(runsOf(c.env, row).cancel(row))) }));
  },
);

/** Makes a new run of the same. */
runs.post(
  "/api/v1/agent_routines/runs/:run/retry",
  named("Retry a run of a routine"),
  allow("routines:write"),
  once("agent_routine_run"),
  gives(200, run, 422),
  async (c) => {
    const of = idOf(c.req.param("run"));
    const row = await c.var.once(
      (db, id) => retryRun(db, of, id),
      (db, id) => getRun(db, id),
    );
    c.executionCtx.waitUntil(wakeDispatcher(c.env, row));
    return c.var.answer(toRun(row));
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
