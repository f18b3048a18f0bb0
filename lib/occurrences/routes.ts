/** The addresses of what was planned and what came of it: of a schedule and of a routine's they are the same. */
import { allow } from "../auth/allow.ts";
import { gives } from "../http/gives.ts";
import { once } from "../http/once.ts";
import { router } from "../http/router.ts";
import { named } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { openCursor, paginateByCursor } from "../paging.ts";
import { wakeScheduler } from "../schedules/remote.ts";
import {
  backfill,
  getOccurrence,
  listOccurrences,
  type Of,
  occurrencesBetween,
  type Reached,
  runNow,
  upcomingOf,
} from "./queries.ts";
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
} from "./schema.ts";

/** Those below `at`, the address of what is `whose`; `read` says which one the parameters of an address mean. */
export function occurrenceRoutes<K extends Reached>(
  at: string,
  resource: "schedules" | "routines",
  whose: string,
  read: (parameters: Record<string, string>) => Of<K>,
) {
  const occurrences = router();

  occurrences.get(
    `${at}/occurrences`,
    named(`List the occurrences of ${whose}`),
    allow(`${resource}:read`),
    valid("query", listOccurrencesQuery),
    gives(200, occurrencePage),
    async (c) => {
      const of = read(c.req.param());
      const asked = c.req.valid("query");
      const page = await openCursor(c.env.ROOT_SECRETS, `occurrences of ${of.id}`, c.var.db.tenant, asked);
      return c.var.answer(await paginateByCursor(page, await listOccurrences(c.var.db, of, page), toOccurrence));
    },
  );

  occurrences.get(
    `${at}/upcoming`,
    named(`List what ${whose} comes to next`),
    allow(`${resource}:read`),
    valid("query", upcomingQuery),
    gives(200, upcoming),
    async (c) => c.var.answer({ data: await upcomingOf(c.var.db, read(c.req.param()), c.req.valid("query").count) }),
  );

  occurrences.post(
    `${at}/run`,
    named(`Run ${whose} now`),
    allow(`${resource}:write`),
    valid("json", runBody),
    once("occurrence"),
    gives(200, occurrence, 422),
    async (c) => {
      const of = read(c.req.param());
      const row = await c.var.once(
        (db, id) => runNow(db, of, id, c.req.valid("json").overlap),
        (db, id) => getOccurrence(db, of, id),
      );
      await wakeScheduler(c.env, row, "look");
      return c.var.answer(toOccurrence(await getOccurrence(c.var.db, of, row.id)));
    },
  );

  occurrences.post(
    `${at}/backfill`,
    named(`Run ${whose} for a time that is past`),
    allow(`${resource}:write`),
    valid("json", backfillBody),
    once("occurrence"),
    gives(200, backfilled, 409, 422),
    async (c) => {
      const of = read(c.req.param());
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

  return occurrences;
}
