import { CompiledQuery } from "kysely";
import { expect, it } from "vitest";
import { facetsOf, getConfig, listConfigs, listVersions, readContent } from "../../../lib/configs/queries.ts";
import { type Door, TenantDb } from "../../../lib/db/tenant-db.ts";
import { newId } from "../../../lib/ids.ts";

/** A database over nothing, that notes what it is asked, and finds one row for whatever is asked. */
function aDb() {
  const asked: string[] = [];
  const door: Door = {
    enter: CompiledQuery.raw("select 'entered' as stale"),
    permission: "configs:read",
    viewer: { kind: "user", user: newId("user"), org: newId("org") },
    onTold: () => {},
  };
  const tenant = { kind: "org", app: newId("app"), sandbox: "-", org: newId("org") } as const;
  const db = new TenantDb(
    async (queries) => {
      asked.push(...queries.map((query) => query.sql));
      return queries.map(() => ({ rows: [{}] }));
    },
    door,
    tenant,
    "read",
  );
  return { db, asked };
}

it("reads content where it is given, and in no list, look-up or count", async () => {
  const { db, asked } = aDb();
  const page = { limit: 10, direction: "older", from: null, seal: async (id: string) => id } as const;
  const rows = db.selectFrom("configs");
  const reads = () => asked.splice(0).some((text) => /"content"|"encoding"/.test(text));
  await readContent(db, rows);
  expect(reads()).toBe(true);
  await listConfigs(db, { limit: 10 }, page);
  await listVersions(db, rows, page);
  await getConfig(db, rows);
  await facetsOf(db, {});
  expect(asked.length).toBeGreaterThan(5);
  expect(asked.some((text) => text.includes("config_versions"))).toBe(true);
  expect(reads()).toBe(false);
});
