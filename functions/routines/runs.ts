import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { KEY } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { invokeRoutine, listRuns, listRunsOf } from "../../lib/routine-runs/queries.ts";
import { keptByRuns, oneKey, routesOfRuns } from "../../lib/routine-runs/routes.ts";
import { invokeBody, listAllRunsQuery, listRunsQuery, run, runPage, toRun } from "../../lib/routine-runs/schema.ts";

const runs = router();

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

routesOfRuns(runs, {
  ...{ kind: "agent_routine_run", of: "routine", scope: "routines", view: run, to: toRun },
  at: "/api/v1/agent_routines/runs/:run",
  follow: "/api/v1/agent_routine_runs/:agent_routine_run/stream",
});

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

const keyed = keptByRuns("The same key makes one run, which is answered again until it is over; completed, a 409.");

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

export default runs;
