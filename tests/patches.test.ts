/** A change that changes nothing, over every route that changes a row: it tells nothing, and `updated_at` stays. */
import { beforeAll, describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql, system, together } from "./harness/index.ts";
import { addressOf, bodyOf, guarded, makeRows, ONESELF, type Operation, parametersOf } from "./isolation/operations.ts";
import { aPlace, aToken, type Place } from "./isolation/places.ts";

/** What is set whole, and isn't the row that its address ends with: tests/sso and tests/auth/passwords try these. */
const WHOLE = /\/sso$|\/password$/;
const patches = guarded.filter(({ method, path }) => ["PATCH", "PUT"].includes(method) && !WHOLE.test(path));
/** Of an app nothing is told: its developer is the only one who would read it. */
const told = (operation: Operation) => (operation.path.endsWith("{app_id}") ? 0 : 1);

let place: Place;
beforeAll(async () => {
  const { app, secret_key } = await anApp();
  place = await aPlace("patched", { app, sandbox: null, key: secret_key });
});

const entries = async () =>
  (await sql("select id from data.activity_feed_entries where app_id = $1", [place.app])).length;

/** Asks for the operation on a row of its own; `send` may be called again. */
async function aRow(operation: Operation) {
  const { [ONESELF]: person } = await makeRows([ONESELF], place, null);
  const isOwn = operation.permission === "session";
  const rows = await makeRows(operation.parameters, place, isOwn ? person! : null);
  const call = isOwn ? caller(bearer((await aToken(place, person!)).access_token)) : place.asDeveloper;
  const send = (body: object | undefined) => must(call(operation.method, addressOf(operation, rows), body), 200);
  return { rows, send };
}

/** When the row was last changed, as the database has it: not every view shows it. */
async function updatedAt(operation: Operation, rows: Record<string, string>): Promise<string> {
  const id = rows[parametersOf(operation.path).at(-1)!];
  const tables = await sql<{ name: string }>(
    "select table_name as name from information_schema.columns where table_schema = 'data' and column_name = 'updated_at'",
  );
  const found = await Promise.all(
    tables.map(({ name }) =>
      sql<{ at: string }>(`select updated_at::text as at from data.${name} where id = $1`, [id]),
    ),
  );
  const [row] = found.flat();
  if (!row) throw new Error(`${operation.name}: no row ${id}`);
  return row.at;
}

it("finds the routes that change rows", () => {
  expect(patches.length).toBeGreaterThan(4);
  expect(patches.flatMap(({ parameters }) => parameters)).toContain(ONESELF);
});

describe.each(patches.map((operation) => [operation.name, operation] as const))("%s", (_, operation) => {
  it("with an empty body answers the row as it is, and leaves it and the feed alone", async () => {
    const { rows, send } = await aRow(operation);
    const before = await entries();
    const was = await updatedAt(operation, rows);
    const [first, again] = [await send({}), await send(undefined)];
    expect(again).toEqual(first);
    expect([await updatedAt(operation, rows), await entries()]).toEqual([was, before]);
  });

  it("changes once what it is sent twice", async () => {
    const { rows, send } = await aRow(operation);
    const body = bodyOf(operation, { home: place });
    const before = await entries();
    const was = await updatedAt(operation, rows);
    const first = await send(body);
    const changed = await updatedAt(operation, rows);
    expect([changed !== was, await entries()]).toEqual([true, before + told(operation)]);
    expect(await send(body)).toEqual(first);
    expect([await updatedAt(operation, rows), await entries()]).toEqual([changed, before + told(operation)]);
  });

  it("changes once what is sent eight times at once, and answers each with the row that came of it", async () => {
    const { send } = await aRow(operation);
    const before = await entries();
    const body = bodyOf(operation, { home: place });
    const [first, ...others] = await together(8, () => send(body));
    for (const other of others) expect(other).toEqual(first);
    expect(first).toMatchObject(await send({}));
    expect(await entries()).toBe(before + told(operation));
  });
});

describe("a change", () => {
  it("to null, of a list and of a map is one as well", async () => {
    const { send } = await aRow(patches.find(({ path }) => path.endsWith("{agent}"))!);
    const everyone = { grants: [{ principal_type: "everyone", actions: ["read"] }] };
    for (const body of [
      { description: "d" },
      { description: null },
      { metadata: { a: [1, { b: null }] } },
      { metadata: {} },
      { acl: everyone },
      { acl: null },
    ]) {
      const before = await entries();
      const changed = await send(body);
      expect(await send(body)).toEqual(changed);
      expect(await entries()).toBe(before + 1);
    }
  });

  it("of an access list that grants what is granted changes nothing", async () => {
    const { send } = await aRow(patches.find(({ path }) => path.endsWith("{agent}"))!);
    const grant = { principal_type: "user", principal: place.member, actions: ["read"] };
    const granted = await send({ acl: { add: [grant] } });
    const before = await entries();
    expect(await send({ acl: { add: [grant] } })).toEqual(granted);
    expect(await send({ acl: { grants: [grant] } })).toEqual(granted);
    expect(await send({ acl: { remove: [{ principal_type: "everyone" }] } })).toEqual(granted);
    expect(await entries()).toBe(before);
  });

  it.runIf(system.concurrent)("that waited for its equal answers what that one made", async () => {
    const { rows, send } = await aRow(patches.find(({ path }) => path.endsWith("{agent}"))!);
    const before = await entries();
    const [id] = Object.values(rows);
    // Somebody else holds the row until both have looked at it.
    const holding = sql(
      "with held as (select from data.agents where id = $1 for update) select pg_sleep(1) from held",
      [id],
    );
    await new Promise((wait) => setTimeout(wait, 200));
    const [one, other] = await together(2, () => send({ description: "the same" }));
    await holding;
    expect([one.description, other]).toEqual(["the same", one]);
    expect(await entries()).toBe(before + 1);
  });
});
