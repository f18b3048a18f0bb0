/**
 * What an agent carries, against a plain model of its rules (tests/model/world.ts): sequences of creating, changing and
 * deleting, of which nobody thought one by one. The same seed makes the same sequences.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { anApp, must } from "./harness/index.ts";
import { type Step, verbs, World } from "./model/world.ts";

const number = fc.noBias(fc.nat(1000));
const aStep = fc.record({ verb: fc.noBias(fc.constantFrom(...verbs)), a: number, b: number, c: number });

/** There and back, as chance seldom goes. */
const WALK: Step[] = [
  ...["create routine", "pause routine", "activate routine", "create schedule", "pause schedule", "resume schedule"],
  ...["create installation", "activate installation", "pause installation", "activate installation"],
  ...["create memory", "create envVar"],
].map((verb) => ({ verb, a: 5, b: verb === "create envVar" ? 2 : 1, c: 1 }));
WALK.push({ verb: "create routine", a: 5, b: 3, c: 0 }, { verb: "pause routine", a: 7, b: 0, c: 0 });
/** A service that nothing connects yet. */
WALK.push({ verb: "create installation", a: 5, b: 3, c: 0 }, { verb: "activate installation", a: 7, b: 0, c: 0 });
/** What is suspended stays so, and what is paused isn't invoked. */
WALK.push({ verb: "suspend installation", a: 2, b: 1, c: 0 }, { verb: "activate installation", a: 2, b: 0, c: 0 });
WALK.push({ verb: "create routine", a: 7, b: 5, c: 1 }, { verb: "pause routine", a: 5, b: 0, c: 0 });
WALK.push({ verb: "create run", a: 8, b: 0, c: 0 });
/** An entry that ends, and then never; another that ends. */
WALK.push({ verb: "patch memory", a: 5, b: 2, c: 1 }, { verb: "patch memory", a: 5, b: 2, c: 0 });
WALK.push({ verb: "create memory", a: 7, b: 0, c: 0 }, { verb: "patch memory", a: 7, b: 2, c: 1 });
/** Actions, one after the other: what was done is undone, and what isn't active doesn't count. */
WALK.push({ verb: "create envVar", a: 5, b: 1, c: 0 }, { verb: "verify health", a: 3, b: 0, c: 0 });
WALK.push({ verb: "verify health", a: 5, b: 0, c: 0 }, { verb: "verify health", a: 7, b: 0, c: 0 });
WALK.push({ verb: "delete envVar", a: 2, b: 0, c: 0 }, { verb: "verify health", a: 5, b: 0, c: 0 });
WALK.push({ verb: "verify health", a: 2, b: 0, c: 0 });

/** What must have come up, or the sequences say less than they seem to. */
const CASES = [
  ...["create agent 409", "create agent 422", "patch agent 409", "delete agent 409", "create config 409"],
  ...["patch config 409", "delete config 409", "create tool 409", "create tool 422", "create tool limit"],
  ...["patch tool 422", "activate tool 409", "activate tool 422", "create skill 422", "create skill limit"],
  ...["create envVar 422", "create computer 409", "create computer limit", "refresh computer 422"],
  ...["create routine 409", "create routine 422", "create routine limit", "patch routine 422", "pause routine 422"],
  ...["create run 200", "create run 422", "create schedule 422", "create schedule limit"],
  ...["patch schedule 422", "pause schedule 422", "resume schedule 422", "create installation 409"],
  ...["create installation limit", "activate installation 422", "pause installation 422", "suspend installation 422"],
  ...["activate tool from disabled", "deactivate tool from active", "activate skill from inactive"],
  ...["activate routine from paused", "resume schedule from paused", "activate installation from paused"],
  ...["create source 422", "patch memory 200", "patch memory for ever", "delete memory 204", "verify health completed"],
  ...["verify health degraded", "verify health pending", "verify health 422"],
];

it("what an agent carries is as its rules say, whatever is done in whatever order", { timeout: 120_000 }, async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(aStep, { minLength: 220, maxLength: 250, size: "max" }), async (steps) => {
      const { acme, as, asDeveloper, at } = await anApp();
      await must(asDeveloper("PATCH", at, { settings: { quotas: { computers: 100_000 } } }), 200);
      const world = new World(as(acme));
      await world.begin();
      for (let a = 0; a < 2; a++) await world.take({ verb: "create agent", a, b: 0, c: 2 });
      for (const step of WALK) await world.take(step);
      await world.check();
      for (const step of steps) await world.take(step);
      await world.check();
      for (const [what, n] of world.seen) seen.set(what, (seen.get(what) ?? 0) + n);
    }),
    { seed: 1, numRuns: 4, endOnFailure: true },
  );
  expect(
    CASES.filter((what) => !seen.has(what)),
    JSON.stringify([...seen].sort()),
  ).toEqual([]);
});
