import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { failingStage, isNamed, lanesOf, NEXT, nextAttempt, putOffOf } from "../../../lib/webhooks/rules.ts";
import { keysOf, newSecret, signatures } from "../../../lib/webhooks/secrets.ts";
import { aStore } from "../journal/store.ts";

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

describe("what is tried next", () => {
  type Delivery = { id: string; org: string; sequence: number; at: number; status: string };
  const told = fc.record({
    ...{ org: fc.constantFrom("a", "b", "c"), at: fc.nat(9) },
    status: fc.constantFrom("pending", "pending", "pending", "delivered", "dead"),
  });
  const outcome = fc.record({ status: fc.constantFrom("pending", "delivered", "dead"), later: fc.nat(20) });
  /** The store of an endpoint that was told of these, in an order of their own. */
  const storeOf = (rows: Delivery[]) => {
    const { sql } = aStore();
    sql.exec("create table places (org text)");
    sql.exec("create table deliveries (id text, org text, sequence integer, at integer, status text)");
    for (const org of new Set(rows.map(({ org }) => org))) sql.exec("insert into places values (?)", org);
    for (const { id, org, sequence, at, status } of rows)
      sql.exec("insert into deliveries values (?, ?, ?, ?, ?)", id, org, sequence, at, status);
    return sql;
  };
  const soonest = (rows: Delivery[]) => rows.sort((a, b) => a.at - b.at || a.sequence - b.sequence)[0];

  it.each(["strict", "none"] as const)("is the soonest; in strict order, behind nothing of its org: %s", (ordering) => {
    fc.assert(
      fc.property(fc.array(told, { maxLength: 12 }), fc.array(outcome, { maxLength: 30 }), (all, outcomes) => {
        const rows = all.map((one, i) => ({ ...one, id: String((i * 7) % 13), sequence: i + 1 }));
        const sql = storeOf(rows.toSorted((a, b) => a.id.localeCompare(b.id)));
        for (const { status, later } of outcomes) {
          const waiting = rows.filter((one) => one.status === "pending");
          const isFree = ({ org, sequence }: Delivery) =>
            ordering === "none" || !waiting.some((one) => one.org === org && one.sequence < sequence);
          const next = sql.exec<Delivery>(NEXT[ordering]).toArray()[0];
          expect(next?.id).toBe(soonest(waiting.filter(isFree))?.id);
          if (!next) return;
          // It is tried: it is over, or comes again later.
          const tried = rows.find(({ id }) => id === next.id)!;
          Object.assign(tried, { status, at: next.at + later });
          sql.exec("update deliveries set status = ?, at = ? where id = ?", status, tried.at, next.id);
        }
      }),
    );
  });
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
  const signed = await signatures(await keysOf(secrets), { id, timestamp, body });
  expect(signed.split(" ")).toHaveLength(2);
  const headers = { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signed };
  for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toEqual({ ä: 1 });
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow();
});
