import { deleteChild, getChild, listChildren } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
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
import {
  cancelSchedule,
  createSchedule,
  pauseSchedule,
  resumeSchedule,
  updateSchedule,
} from "../../lib/schedules/queries.ts";
import { wakeIfSoon, wakeScheduler } from "../../lib/schedules/remote.ts";
import {
  createScheduleBody,
  listSchedulesQuery,
  schedule,
  scheduleList,
  toSchedule,
  updateScheduleBody,
} from "../../lib/schedules/schema.ts";

const schedules = router();
const idOf = (text: string) => parseId("agent_schedule", text);
const ofSchedule = ({ agent, schedule }: { agent: string; schedule: string }) =>
  ({ kind: "agent_schedule", id: idOf(schedule), agent }) as const;

schedules.get(
  "/api/v1/agents/:agent/schedules",
  named("List the schedules of an agent"),
  allow("schedules:read"),
  valid("query", listSchedulesQuery),
  gives(200, scheduleList),
  async (c) => {
    const { status } = c.req.valid("query");
    const rows = await listChildren(c.var.db, "agent_schedule", c.req.param("agent"), {
      narrow: (all) => (status ? all.where("status", "=", status) : all),
    });
    return c.var.answer({ data: rows.map(toSchedule) });
  },
);

/** The contract has only the two that read; the others are ours, in its style. */
schedules.post(
  "/api/v1/agents/:agent/schedules",
  named("Make a schedule for an agent"),
  allow("schedules:write"),
  valid("json", createScheduleBody),
  once("agent_schedule"),
  gives(200, schedule),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once(
      (db, id) => createSchedule(db, agent, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_schedule", id, agent),
    );
    await wakeIfSoon(c.env, row);
    return c.var.answer(toSchedule(row));
  },
);

schedules.get(
  "/api/v1/agents/:agent/schedules/:schedule",
  named("Get a schedule"),
  allow("schedules:read"),
  gives(200, schedule),
  async (c) => {
    const { agent, schedule } = c.req.param();
    return c.var.answer(toSchedule(await getChild(c.var.db, "agent_schedule", idOf(schedule), agent)));
  },
);

schedules.patch(
  "/api/v1/agents/:agent/schedules/:schedule",
  named("Update a schedule"),
  allow("schedules:write"),
  valid("json", updateScheduleBody),
  gives(200, schedule),
  async (c) => {
    const { agent, schedule } = c.req.param();
    const row = await updateSchedule(c.var.db, agent, idOf(schedule), c.req.valid("json"));
    await wakeIfSoon(c.env, row);
    return c.var.answer(toSchedule(row));
  },
);

schedules.delete(
  "/api/v1/agents/:agent/schedules/:schedule",
  named("Delete a schedule"),
  allow("schedules:write"),
  givesNothing(),
  async (c) => {
    const { agent, schedule } = c.req.param();
    await deleteChild(c.var.db, "agent_schedule", idOf(schedule), agent);
    return c.var.answer();
  },
);

schedules.post(
  "/api/v1/agents/:agent/schedules/:schedule/pause",
  named("Pause a schedule"),
  allow("schedules:write"),
  gives(200, schedule, 422),
  async (c) => {
    const { agent, schedule } = c.req.param();
    return c.var.answer(toSchedule(await pauseSchedule(c.var.db, agent, idOf(schedule))));
  },
);

schedules.post(
  "/api/v1/agents/:agent/schedules/:schedule/resume",
  named("Resume a schedule"),
  allow("schedules:write"),
  gives(200, schedule, 409, 422),
  async (c) => {
    const { agent, schedule } = c.req.param();
    const row = await resumeSchedule(c.var.db, agent, idOf(schedule));
    await wakeIfSoon(c.env, row);
    return c.var.answer(toSchedule(row));
  },
);

schedules.post(
  "/api/v1/agents/:agent/schedules/:schedule/cancel",
  named("Cancel a schedule"),
  allow("schedules:write"),
  gives(200, schedule, 422),
  async (c) => {
    const { agent, schedule } = c.req.param();
    const row = await cancelSchedule(c.var.db, agent, idOf(schedule));
    // What waits to begin never will.
    await wakeScheduler(c.env, row);
    return c.var.answer(toSchedule(row));
  },
);

schedules.get(
  "/api/v1/agents/:agent/schedules/:schedule/occurrences",
  named("List the occurrences of a schedule"),
  allow("schedules:read"),
  valid("query", listOccurrencesQuery),
  gives(200, occurrencePage),
  async (c) => {
    const of = ofSchedule(c.req.param());
    const page = await openCursor(c.env.ROOT_SECRETS, `occurrences of ${of.id}`, c.var.db.tenant, c.req.valid("query"));
    return c.var.answer(await paginateByCursor(page, await listOccurrences(c.var.db, of, page), toOccurrence));
  },
);

schedules.get(
  "/api/v1/agents/:agent/schedules/:schedule/upcoming",
  named("List what a schedule comes to next"),
  allow("schedules:read"),
  valid("query", upcomingQuery),
  gives(200, upcoming),
  async (c) =>
    c.var.answer({ data: await upcomingOf(c.var.db, ofSchedule(c.req.param()), c.req.valid("query").count) }),
);

schedules.post(
  "/api/v1/agents/:agent/schedules/:schedule/run",
  named("Run a schedule now"),
  allow("schedules:write"),
  valid("json", runBody),
  once("occurrence"),
  gives(200, occurrence, 422),
  async (c) => {
    const of = ofSchedule(c.req.param());
    const row = await c.var.once(
      (db, id) => runNow(db, of, id, c.req.valid("json").overlap),
      (db, id) => getOccurrence(db, of, id),
    );
    await wakeScheduler(c.env, row, "look");
    return c.var.answer(toOccurrence(await getOccurrence(c.var.db, of, row.id)));
  },
);

schedules.post(
  "/api/v1/agents/:agent/schedules/:schedule/backfill",
  named("Run a schedule for a time that is past"),
  allow("schedules:write"),
  valid("json", backfillBody),
  once("occurrence"),
  gives(200, backfilled, 409, 422),
  async (c) => {
    const of = ofSchedule(c.req.param());
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

export default schedules;
