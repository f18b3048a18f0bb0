/** The score: a table of its edges, and two properties of all of it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Facts, scoreOf, wantedBy } from "../../../lib/health/score.ts";
import type { Share } from "../../../lib/motion/report.ts";

const WELL: Facts = {
  ...{ required_actions: 0, other_actions: 0, degraded_actions: 0, model_missing: null, model_scripted: false },
  ...{ runs: { total: 0, failed: 0 }, tools: { total: 0, failed: 0 }, stuck: 0, schedules_missed: 0 },
  ...{ endpoints_disabled: 0, endpoints_failing: 0, computers_in_error: 0, installations_in_error: 0 },
};
const of = (failed: number, total: number): Share => ({ total, failed });

describe("the score of an agent", () => {
  const edges: [string, Partial<Facts>, number, string, string[]][] = [
    ["that lacks nothing", {}, 100, "ok", []],
    ["with a required action", { required_actions: 1 }, 60, "critical", ["actions"]],
    ["with required actions, which count once", { required_actions: 7 }, 60, "critical", ["actions"]],
    ["with another action", { other_actions: 1 }, 95, "warning", ["actions"]],
    ["with a degraded action", { degraded_actions: 1 }, 95, "warning", ["actions"]],
    ["with three of these together", { other_actions: 2, degraded_actions: 1 }, 85, "warning", ["actions"]],
    ["with four", { other_actions: 4 }, 80, "warning", ["actions"]],
    ["with five, of which four count", { other_actions: 2, degraded_actions: 3 }, 80, "warning", ["actions"]],
    ["with required and other actions", { required_actions: 1, other_actions: 9 }, 40, "critical", ["actions"]],
    ["without a model", { model_missing: "Set it." }, 60, "critical", ["model"]],
    ["with a scripted model", { model_scripted: true }, 90, "warning", ["model"]],
    ["of whose runs one of ten failed", { runs: of(1, 10) }, 100, "ok", []],
    ["of whose runs two of nineteen failed", { runs: of(2, 19) }, 90, "warning", ["runs"]],
    ["of whose runs a half failed", { runs: of(3, 6) }, 90, "warning", ["runs"]],
    ["of whose runs over half of five failed", { runs: of(3, 5) }, 70, "critical", ["runs"]],
    ["of whose four runs all failed", { runs: of(4, 4) }, 90, "warning", ["runs"]],
    ["of whose tool calls one of ten failed", { tools: of(1, 10) }, 100, "ok", []],
    ["of whose tool calls two of ten failed", { tools: of(2, 10) }, 90, "warning", ["tools"]],
    ["of whose tool calls five of five failed", { tools: of(5, 5) }, 70, "critical", ["tools"]],
    ["with one stuck", { stuck: 1 }, 70, "critical", ["stuck"]],
    ["with two stuck", { stuck: 2 }, 40, "critical", ["stuck"]],
    ["with three stuck, of which two count", { stuck: 3 }, 40, "critical", ["stuck"]],
    ["with a schedule missed", { schedules_missed: 3 }, 90, "warning", ["schedules"]],
    ["with endpoints disabled", { endpoints_disabled: 2 }, 80, "critical", ["webhook_endpoints"]],
    ["with endpoints failing", { endpoints_failing: 2 }, 90, "warning", ["webhook_endpoints"]],
    [
      "with one disabled, one failing",
      { endpoints_disabled: 1, endpoints_failing: 1 },
      70,
      "critical",
      ["webhook_endpoints"],
    ],
    ["with computers in error", { computers_in_error: 2 }, 90, "warning", ["computers"]],
    ["with an installation suspended", { installations_in_error: 1 }, 90, "warning", ["installations"]],
    [
      "with warnings alone, which make it critical together",
      {
        ...{ other_actions: 4, model_scripted: true, runs: of(1, 5), tools: of(1, 5) },
        schedules_missed: 1,
      },
      40,
      "critical",
      ["actions", "model", "runs", "tools", "schedules"],
    ],
    [
      "with all of it, and not below 0",
      { required_actions: 1, model_missing: "Set it.", runs: of(9, 9), tools: of(9, 9) },
      0,
      "critical",
      ["actions", "model", "runs", "tools"],
    ],
  ];
  it.each(edges)("%s", (_, amiss, score, status, keys) => {
    const found = scoreOf({ ...WELL, ...amiss });
    const bad = found.checks.filter((check) => check.status !== "ok");
    expect([found.score, found.status, bad.map(({ key }) => key)]).toEqual([score, status, keys]);
  });

  it("says what each check is, the same ones always, in one order", () => {
    expect(scoreOf(WELL).checks.map(({ key, status }) => `${key} ${status}`)).toEqual([
      ...["actions ok", "model ok", "runs ok", "tools ok", "stuck ok", "schedules ok"],
      ...["webhook_endpoints ok", "computers ok", "installations ok"],
    ]);
    const { checks } = scoreOf({ ...WELL, model_missing: "Set OPENAI_API_KEY." });
    expect(checks.find(({ key }) => key === "model")?.summary).toBe("Set OPENAI_API_KEY.");
  });
});

const few = fc.nat(6);
const share = fc.nat(20).chain((total) => fc.nat(total).map((failed) => ({ total, failed })));
const facts: fc.Arbitrary<Facts> = fc.record({
  ...{ required_actions: few, other_actions: few, degraded_actions: few, stuck: few, schedules_missed: few },
  ...{ model_missing: fc.option(fc.constant("Set it.")), model_scripted: fc.boolean(), runs: share, tools: share },
  ...{ endpoints_disabled: few, endpoints_failing: few, computers_in_error: few, installations_in_error: few },
});

/** The same figures, by somebody who writes them down one after the other. */
function naive(f: Facts): { score: number; status: string } {
  let score = 100;
  let critical = false;
  let warning = false;
  const worse = (by: number) => {
    score -= by;
    critical = true;
  };
  const bad = (by: number) => {
    score -= by;
    warning = true;
  };
  if (f.required_actions) worse(40);
  if (f.other_actions + f.degraded_actions) bad([0, 5, 10, 15][f.other_actions + f.degraded_actions] ?? 20);
  if (f.model_missing) worse(40);
  else if (f.model_scripted) bad(10);
  for (const { total, failed } of [f.runs, f.tools]) {
    if (total > 4 && failed / total > 0.5) worse(30);
    else if (total && failed / total > 0.1) bad(10);
  }
  if (f.stuck) worse(f.stuck === 1 ? 30 : 60);
  if (f.schedules_missed) bad(10);
  if (f.endpoints_disabled) worse(20);
  if (f.endpoints_failing) bad(10);
  if (f.computers_in_error) bad(10);
  if (f.installations_in_error) bad(10);
  score = score < 0 ? 0 : score;
  return { score, status: critical || score < 50 ? "critical" : warning || score < 80 ? "warning" : "ok" };
}

it("is as a naive second one says", () => {
  fc.assert(
    fc.property(facts, (given) => {
      const { score, status } = scoreOf(given);
      expect({ score, status }).toEqual(naive(given));
    }),
    { numRuns: 2_000 },
  );
});

it("never rises when anything grows worse, and neither does its status", () => {
  const rank = { ok: 0, warning: 1, critical: 2 };
  const worsened = (given: Facts): Facts[] =>
    [
      ...Object.entries(given).flatMap(([name, value]) =>
        typeof value === "number" ? [{ ...given, [name]: value + 1 }] : [],
      ),
      { ...given, model_missing: "Set it." },
      { ...given, model_scripted: true },
      ...(["runs", "tools"] as const).flatMap((what) => {
        const { total, failed } = given[what];
        const another = { ...given, [what]: { total: total + 1, failed: failed + 1 } };
        return failed < total ? [{ ...given, [what]: { total, failed: failed + 1 } }, another] : [another];
      }),
    ] as Facts[];
  fc.assert(
    fc.property(facts, (given) => {
      const before = scoreOf(given);
      for (const worse of worsened(given)) {
        const after = scoreOf(worse);
        expect([after.score <= before.score, rank[after.status] >= rank[before.status]]).toEqual([true, true]);
      }
    }),
    { numRuns: 2_000 },
  );
});

it("asks for something to be done wherever a person can do it, and for nothing else", () => {
  const wanted = (amiss: Partial<Facts>, secret: string | null = null) => {
    const given = { ...WELL, ...amiss };
    return wantedBy(given, secret).map(({ key, kind, title, required }) => [key, kind, title, required]);
  };
  expect(
    wanted({ required_actions: 1, runs: of(9, 9), tools: of(9, 9), schedules_missed: 1, model_scripted: true }),
  ).toEqual([]);
  expect(wanted({ model_missing: "Set it." }, "OPENAI_API_KEY")).toEqual([
    ["model:OPENAI_API_KEY", "env_var", "Set OPENAI_API_KEY", true],
  ]);
  expect(wanted({ model_missing: "Name one." })).toEqual([["model", "custom", "Name a model that can be asked", true]]);
  expect(wanted({ stuck: 1, endpoints_failing: 1, computers_in_error: 1, installations_in_error: 1 })).toEqual([
    ["stuck", "custom", "See to what doesn't go on", true],
    ["webhook_endpoints", "custom", "Mend the receivers of the org's webhook endpoints", false],
    ["computers", "custom", "See to the computers that are in error", false],
    ["installations", "custom", "See to the installations that are suspended", false],
  ]);
  expect(wanted({ endpoints_disabled: 1 })).toEqual([
    ["webhook_endpoints:disabled", "custom", "Enable the webhook endpoints of the org", true],
  ]);
});
