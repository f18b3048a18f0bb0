/** Which events start which routines, and which runs may begin. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Overlap, overlaps } from "../../../lib/db/schema.ts";
import { quotas } from "../../../lib/quotas.ts";
import { admit, type Running, type Waiting } from "../../../lib/runs/admit.ts";
import { firing, MAX_CAUSES, matches, valueAt } from "../../../lib/runs/match.ts";

type Fired = Parameters<typeof firing>;
const event = (fields: object = {}): Fired[0] => ({
  ...{ name: "custom.a", payload: { a: { b: 1 } }, readers: null, causes: [], position: 7 },
  ...fields,
});
const routine = (trigger: object | null = {}, fields: object = {}): Fired[1] => ({
  ...{ id: "arn_1" as Fired[1]["id"], agent_id: "agi_1" as Fired[1]["agent_id"], user_id: null, event_type: null },
  heard_since: { "custom.a": 6 },
  ...{ event_config: trigger && { "custom.a": trigger }, ...fields },
});

describe("an event", () => {
  it.each<[string, object, object, object | null]>([
    ["named in event_config", event(), routine(), {}],
    ["named by event_type", event(), routine(null, { event_type: "custom.a" }), {}],
    ["not named", event({ name: "custom.b" }), routine(), null],
    ["of a name that objects have", event({ name: "constructor" }), routine(), null],
    ["whose filters hold", event(), routine({ filters: { "a.b": 1 } }), {}],
    ["whose filters hold, spelt from $", event(), routine({ filters: { "$.a.b": 1, $: { a: { b: 1 } } } }), {}],
    ["whose filters don't hold", event(), routine({ filters: { "a.b": 2 } }), null],
    ["one of whose filters doesn't hold", event(), routine({ filters: { "a.b": 1, "a.c": 1 } }), null],
    ["without what a filter names, which is null", event(), routine({ filters: { "a.c": null } }), {}],
    ["of before it became active", event(), routine({}, { heard_since: { "custom.a": 8 } }), null],
    ["of before it was named", event(), routine({}, { heard_since: { "custom.a": 7, "custom.b": 1 } }), null],
    ["while it isn't active", event(), routine({}, { heard_since: null }), null],
    ["for everyone", event({ readers: ["everyone"] }), routine(), {}],
    ["for its agent", event({ readers: ["agent:agi_1"] }), routine(), {}],
    ["for its co-owner", event({ readers: ["user:usr_1"] }), routine({}, { user_id: "usr_1" }), {}],
    ["for others", event({ readers: ["user:usr_2", "agent:agi_2"] }), routine({}, { user_id: "usr_1" }), null],
    ["for nobody", event({ readers: [] }), routine(), null],
    ["that it caused", event({ causes: ["arn_1"] }), routine(), null],
    ["that it caused, and wants", event({ causes: ["arn_1"] }), routine({ allow_self: true }), {}],
    ["of the eighth link", event({ causes: Array(MAX_CAUSES - 1).fill("arn_2") }), routine(), { reason: null }],
    ["of the ninth link", event({ causes: Array(MAX_CAUSES).fill("arn_2") }), routine(), { reason: "loop" }],
    ["with a key", event(), routine({ dedupe_key_path: "$.a.b" }), { dedupe_key: "1", dedupe_window_s: 86_400 }],
    ["with a window", event(), routine({ dedupe_key_path: "a", dedupe_window_seconds: 5 }), { dedupe_window_s: 5 }],
    ["without what the key names", event(), routine({ dedupe_key_path: "b" }), { dedupe_key: null }],
  ])("%s", (_, event, routine, expected) => {
    const found = firing(event as never, routine as never);
    if (expected) expect(found).toMatchObject({ reason: null, ...expected });
    else expect(found).toBeNull();
  });

  const key = fc.stringMatching(/^[a-z]{1,3}$/);
  it("holds to every filter that is made of it, and to none that says another thing", () => {
    fc.assert(
      fc.property(fc.dictionary(key, fc.dictionary(key, fc.jsonValue(), { minKeys: 1 }), { minKeys: 1 }), (payload) => {
        for (const [a, inner] of Object.entries(payload)) {
          for (const [b, value] of Object.entries(inner)) {
            expect(valueAt(payload, `${a}.${b}`)).toEqual(value);
            expect(matches({ [`${a}.${b}`]: value }, payload)).toBe(true);
            expect(matches({ [`$.${a}.${b}`]: [value] }, payload)).toBe(false);
          }
        }
      }),
    );
  });

  it("has the same key whatever the order of what that holds", () => {
    const of = (payload: object) => firing(event({ payload }), routine({ dedupe_key_path: "a" }))!.dedupe_key;
    expect(of({ a: { x: 1, y: [2] } })).toBe(of({ a: { y: [2], x: 1 } }));
    expect(of({ a: "1" })).not.toBe(of({ a: 1 }));
    expect(of({ a: `${"x".repeat(2000)}1` })).not.toBe(of({ a: `${"x".repeat(2000)}2` }));
  });
});

const waiting = (id: string, fields: Partial<Waiting> = {}): Waiting => ({
  ...{ id, agent_id: "one", routine_id: "r", overlap: "allow_all", max_concurrent: null, ...fields },
});
const running = (id: string, fields: Partial<Running> = {}): Running => ({
  id,
  agent_id: "one",
  routine_id: "r",
  ...fields,
});
const none = { admitted: [], skipped: [], cancelled: [] };
const all = (ids: string[], overlap: Overlap, fields: Partial<Waiting> = {}) =>
  ids.map((id) => waiting(id, { overlap, ...fields }));

describe("what waits", () => {
  it.each<[string, Waiting[], Running[], object]>([
    ["runs beside another", all(["b", "c"], "allow_all"), [running("a")], { ...none, admitted: ["b", "c"] }],
    ["skips where one runs", all(["b", "c"], "skip"), [running("a")], { ...none, skipped: ["b", "c"] }],
    ["skips where one has just begun", all(["b", "c"], "skip"), [], { ...none, admitted: ["b"], skipped: ["c"] }],
    ["is buffered, one", all(["b", "c"], "buffer_one"), [running("a")], { ...none, skipped: ["c"] }],
    ["is buffered, all", all(["b", "c"], "buffer_all"), [running("a")], none],
    ["goes on when there is room", all(["b", "c"], "buffer_all"), [], { ...none, admitted: ["b"] }],
    ["cancels others", all(["b"], "cancel_other"), [running("a")], { ...none, admitted: ["b"], cancelled: ["a"] }],
    [
      "cancels others that wait, but for the newest",
      all(["b", "c"], "cancel_other"),
      [running("a")],
      { ...none, admitted: ["c"], cancelled: ["b", "a"] },
    ],
    [
      "is as many at once as may be",
      all(["b", "c"], "skip", { max_concurrent: 2 }),
      [running("a")],
      { ...none, admitted: ["b"], skipped: ["c"] },
    ],
    [
      "waits beyond that",
      all(["b", "c"], "allow_all", { max_concurrent: 2 }),
      [running("a")],
      { ...none, admitted: ["b"] },
    ],
    [
      "of a routine that is gone comes to its object",
      [waiting("b", { routine_id: null })],
      [],
      { ...none, admitted: ["b"] },
    ],
    [
      "is another routine's affair",
      all(["b"], "skip"),
      [running("a", { routine_id: "s" })],
      { ...none, admitted: ["b"] },
    ],
  ])("%s", (_, waits, runs, expected) => expect(admit(waits, runs, quotas, 100).admission).toEqual(expected));

  it("has the place, also its agent's, of what it cancels", () => {
    const { admission } = admit(
      all(["b"], "cancel_other"),
      [running("a")],
      { ...quotas, runs_at_once: 1, runs_at_once_of_an_agent: 1 },
      1,
    );
    expect(admission).toEqual({ ...none, admitted: ["b"], cancelled: ["a"] });
  });

  it("comes in turn of agents: one with much to do starves none", () => {
    const many = Array.from({ length: 20 }, (_, i) => waiting(`a${i}`));
    const few = [waiting("b0", { agent_id: "two", routine_id: "s" })];
    const { admission } = admit([...many, ...few], [], quotas, 2);
    expect(admission.admitted).toEqual(["a0", "b0"]);
  });

  it.each<[string, number, number, number, object | null]>([
    ["nothing, where there is room", 2, 3, 3, null],
    ["what may begin in a minute", 1, 2, 3, { quota: "runs_started_per_minute", agent: null }],
    ["what an org may have at once", 2, 1, 3, { quota: "runs_at_once", agent: null }],
    ["what its agent may have at once", 2, 3, 1, { quota: "runs_at_once_of_an_agent", agent: "one" }],
  ])("has come to %s", (_, rate, runs_at_once, runs_at_once_of_an_agent, expected) => {
    const few = { ...quotas, runs_at_once, runs_at_once_of_an_agent };
    expect(admit(all(["a", "b"], "allow_all"), [], few, rate).reached).toEqual(expected);
  });

  it("has come to no quota where it waits for its like", () => {
    expect(admit(all(["b"], "buffer_all"), [running("a")], { ...quotas, runs_at_once: 1 }, 1).reached).toBeNull();
  });

  it("never is more than may be, of an org, an agent, or in a minute, and uses what there is", () => {
    const run = fc.record({
      agent_id: fc.constantFrom("one", "two", "three"),
      routine_id: fc.constantFrom("r", "s"),
      overlap: fc.constantFrom(...overlaps),
      max_concurrent: fc.constantFrom(null, 1, 3),
    });
    const small = { ...quotas, runs_at_once: 6, runs_at_once_of_an_agent: 3, runs_started_per_minute: 600 };
    fc.assert(
      fc.property(fc.array(run, { maxLength: 20 }), fc.array(run, { maxLength: 6 }), fc.nat(8), (waits, runs, rate) => {
        const w = waits.map((one, i) => ({ ...one, id: `w${i}`, routine_id: `${one.agent_id} ${one.routine_id}` }));
        const r = runs.map((one, i) => ({ ...one, id: `r${i}`, routine_id: `${one.agent_id} ${one.routine_id}` }));
        const { admission, reached } = admit(w, r, small, rate);
        const { admitted, skipped, cancelled } = admission;
        const listed = [...admitted, ...skipped, ...cancelled];
        expect(new Set(listed).size).toBe(listed.length);
        expect(admitted.length).toBeLessThanOrEqual(rate);
        const open = [...r.filter(({ id }) => !cancelled.includes(id)), ...w.filter(({ id }) => admitted.includes(id))];
        // What ran before may be more than may be now: nothing is added to that.
        if (admitted.length) expect(open.length).toBeLessThanOrEqual(small.runs_at_once);
        for (const agent of ["one", "two", "three"]) {
          const its = open.filter(({ agent_id }) => agent_id === agent);
          const isNew = its.some(({ id }) => admitted.includes(id));
          if (isNew) expect(its.length).toBeLessThanOrEqual(small.runs_at_once_of_an_agent);
        }
        const free = w.filter(
          ({ id, overlap, max_concurrent }) =>
            !listed.includes(id) && overlap === "allow_all" && max_concurrent === null,
        );
        if (free.length) expect(reached).not.toBeNull();
        for (const { agent_id } of free) {
          const isFull =
            admitted.length === rate ||
            open.length >= small.runs_at_once ||
            open.filter((one) => one.agent_id === agent_id).length >= small.runs_at_once_of_an_agent;
          expect(isFull).toBe(true);
        }
      }),
    );
  });
});
