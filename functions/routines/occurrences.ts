import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import {
  backfill,
  getOccurrence,
  listOccurrences,
  occurrencesBetween,
  runNow,
  upcomingOf,
} from "../../lib/occurrences/queries.ts";
import {
  backfillBody,
  backfilled,
  listOccurrencesQuery,
  occurrence,
  occurrencePage,
  runBody,
  toOccurrence,
  upcoming,
  upcomingQuery,
} from "../../lib/occurrences/schema.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { wakeScheduler } from "../../lib/schedules/remote.ts";

const occurrences = router();
const ofRoutine = ({ routine }: { routine: string }) =>
  ({ kind: "agent_routine", id: parseId("agent_routine", routine) }) as const;

occurrences.get(
  "/api/v1/agent_routines/:routine/occurrences",
  named("List the occurrences of a routine's schedule"),
  allow("routines:read"),
  valid("query", listOccurrencesQuery),
  gives(200, occurrencePage),
  async (c) => {
    const of = ofRoutine(c.req.param());
    const page = await openCursor(c.env.ROOT_SECRETS, `occurrences of ${of.id}`, c.var.db.tenant, c.req.valid("query"));
    return c.var.answer(await paginateByCursor(page, await listOccurrences(c.var.db, of, page), toOccurrence));
  },
);

occurrences.get(
  "/api/v1/agent_routines/:routine/upcoming",
  named("List what a routine's schedule comes to next"),
  allow("routines:read"),
  valid("query", upcomingQuery),
  gives(200, upcoming),
  async (c) => c.var.answer({ data: await upcomingOf(c.var.db, ofRoutine(c.req.param()), c.req.valid("query").count) }),
);

occurrences.post(
  "/api/v1/agent_routines/:routine/run",
  named("Run a scheduled routine now"),
  allow("routines:write"),
  valid("json", runBody),
  once("occurrence"),
  gives(200, occurrence, 422),
  async (c) => {
    const of = ofRoutine(c.req.param());
    const row = await c.var.once(
      (db, id) => runNow(db, of, id, c.req.valid("json").overlap),
      (db, id) => getOccurrence(db, of, id),
    );
    await wakeScheduler(c.env, row, "look");
    return c.var.answer(toOccurrence(await getOccurrence(c.var.db, of, row.id)));
  },
);

occurrences.post(
  "/api/v1/agent_routines/:routine/backfill",
  named("Run a scheduled routine for a time that is past"),
  allow("routines:write"),
  valid("json", backfillBody),
  once("occurrence"),
  gives(200, backfilled, 409, 422),
  async (c) => {
    const of = ofRoutine(c.req.param());
    const body = c.req.valid("json");
    const rows = await c.var.once(
      (db, id) => backfill(db, of, id, body),
      (db) => occurrencesBetween(db, of, body),
    );
    if (rows[0]) await wakeScheduler(c.env, rows[0], "look");
    const looked = await occurrencesBetween(c.var.db, of, body);
    return c.var.answer({ data: looked.map(toOccurrence) });
  },
);

export default occurrences;
