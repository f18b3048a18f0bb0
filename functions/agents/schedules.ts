import { deleteChild, getChild, listChildren } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
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

export default schedules;
