/** The walks believe that nothing changed where nothing was noted: so every change must be. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createApp } from "../lib/local/apps.ts";
import type { Database } from "../lib/local/neon.ts";
import { openDatabase } from "./harness/database.ts";
import { type Change, goesOn, touches, watch } from "./isolation/changes.ts";
import type { Place } from "./isolation/places.ts";

let database: Database;
let changes: () => Promise<Change[]>;
beforeAll(async () => {
  database = await openDatabase();
  changes = await watch(database);
});
afterAll(() => database.close());

it("notes a row that is made, one that is changed and one that goes with its parent, once each", async () => {
  const { app_id } = await createApp(database, "One");
  const made = await changes();
  expect(made.map(({ table, was, is }) => [table, was, is !== null])).toEqual(
    ["apps", "tenants", "keys", "keys", "tenants", "sandboxes", "keys"].map((table) => [table, null, true]),
  );
  expect(await changes()).toEqual([]);

  await database.query("update data.apps set name = 'Two' where id = $1", [app_id]);
  expect(await changes()).toMatchObject([{ table: "apps", was: { name: "One" }, is: { name: "Two" } }]);

  await database.query("delete from data.apps where id = $1", [app_id]);
  const gone = await changes();
  expect(gone.map(({ table }) => table).sort()).toEqual(made.map(({ table }) => table).sort());
  expect(gone.every(({ was, is }) => was !== null && is === null)).toBe(true);
});

it("notes a change that is taken back, but not what changes nothing, nor when a key was last used", async () => {
  const { app_id } = await createApp(database, "One");
  await changes();
  for (const name of ["Two", "One"]) await database.query("update data.apps set name = $1", [name]);
  expect(await changes()).toHaveLength(2);
  await database.query("update data.apps set name = name");
  await database.query("update data.keys set last_used_at = now() where app_id = $1", [app_id]);
  expect(await changes()).toEqual([]);
});

it("watches every table", async () => {
  const watched = await database.query(`select count(*)::int4 as tables, count(t.oid)::int4 as watched
    from pg_class c left join pg_trigger t on t.tgrelid = c.oid and t.tgname = 'watch' and t.tgenabled = 'O'
    where c.relnamespace = 'data'::regnamespace and c.relkind = 'r'`);
  expect(watched[0]!.tables).toBeGreaterThan(9);
  expect(watched[0]!.watched).toBe(watched[0]!.tables);
});

it("tells whose the row was or is: the org's, its partition's, its app's record, and nobody else's", () => {
  const place = { app: "dap_1", sandbox: null, org: "org_1" } as Place;
  const row = { app_id: "dap_1", sandbox_id: "-", org_id: "org_1" };
  const change = (is: object, table = "agents"): Change => ({ table, was: null, is: { ...is } });
  expect(touches(change(row), place)).toBe(true);
  expect(touches({ table: "agents", was: row, is: { ...row, org_id: "org_2" } }, place)).toBe(true);
  expect(touches(change({ ...row, org_id: "-" }), place)).toBe(true);
  expect(touches(change({ id: "dap_1" }, "apps"), place)).toBe(true);
  for (const other of [{ app_id: "dap_2" }, { sandbox_id: "dsb_1" }, { org_id: "org_2" }]) {
    expect(touches(change({ ...row, ...other }), place)).toBe(false);
  }
  expect(touches(change({ id: "dap_2" }, "apps"), place)).toBe(false);
});

it("lets go on what was set going, and what comes of that, in its own place and nowhere else", () => {
  const [ours, theirs] = [{ org: "org_1" }, { org: "org_2" }] as Place[];
  const [session, call, other] = ["ase", "tcl", "tcl"].map((prefix, i) => `${prefix}_${String(i).repeat(22)}`);
  const goingOn = new Map([[session!, ours!]]);
  const row = { org_id: ours!.org, session_id: session };
  const change = (is: object): Change => ({ table: "tool_calls", was: null, is: { ...is } });
  expect(goesOn(change({ ...row, id: call, org_id: theirs!.org }), goingOn)).toBe(false);
  expect(goesOn({ ...change(row), was: { ...row, org_id: theirs!.org } }, goingOn)).toBe(false);
  expect(goesOn(change({ org_id: ours!.org, about: call }), goingOn)).toBe(false);
  expect(goesOn({ ...change(row), table: "agent_tools" }, goingOn)).toBe(false);
  expect(goesOn({ table: "tool_calls", was: row, is: null }, goingOn)).toBe(false);
  expect(goesOn(change({ ...row, id: call }), goingOn)).toBe(true);
  expect(goesOn(change({ org_id: ours!.org, about: call }), goingOn)).toBe(true);
  expect(goesOn(change({ org_id: ours!.org, id: other }), goingOn)).toBe(false);
});
