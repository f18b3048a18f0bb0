import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../../../lib/local/neon.ts";
import { Turns, tenantOf } from "../../../lib/local/turns.ts";

import { anEmptyDatabase } from "./database.ts";

const query = (text: string, ...params: string[]) => ({ query: text, params });

it("knows a tenant by the door that a request comes through", () => {
  const token = query("select app.enter_token($1, $2, $3, $4, $5, $6, $7) as stale", "a", "-", "o", "u", "t", "{}");
  const key = query("select app.enter_key($1, $2, $3, $4) as stale", "a", "-", "\\xhash");
  const refresh = query("select app.enter_refresh($1, $2, $3, $4, $5)", "a", "-", "o", "family");
  expect(tenantOf([token, query("select 1")])).toBe(tenantOf([refresh]));
  expect(tenantOf([key])).toBe(tenantOf([{ ...key, params: ["a", "-", "\\xother"] }]));
  expect(
    new Set([tenantOf([token]), tenantOf([key]), tenantOf([query("select app.sweep()", "a", "-", "o")])]).size,
  ).toBe(3);
  expect(tenantOf([])).toBe(tenantOf([query("select 1", "a")]));
});

/** Takes places that are given back by hand; `order` is who had one, in order. */
function taking(turns: Turns) {
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const take = (tenant: string) =>
    turns.take(tenant, () => {
      order.push(tenant);
      return new Promise<void>((end) => ends.push(end));
    });
  const end = async () => {
    await new Promise((resolve) => setTimeout(resolve));
    ends.shift()!();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { order, take, end };
}

describe("places", () => {
  it("go round the tenants that wait, however many each asks for", async () => {
    const { order, take, end } = taking(new Turns(1));
    const all = [..."aaaa", ..."bb", "c"].map(take);
    for (const _ of all) await end();
    await Promise.all(all);
    expect(order.join("")).toBe("aabcaba");
  });

  it("are kept for others where one tenant holds all that it may", async () => {
    const { order, take, end } = taking(new Turns(4, 1));
    const all = [..."aaaaa"].map(take);
    await new Promise((resolve) => setTimeout(resolve));
    expect(order.join("")).toBe("aaa");
    all.push(take("b"));
    await new Promise((resolve) => setTimeout(resolve));
    expect(order.join("")).toBe("aaab");
    for (const _ of all) await end();
    await Promise.all(all);
    expect(order.join("")).toBe("aaabaa");
  });

  it("come back from what fails, and from who waited too long", async () => {
    const turns = new Turns(1);
    await expect(turns.take("a", () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    let end = () => {};
    const held = turns.take(
      "a",
      () =>
        new Promise<void>((done) => {
          end = done;
        }),
    );
    const late = turns.take(
      "b",
      async () => "b",
      10,
      () => new Error("late"),
    );
    const patient = turns.take(
      "b",
      async () => "patient",
      1000,
      () => new Error("late"),
    );
    await expect(late).rejects.toThrow("late");
    end();
    await held;
    expect(await patient).toBe("patient");
    expect(await turns.take("c", async () => "c")).toBe("c");
  });
});

describe("the database", () => {
  let database: Database;
  beforeAll(async () => {
    database = await anEmptyDatabase();
    // The embedded one knows no sleep that leaves it to others.
    const work = process.env.DATABASE_URL ? "pg_sleep(0.05)" : "count(*) from generate_series(1, 20000)";
    await database.exec(`create schema app;
      create function app.enter_token(app text, sandbox text, org text) returns void language sql as 'select ${work}'`);
  }, 60_000);
  afterAll(() => database.close());

  it("answers one request of an org after a statement or so of another, which has 200 under way", async () => {
    const answered: string[] = [];
    const ask = async (org: string) => {
      await database.run("postgres", [query("select app.enter_token($1, $2, $3)", "app", "-", org)], { batch: true });
      answered.push(org);
    };
    const crowd = Array.from({ length: 200 }, () => ask("crowd"));
    await Promise.race(crowd);
    const before = answered.length;
    await ask("one");
    const passed = answered.length - 1 - before;
    await Promise.all(crowd);
    // Of ten connections eight are busy, each of which answers one or two as long as its own statement takes.
    expect(passed).toBeLessThanOrEqual(40);
  });
});
