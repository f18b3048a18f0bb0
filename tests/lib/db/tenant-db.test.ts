/** What TenantDb lets nobody say: by its types, and where a cast gets past them, by the SQL. */
import { CompiledQuery, sql } from "kysely";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { Tenant } from "../../../lib/db/schema.ts";
import { type Door, TenantDb } from "../../../lib/db/tenant-db.ts";
import { type Id, newId } from "../../../lib/ids.ts";

const app = newId("app");
const org = newId("org");
const door: Door = {
  enter: CompiledQuery.raw("select 'entered' as stale"),
  permission: "agents:read",
  viewer: { kind: "key" },
  onTold: () => {},
};

/** A database over nothing, that notes what it is asked. */
function aDb(tenant: Tenant = { kind: "org", app, sandbox: "-", org }) {
  const asked: string[][] = [];
  const db = new TenantDb(
    async (queries) => {
      asked.push(queries.map((query) => query.sql));
      return queries.map(() => ({ rows: [] }));
    },
    door,
    tenant,
    "write",
  );
  return { db, asked };
}

describe("what does not compile", () => {
  const { db } = aDb();
  it("an upsert", () => {
    expectTypeOf(db.insertInto("agents", { id: newId("agent") })).not.toHaveProperty("onConflict");
    expectTypeOf(db.insertInto("agents", { id: newId("agent") }).returningAll()).not.toHaveProperty("onConflict");
  });
  it("clearing the owner from an update or a delete", () => {
    expectTypeOf(db.updateTable("agents").set({ name: "x" })).not.toHaveProperty("clearWhere");
    expectTypeOf(db.updateTable("agents").where("id", "=", newId("agent"))).not.toHaveProperty("clearWhere");
    expectTypeOf(db.deleteFrom("agents").where("id", "=", newId("agent")).returningAll()).not.toHaveProperty(
      "clearWhere",
    );
  });
  it("setting an owner", () => {
    // @ts-expect-error the owner is the viewer's
    db.insertInto("agents", { id: newId("agent"), org_id: org });
    // @ts-expect-error a row stays where it is
    db.updateTable("agents").set({ org_id: org });
    // @ts-expect-error and keeps its id
    db.updateTable("agents").set({ id: newId("agent") });
  });
  it("a table that is no tenant's", () => {
    // @ts-expect-error migrations are nobody's rows
    expect(() => db.selectFrom("migrations").selectAll().compile()).not.toThrow();
  });
  it("ids of another kind", () => {
    // @ts-expect-error an org is no agent
    db.selectFrom("agents").where("id", "=", newId("org"));
    expectTypeOf<Id<"agent">>().not.toEqualTypeOf<Id<"org">>();
  });
});

describe("what does not run", () => {
  it("a nested select of a bare table: it stands in no search_path", () => {
    const { db } = aDb();
    const nested = db
      .selectFrom("agents")
      .where((eb) => eb.exists(eb.selectFrom("agents").selectAll() as never))
      .selectAll();
    // Tables are data.<name>; a bare name is the derived table of the outer query or nothing.
    expect(nested.compile().sql).toMatch(/exists \(select \* from "agents"\)/);
    expect(nested.compile().sql.match(/"data"\."agents"/g)).toHaveLength(1);
  });
  it("an owner that a cast smuggles in is overwritten by the viewer's", () => {
    const { db } = aDb();
    const { parameters } = db.insertInto("agents", { id: newId("agent"), org_id: "org_other" } as never).compile();
    expect(parameters).toContain(org);
    expect(parameters).not.toContain("org_other");
  });
  it("a transaction held open", async () => {
    const { db } = aDb();
    expect(db).not.toHaveProperty("transaction");
  });
});

describe("what every statement carries", () => {
  const statements = (db: TenantDb) => [
    db.selectFrom("agents").selectAll(),
    db.updateTable("agents").set({ name: "x" }),
    db.deleteFrom("agents"),
    db.insertUnder(db.selectFrom("users").where("id", "=", newId("user")), "agents", { id: newId("agent") }),
  ];
  it("the whole tenant, for an org", () => {
    const { db } = aDb();
    for (const statement of statements(db)) {
      const { sql, parameters } = statement.compile();
      expect(sql).toMatch(/app_id" = \$\d+ and .*sandbox_id" = \$\d+ and .*org_id" = \$\d+/);
      expect(parameters).toEqual(expect.arrayContaining([app, "-", org]));
    }
  });
  it("app and partition, for a developer", () => {
    const { db } = aDb({ kind: "app", app, sandbox: "-" });
    for (const statement of statements(db))
      expect(statement.compile().sql).toMatch(/app_id" = \$\d+ and .*sandbox_id" = \$\d+/);
  });
  it("the door first, once, in one round trip", async () => {
    const { db, asked } = aDb();
    await db.batch({ agents: db.selectFrom("agents").selectAll(), users: db.selectFrom("users").selectAll() });
    await db.selectFrom("agents").selectAll().execute();
    expect(asked.map((queries) => queries.length)).toEqual([3, 2]);
    for (const [first] of asked) expect(first).toBe("select 'entered' as stale");
  });
  it("the narrowing after the door, where a developer goes into an org or a sandbox", async () => {
    const { db, asked } = aDb({ kind: "app", app, sandbox: "-" });
    await db.inOrg(org).selectFrom("agents").selectAll().execute();
    await db.inSandbox(newId("sandbox")).selectFrom("orgs").selectAll().execute();
    expect(asked.map(([, second]) => second)).toEqual(["select app.within($1, $2)", "select app.within($1, $2)"]);
  });
  it("the idempotency key before the narrowing: it belongs to who asks, not to what is made", async () => {
    const { db, asked } = aDb({ kind: "app", app, sandbox: "-" });
    const key = { subject: "app", key: "k", fingerprint: new Uint8Array(), row_id: "x" };
    await db
      .keyed("agents", key)
      .inOrg(org)
      .insertInto("agents", { id: newId("agent") })
      .execute();
    expect(asked[0]![1]).toMatch(/^insert into "data"."idempotency_keys"/);
    expect(asked[0]![2]).toBe("select app.within($1, $2)");
  });
  it("the idempotency key taken back at the end, through the door again, where no row was made", async () => {
    const { db, asked } = aDb({ kind: "app", app, sandbox: "-" });
    const key = { subject: "app", key: "k", fingerprint: new Uint8Array(), row_id: "x" };
    const rows = await db.keyed("agents", key).batch({ agents: db.selectFrom("agents").selectAll() });
    expect(rows).toEqual({ agents: [] });
    const [made, door, release] = asked[0]!.slice(3);
    expect(made).toMatch(/^select set_config\('app.made', exists \(select id as "id" from .*"data"."agents"/);
    expect(door).toBe("select 'entered' as stale");
    expect(release).toMatch(/^delete from "data"."idempotency_keys".*current_setting\('app.made'\) = 'false'$/);
  });
});

describe("telling", () => {
  it("writes the entry from the changed row, in the same statement", () => {
    const { db } = aDb();
    const told = db.telling(db.deleteFrom("agents").where("id", "=", newId("agent")), {
      kind: "agent.deleted",
      title: sql`name`,
    });
    const text = told.compile().sql;
    expect(text).toMatch(
      /^with changed as \(delete from "data"."agents".* returning \*\), told as \(insert into data.activity_feed_entries/s,
    );
    expect(text).toMatch(/from changed\), event as \(.*\) select subject\.\*, .* from changed as subject$/s);
  });
});
