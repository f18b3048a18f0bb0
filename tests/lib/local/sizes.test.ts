/** The bounds of a row that only the database sees whole. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../../../lib/local/neon.ts";
import { migrate } from "../../../lib/local/schema.ts";
import { anEmptyDatabase } from "./database.ts";

const KB = 1024;
const versionOne = readFileSync(resolve(import.meta.dirname, "../../fixtures/schema-1.sql"), "utf8");
const grants = (n: number) => `jsonb_build_object('grants', (select jsonb_agg(jsonb_build_object(
  'principal_type', 'user', 'principal', n::text, 'actions', '["read"]'::jsonb)) from generate_series(1, ${n}) n))`;
const insert = (id: string, values: string) =>
  `insert into data.agents (app_id, sandbox_id, org_id, id, identity, acl, metadata) values ('dap_1', '-', '-', '${id}', ${values})`;
const broken = (constraint: string) => expect.objectContaining({ code: "23514", constraint });

let database: Database;
beforeAll(async () => {
  database = await anEmptyDatabase();
  await database.exec(versionOne);
  // Older than the bounds.
  await database.exec(`insert into data.apps values ('dap_1', 'Old'); insert into data.tenants values ('dap_1', '-', '-');
    ${insert("agi_old", `repeat('é', ${100 * KB}), ${grants(300)}, '{}'`)}`);
  await migrate(database);
}, 60_000);
afterAll(() => database.close());

it("a row takes 64 KB of JSON in its texts, list and metadata together, escapes counted, and not a byte more", async () => {
  // What stands around the texts: names, quotes and punctuation.
  const [empty] = await database.query<{ n: number }>(`select octet_length(jsonb_build_object(
    'identity', '', 'description', null, 'acl', null, 'metadata', '{"a": ""}'::jsonb)::text) as n`);
  const left = 64 * KB - empty!.n;
  const values = (identity: string) => `${identity}, null, '{"a": ""}'`;
  await database.exec(insert("agi_full", values(`repeat('a', ${left})`)));
  await database.exec(insert("agi_quotes", values(`repeat('"', ${Math.floor(left / 2)})`)));
  for (const identity of [
    `repeat('a', ${left + 1})`,
    `repeat('"', ${Math.floor(left / 2) + 1})`,
    `repeat('é', ${left})`,
  ])
    await expect(database.exec(insert("agi_more", values(identity)))).rejects.toEqual(broken("agents_size_check"));
  const half = Math.ceil(left / 2) + 1;
  const split = `repeat('a', ${half}), null, jsonb_build_object('a', repeat('a', ${half}))`;
  await expect(database.exec(insert("agi_split", split))).rejects.toEqual(broken("agents_size_check"));
});

it("a list holds 200 grants, however many patches made it", async () => {
  await database.exec(insert("agi_list", `null, ${grants(200)}, '{}'`));
  const more = `update data.agents set acl = app.acl_patch(acl,
    '[{"principal_type": "everyone", "actions": ["read"]}]', '[]') where id = 'agi_list'`;
  await expect(database.exec(more)).rejects.toEqual(broken("agents_acl_check"));
});

it("a row that was longer before stays, and is refused when it is next written", async () => {
  const rename = "update data.agents set name = 'Ada' where id = 'agi_old'";
  await expect(database.exec(rename)).rejects.toEqual(expect.objectContaining({ code: "23514" }));
  await database.exec(`${rename.replace("set", "set identity = null, acl = null,")}`);
});
