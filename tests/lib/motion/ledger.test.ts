/** What is under way and what failed, in a store as an object has it. */
import { describe, expect, it } from "vitest";
import { Ledger } from "../../../lib/motion/ledger.ts";
import { aStore } from "../journal/store.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = 1_000_000 * MINUTE;
const none = { total: 0, failed: 0 };
const one = { total: 1, failed: 1 };
const says = (n: number, upto: string, more: object = {}) => ({ id: `ase_${n}` as never, upto, tools: none, ...more });

const aLedger = (store = aStore()) => new Ledger(store.sql);

describe("what is counted", () => {
  it("counts once, however often it is told, and whatever older word comes later", () => {
    const ledger = aLedger();
    const ends = says(1, "2", { due: null, ended: { failed: true }, tools: one });
    for (let i = 0; i < 3; i++) ledger.take(ends, NOW + i);
    ledger.take(says(1, "1", { due: NOW, tools: one }), NOW);
    expect([ledger.share("runs", NOW), ledger.share("tools", NOW), ledger.size]).toEqual([one, one, 0]);
    ledger.take(says(1, "3", { tools: { total: 2, failed: 0 } }), NOW);
    expect(ledger.share("tools", NOW)).toEqual({ total: 3, failed: 1 });
    ledger.take(says(2, "1", { due: null, ended: { failed: false } }), NOW);
    expect(ledger.share("runs", NOW)).toEqual({ total: 2, failed: 1 });
  });

  it.each([
    ["runs", 24 * HOUR],
    ["tools", HOUR],
  ] as const)("of %s counts so long, and no longer, whether or not something follows", (what, window) => {
    for (const follows of [false, true]) {
      const ledger = aLedger();
      ledger.take(says(1, "1", { due: null, ended: { failed: true }, tools: one }), NOW);
      expect(ledger.share(what, NOW + window - MINUTE)).toEqual(one);
      if (follows)
        ledger.take(
          says(2, "1", { due: null, ended: { failed: false }, tools: { total: 1, failed: 0 } }),
          NOW + window,
        );
      expect(ledger.share(what, NOW + window)).toEqual(follows ? { total: 1, failed: 0 } : none);
    }
  });
});

describe("what is under way", () => {
  it("is asked when it is due, the longest overdue first, and at no time once it waits or is over", () => {
    const ledger = aLedger();
    expect(ledger.next).toBeNull();
    ledger.take(says(1, "1", { due: NOW + 20 }), NOW);
    ledger.take(says(2, "1", { due: NOW + 10 }), NOW);
    ledger.take(says(3, "1", { due: NOW + 30 }), NOW);
    expect([ledger.next, ledger.size, ledger.overdue(NOW + 20, 50)]).toEqual([NOW + 10, 3, ["ase_2", "ase_1"]]);
    expect(ledger.overdue(NOW + 30, 1)).toEqual(["ase_2"]);
    ledger.take(says(2, "2", { due: null }), NOW);
    ledger.take(says(1, "2", { tools: one }), NOW);
    expect([ledger.next, ledger.size]).toEqual([NOW + 20, 2]);
    ledger.forget("ase_1");
    expect([ledger.next, ledger.size]).toEqual([NOW + 30, 1]);
  });

  it("is told to be stuck once, and is it until it says something", () => {
    const ledger = aLedger();
    ledger.take(says(1, "1", { due: NOW }), NOW);
    const isStuck = { due: NOW + 9, asked_at: NOW, stuck: true };
    for (let i = 0; i < 2; i++) {
      ledger.watch("ase_1", isStuck, NOW);
      expect([ledger.stuck, ledger.next]).toEqual([[{ id: "ase_1", asked_at: NOW }], NOW + 9]);
      expect(ledger.tell()).toEqual(i ? [] : ["ase_1"]);
    }
    ledger.take(says(1, "2", { due: NOW + 50 }), NOW);
    expect([ledger.stuck, ledger.of("ase_1")]).toMatchObject([[], { asked_at: null, stuck: 0 }]);
    ledger.watch("ase_1", isStuck, NOW);
    expect(ledger.tell()).toEqual(["ase_1"]);
    ledger.watch("ase_1", { due: null, asked_at: null, stuck: false }, NOW);
    expect([ledger.stuck, ledger.next]).toEqual([[], null]);
  });

  it("leaves nothing behind that grows: what is over is forgotten after ten minutes", () => {
    const ledger = aLedger();
    const ends = (n: number, at: number) => ledger.take(says(n, "1", { due: null, ended: { failed: false } }), at);
    ends(1, NOW);
    ledger.take(says(9, "1", { due: NOW + HOUR }), NOW);
    ends(2, NOW + 10 * MINUTE);
    expect(ledger.of("ase_1")).not.toBeNull();
    ends(3, NOW + 10 * MINUTE + 1);
    expect([ledger.of("ase_1"), ledger.of("ase_9")]).toMatchObject([null, { due: NOW + HOUR }]);
  });

  it("forgets likewise what was cancelled, and what waits", () => {
    const store = aStore();
    const ledger = aLedger(store);
    for (let i = 0; i < 100; i++) ledger.take(says(i, "1", { due: null }), NOW + i * MINUTE);
    expect(store.sql.exec("select count(*) as n from motion").toArray()).toEqual([{ n: 11 }]);
  });

  it("looks through none but those that it looks for, however many there are", () => {
    const store = aStore();
    const asked: string[] = [];
    const exec = store.sql.exec.bind(store.sql);
    store.sql.exec = (text, ...values) => {
      asked.push(text);
      return exec(text, ...values);
    };
    const ledger = aLedger(store);
    ledger.take(says(1, "1", { due: null, ended: { failed: false } }), NOW);
    ledger.watch("ase_1", { due: NOW, asked_at: NOW, stuck: true }, NOW);
    void [ledger.overdue(NOW, 50), ledger.next, ledger.size, ledger.stuck, ledger.tell()];
    const queries = asked.filter((text) => / motion /.test(text) && /^(select|update|delete)/.test(text));
    const plans = queries.map((text) => {
      const bound = [...text.matchAll(/\?/g)].map(() => 0);
      return exec<{ detail: string }>(`explain query plan ${text}`, ...(bound as never[]))
        .toArray()
        .map(({ detail }) => detail);
    });
    expect(plans.flat().filter((step) => /^SCAN motion(?! USING)/.test(step))).toEqual([]);
    expect(plans.length).toBeGreaterThan(7);
  });
});
