import { describe, expect, it } from "vitest";
import type { Overlap } from "../../../lib/db/schema.ts";
import type { Found } from "../../../lib/occurrences/claim.ts";
import { judge, MOST_COMES } from "../../../lib/occurrences/judge.ts";
import { MOST_INSTANTS } from "../../../lib/occurrences/plan.ts";

const NOON = "2026-06-01T12:00:00.000Z";
const ONE = "2026-06-01T13:00:00.000Z";
const NOW = Date.parse(NOON);

const policies = { catchup: "all", catchup_window_seconds: 3600, jitter_seconds: 0 };
const free = { busy: false, waiting: 0 };
const aSchedule = (overlap: Overlap, fields: object = {}) => ({
  ...{ id: "asc_1", schedule_type: "recurring", scheduled_at: null, cron_expression: "0 * * * *", timezone: "UTC" },
  ...{
    ...policies,
    ...free,
    overlap,
    max_runs: null,
    run_count: 0,
    next_run_at: NOON,
    due_at: NOON,
    updated_at: "seen",
  },
  ...fields,
});
const aRoutine = (overlap: Overlap, fields: object = {}) => ({
  ...{ id: "arn_1", schedule: "0 * * * *", event_config: { "schedule.cron": { ...policies, overlap } } },
  ...{ ...free, next_run_at: NOON, due_at: NOON, updated_at: "seen", ...fields },
});
const aWaiting = (id: string, overlap: Overlap, fields: object = {}) => ({
  ...{ id, overlap, schedule_id: "asc_1", routine_id: null, automation_id: null, busy: false, waiting: 1, gone: false },
  ...fields,
});
const judged = (found: object, suspended = false, now = NOW) => {
  const all = { agent_schedule: [], agent_routine: [], automation: [], waiting: [], next: null, ...found };
  return judge(all as unknown as Found, now, suspended);
};
const outcomes = (comes: { outcome: string }[]) => comes.map(({ outcome }) => outcome);

describe("what is due", () => {
  it.each([
    ["agent_schedule", aSchedule("allow_all")],
    ["agent_routine", aRoutine("allow_all")],
    ["automation", aRoutine("allow_all", { id: "cfg_1" })],
  ] as const)("of kind %s comes, and goes on from there", (kind, row) => {
    const { [kind]: work, ends } = judged({ [kind]: [row] });
    expect(work).toEqual({
      moves: [{ id: row.id, was: NOON, seen: "seen", next_run_at: ONE, status: "active", ran: 1 }],
      comes: [{ of: row.id, planned_at: NOON, outcome: "fired", overlap: "allow_all" }],
      settled: [],
    });
    expect(ends).toEqual([]);
  });

  it("comes no more once it has come so often", () => {
    const two = judged({ agent_schedule: [aSchedule("allow_all", { max_runs: 3, run_count: 1 })] }).agent_schedule;
    expect(two.moves).toMatchObject([{ next_run_at: ONE, status: "active", ran: 1 }]);
    const one = judged({ agent_schedule: [aSchedule("allow_all", { max_runs: 3, run_count: 2 })] }).agent_schedule;
    expect(one.moves).toMatchObject([{ next_run_at: null, status: "completed", ran: 1 }]);
  });

  it("that was changed comes from then on, and not at that instant", () => {
    const { agent_routine } = judged({ agent_routine: [aRoutine("skip", { next_run_at: null })] });
    expect(agent_routine).toMatchObject({ moves: [{ was: null, next_run_at: ONE, status: null, ran: 0 }], comes: [] });
    const never = judged({ agent_routine: [aRoutine("skip", { next_run_at: null, schedule: null })] }).agent_routine;
    expect(never.moves).toMatchObject([{ next_run_at: null }]);
  });

  it("comes as many as a statement can write, the longest due first: the others stay due", () => {
    const minutes = { cron_expression: "* * * * *", catchup_window_seconds: 86_400 };
    const rows = Array.from({ length: 15 }, (_, i) => aSchedule("allow_all", { ...minutes, id: `asc_${i}` }));
    const { comes, moves } = judged({ agent_schedule: rows }, false, NOW + 3 * 3_600_000).agent_schedule;
    expect(comes).toHaveLength(MOST_COMES);
    expect(moves.map(({ id }) => id)).toEqual(rows.slice(0, MOST_COMES / MOST_INSTANTS).map(({ id }) => id));
  });

  it("is suspended with its org", () => {
    const { agent_schedule } = judged({ agent_schedule: [aSchedule("allow_all")] }, true);
    expect(outcomes(agent_schedule.comes)).toEqual(["suspended"]);
  });

  it.each<[Overlap, boolean, string, string[]]>([
    ["cancel_other", true, "fired", ["asc_1"]],
    ["cancel_other", false, "fired", []],
    ["allow_all", true, "fired", []],
    ["skip", true, "skipped_overlap", []],
  ])("by %s, busy: %s, is %s, and ends %j", (overlap, busy, outcome, ends) => {
    const work = judged({ agent_schedule: [aSchedule(overlap, { busy })] });
    expect([outcomes(work.agent_schedule.comes), work.ends]).toEqual([[outcome], ends]);
  });

  it("ends no run itself: whoever admits it does", () => {
    expect(judged({ agent_routine: [aRoutine("cancel_other", { busy: true })] }).ends).toEqual([]);
  });
});

describe("what waits", () => {
  it.each([
    ["agent_schedule", {}],
    ["agent_routine", { schedule_id: null, routine_id: "arn_1" }],
    ["automation", { schedule_id: null, automation_id: "cfg_1" }],
  ] as const)("of kind %s begins once it is free", (kind, of) => {
    expect(judged({ waiting: [aWaiting("w1", "buffer_all", of)] })[kind].settled).toEqual([
      { id: "w1", outcome: "fired" },
    ]);
  });

  it("waits on while another is under way, or its org is suspended; is cancelled where its schedule is gone", () => {
    const settled = (fields: object, suspended = false) =>
      judged({ waiting: [aWaiting("w1", "buffer_all", fields)] }, suspended).agent_schedule.settled;
    expect(settled({ busy: true })).toEqual([]);
    expect(settled({}, true)).toEqual([]);
    expect(settled({ gone: true }, true)).toEqual([{ id: "w1", outcome: "cancelled" }]);
  });

  it("that cancels another has that ended, once it begins", () => {
    const ends = (overlap: Overlap, fields: object) => judged({ waiting: [aWaiting("w1", overlap, fields)] }).ends;
    expect(ends("cancel_other", { busy: true })).toEqual(["asc_1"]);
    expect(ends("cancel_other", {})).toEqual([]);
    expect(ends("allow_all", { busy: true })).toEqual([]);
    expect(ends("cancel_other", { busy: true, schedule_id: null, routine_id: "arn_1" })).toEqual([]);
  });

  it("is met by what is due: what has begun just now, and all that waits on", () => {
    const meeting = (overlap: Overlap, waiting: object[], fields: object = {}) =>
      outcomes(judged({ waiting, agent_schedule: [aSchedule(overlap, fields)] }).agent_schedule.comes);
    expect(meeting("skip", [aWaiting("w1", "buffer_all")])).toEqual(["skipped_overlap"]);
    expect(meeting("buffer_one", [aWaiting("w1", "buffer_all")])).toEqual(["buffered"]);
    expect(meeting("buffer_one", [aWaiting("w1", "buffer_all", { waiting: 2 })])).toEqual(["skipped_overlap"]);
    const two = [aWaiting("w1", "buffer_all", { waiting: 2 }), aWaiting("w2", "buffer_all", { waiting: 2 })];
    expect(meeting("buffer_one", two)).toEqual(["skipped_overlap"]);
    expect(meeting("buffer_one", [], { busy: true, waiting: 0 })).toEqual(["buffered"]);
    expect(meeting("buffer_one", [], { busy: true, waiting: 1 })).toEqual(["skipped_overlap"]);
  });
});
