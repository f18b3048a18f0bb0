import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { failingStage, isNamed, lanesOf, nextAttempt, putOffOf } from "../../../lib/webhooks/rules.ts";
import { newSecret, signatures } from "../../../lib/webhooks/secrets.ts";

const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000];

describe("the next attempt", () => {
  it.each([
    [0, 0],
    [1, 5 * SECOND],
    [2, 5 * MINUTE],
    [3, 30 * MINUTE],
    [4, 2 * HOUR],
    [5, 5 * HOUR],
    [6, 10 * HOUR],
    [7, 14 * HOUR],
    [8, 20 * HOUR],
    [9, 24 * HOUR],
  ])("after %i that failed comes %i ms later, a fifth more or less", (failed, after) => {
    expect(nextAttempt(failed, 0.5)).toBe(after);
    expect(nextAttempt(failed, 0)).toBe(after * 0.8);
    expect(nextAttempt(failed, 1)).toBe(after * 1.2);
  });

  it("after ten doesn't come, whatever the receiver asks", () => {
    expect(nextAttempt(10, 0.5)).toBeNull();
    expect(nextAttempt(10, 0.5, HOUR)).toBeNull();
  });

  it("comes not before the receiver wants it, which is heeded for a day at most, and not sooner than without", () => {
    expect(nextAttempt(1, 0.5, HOUR)).toBe(HOUR);
    expect(nextAttempt(2, 0.5, SECOND)).toBe(5 * MINUTE);
    expect(nextAttempt(1, 0.5, 48 * HOUR)).toBe(24 * HOUR);
  });
});

it.each([
  [null, 0],
  ["120", 120 * SECOND],
  ["Sun, 22 Nov 2026 12:00:30 GMT", 30 * SECOND],
  ["Sun, 22 Nov 2026 11:00:00 GMT", 0],
  ["soon", 0],
  ["-5", 0],
  ["1.5", 0],
  ["2026", 2026 * SECOND],
])("Retry-After: %s asks for %i ms", (header, ms) => {
  expect(putOffOf(header, Date.parse("2026-11-22T12:00:00Z"))).toBe(ms);
});

describe("an event's name", () => {
  it.each([
    [["agent.created"], "agent.created", true],
    [["agent.created"], "agent.created.twice", false],
    [["agent.*"], "agent.created", true],
    [["agent.*"], "agent_tool.created", false],
    [["agent*"], "agent_tool.created", true],
    [["*"], "custom.a", true],
    [["a", "custom.*"], "custom.a", true],
    [["custom.a*b"], "custom.ab", false],
    [[], "custom.a", false],
  ])("of %j: %s, %s", (names, name, is) => {
    expect(isNamed(names, name)).toBe(is);
  });
});

it("endpoints of an org have six at once each, and together no more than the org may have, as long as that is one each", () => {
  expect([1, 10, 11, 20, 30].map((n) => lanesOf(n, 60))).toEqual([6, 6, 5, 3, 2]);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 500 }), (endpoints, most) => {
      const lanes = lanesOf(endpoints, most);
      expect(lanes).toBeGreaterThanOrEqual(1);
      expect(lanes).toBeLessThanOrEqual(6);
      if (endpoints <= most) expect(lanes * endpoints).toBeLessThanOrEqual(most);
    }),
  );
});

it.each([
  [HOUR - 1, 0, HOUR],
  [HOUR, 1, 24 * HOUR],
  [24 * HOUR, 2, 96 * HOUR],
  [96 * HOUR, 3, 120 * HOUR],
  [120 * HOUR - 1, 3, 120 * HOUR],
  [120 * HOUR, 4, null],
])("having failed for %i ms it is at stage %i, and the next is %j", (ms, stage, next) => {
  expect(failingStage(7, 7 + ms)).toEqual({ stage, next: next === null ? null : 7 + next });
});

it("what is signed by several secrets each of them verifies, and no other", async () => {
  const secrets = [newSecret(), newSecret()];
  const [id, timestamp, body] = ["evt_1", Math.floor(Date.now() / 1000), '{"ä":1}'];
  const signed = await signatures(secrets, { id, timestamp, body });
  expect(signed.split(" ")).toHaveLength(2);
  const headers = { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signed };
  for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toEqual({ ä: 1 });
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow();
});
