import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Journal } from "../../../lib/journal/journal.ts";
import { aStore } from "./store.ts";

type Event = { type: string; text?: string; n?: number; any?: unknown };

const aJournal = () => new Journal<Event>(aStore().sql);
const AT = Date.parse("2026-01-02T03:04:05Z");

describe("a journal", () => {
  it("counts what happened from one on, and gives it back as it was", () => {
    const journal = aJournal();
    expect(journal.last).toBe(0);
    const written = journal.append([{ type: "a", n: 1 }, { type: "b" }], AT);
    expect(written).toEqual([
      { sequence: 1, at: "2026-01-02T03:04:05.000Z", type: "a", n: 1 },
      { sequence: 2, at: "2026-01-02T03:04:05.000Z", type: "b" },
    ]);
    expect([journal.last, journal.after(0), journal.after(1), journal.after(2)]).toEqual([
      2,
      written,
      written.slice(1),
      [],
    ]);
  });
  it("is the same to whoever opens its store again", () => {
    const { sql } = aStore();
    const written = new Journal<Event>(sql).append([{ type: "a" }], AT);
    const again = new Journal<Event>(sql);
    expect([again.last, again.after(0)]).toEqual([1, written]);
    expect(again.append([{ type: "b" }], AT)[0]).toMatchObject({ sequence: 2 });
  });
  it("writes nothing of several where one can't be written", () => {
    const journal = aJournal();
    const endless: Event = { type: "b" };
    endless.any = endless;
    expect(() => journal.append([{ type: "a" }, endless], AT)).toThrow();
    expect(journal.last).toBe(0);
  });
  it("keeps what is longer than a row may be, whatever letters it is made of", () => {
    const letters = fc.constantFrom("a", "漢", "😀", "\ud800", "\udc00", '"', "\u0000");
    const property = fc.property(letters, fc.integer({ min: 299_980, max: 300_020 }), fc.nat(3), (letter, n, lead) => {
      const store = aStore();
      const journal = new Journal<Event>(store.sql);
      const text = "x".repeat(lead) + letter.repeat(n) + "y".repeat(700_000);
      journal.append([{ type: "a", text }, { type: "b" }], AT);
      expect(journal.after(0, 1)[0]!.text === text).toBe(true);
      expect(journal.after(1)).toMatchObject([{ type: "b" }]);
      expect(store.longest).toBeLessThan(1_000_000);
    });
    fc.assert(property, { numRuns: 40 });
  });
  it("is read in pages, each of a megabyte or so, and none is left out", () => {
    const journal = aJournal();
    const events = Array.from({ length: 100 }, (_, n): Event => ({ type: "a", n, text: "x".repeat(n * 2_000) }));
    journal.append(events, AT);
    const read: number[] = [];
    for (let page = journal.after(0); page.length; page = journal.after(page.at(-1)!.sequence)) {
      const size = page.reduce((sum, { text }) => sum + text!.length, 0);
      expect(size).toBeLessThan(1_300_000);
      read.push(...page.map(({ n }) => n!));
    }
    expect(read).toEqual(events.map(({ n }) => n));
    expect(journal.after(0, 7)).toHaveLength(7);
  });
  it("gives one frame that is larger than a page", () => {
    const journal = aJournal();
    journal.append([{ type: "a", text: "x".repeat(3_000_000) }, { type: "b" }], AT);
    expect(journal.after(0)).toMatchObject([{ type: "a" }]);
    expect(journal.after(1)).toMatchObject([{ type: "b" }]);
  });
  it("folds what a later frame tells as a whole, and renumbers nothing", () => {
    const journal = aJournal();
    const long = "x".repeat(400_000);
    journal.append([{ type: "start" }, { type: "delta", text: long }, { type: "other" }, { type: "delta" }], AT);
    journal.append([{ type: "whole" }, { type: "delta" }], AT);
    journal.fold("delta", 2, 4);
    expect(journal.after(0).map(({ sequence, type }) => [sequence, type])).toEqual([
      [1, "start"],
      [3, "other"],
      [5, "whole"],
      [6, "delta"],
    ]);
    expect(journal.after(2)).toMatchObject([{ sequence: 3 }, { sequence: 5 }, { sequence: 6 }]);
    expect(() => journal.fold("delta", 6, 6)).toThrow("the newest frame stays");
  });
});

describe("what is owed to Postgres", () => {
  it("is the newest of a name, in the order of the journal, until it is paid", () => {
    const journal = aJournal();
    journal.append([{ type: "a" }], AT);
    journal.owe("session", { status: "running" });
    journal.append([{ type: "b" }], AT);
    journal.owe("call", { n: 1 });
    expect(journal.owed()).toEqual([
      { name: "session", sequence: 1, data: { status: "running" } },
      { name: "call", sequence: 2, data: { n: 1 } },
    ]);
    journal.owe("session", { status: "waiting" });
    expect(journal.owed()).toEqual([
      { name: "call", sequence: 2, data: { n: 1 } },
      { name: "session", sequence: 2, data: { status: "waiting" } },
    ]);
    journal.paid(journal.owed()[0]!);
    expect(journal.owed()).toMatchObject([{ name: "session" }]);
  });
  it("stays owed where it was owed anew while it was being paid", () => {
    const journal = aJournal();
    journal.append([{ type: "a" }], AT);
    journal.owe("session", { n: 1 });
    const [taken] = journal.owed();
    journal.append([{ type: "b" }], AT);
    journal.owe("session", { n: 2 });
    journal.paid(taken!);
    expect(journal.owed()).toEqual([{ name: "session", sequence: 2, data: { n: 2 } }]);
    const [second] = journal.owed();
    journal.owe("session", { n: 3 });
    journal.paid(second!);
    expect(journal.owed()).toEqual([{ name: "session", sequence: 2, data: { n: 3 } }]);
  });
  it("is refused where no row could hold it, before anything is written", () => {
    const journal = aJournal();
    expect(() => journal.owe("a", "x".repeat(300_001))).toThrow("too long");
    expect(journal.owed()).toEqual([]);
  });
});

describe("journals that share a store", () => {
  it("know nothing of one another, and one can be forgotten", () => {
    const { sql } = aStore();
    const [one, other] = [new Journal<Event>(sql, "one"), new Journal<Event>(sql, "other")];
    for (const [journal, text] of [
      [one, "1"],
      [other, "2"],
    ] as const) {
      journal.append([{ type: "said", text: text.repeat(700_000) }], 0);
      journal.keep("row", text);
      journal.owe("row", text);
    }
    one.forget();
    expect([one.last, one.after(0), one.kept("row"), one.owed()]).toEqual([0, [], null, []]);
    expect(other.after(0)).toMatchObject([{ sequence: 1, text: "2".repeat(700_000) }]);
    expect([other.kept("row"), other.owed()]).toEqual(["2", [{ name: "row", sequence: 1, data: "2" }]]);
  });

  it("begin with what a journal of its own store had written before there were others", () => {
    const { sql } = aStore();
    for (const [table, columns] of Object.entries({
      frames:
        "sequence integer primary key, at text not null, type text not null, data text not null, parts integer not null",
      parts: "sequence integer not null, part integer not null, data text not null, primary key (sequence, part)",
      kept: "name text not null, part integer not null, data text not null, primary key (name, part)",
      owed: "name text primary key, sequence integer not null, data text not null",
    })) {
      sql.exec(`create table ${table} (${columns}) strict`);
    }
    sql.exec("insert into frames values (?, ?, ?, ?, ?)", 1, "2026-01-01T00:00:00.000Z", "said", '{"text":"a', 1);
    sql.exec("insert into parts values (?, ?, ?)", 1, 0, 'b"}');
    sql.exec("insert into kept values (?, ?, ?)", "row", 0, "7");
    sql.exec("insert into owed values (?, ?, ?)", "row", 1, "8");
    const journal = new Journal<Event>(sql);
    expect(journal.last).toBe(1);
    expect(new Journal<Event>(sql).after(0)).toEqual([
      { sequence: 1, at: "2026-01-01T00:00:00.000Z", type: "said", text: "ab" },
    ]);
    expect([journal.kept("row"), journal.owed()]).toEqual([7, [{ name: "row", sequence: 1, data: 8 }]]);
  });
});
