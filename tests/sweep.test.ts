/** What is past its time goes, in every tenant, and nothing else does. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { sweep } from "../lib/db/sweep.ts";
import { bearer, type Call, caller, developer, must } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
let ask: Call;
let at: string;

beforeAll(async () => {
  own = await ownSystem();
  const base = await own.start([await newSigningKey("one")], [newRoot()]);
  const { app_id, secret_key } = await own.newApp();
  ask = caller(bearer(secret_key), base);
  at = developer(app_id);
});
afterAll(() => own.close());

const count = async (table: string) =>
  Number((await own.database.query<{ n: string }>(`select count(*) as n from data.${table}`))[0]!.n);

it("an idempotency key is free again after a day", async () => {
  const make = (key: string) =>
    ask("POST", `${at}/users`, { name: "A" }, { "Idempotency-Key": key }).then(({ body }) => body.id as string);
  const [old, fresh] = [await make("old"), await make("fresh")];
  await own.database.exec(
    "update data.idempotency_keys set created_at = now() - interval '25 hours' where key = 'old'",
  );
  await sweep(own.url);
  expect(await make("fresh")).toBe(fresh);
  expect(await make("old")).not.toBe(old);
});

it("a sandbox ends with all that lives in it when it expires; others stay", async () => {
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const ended = await must(
    ask("POST", "/api/v1/sandboxes", { name: "E", slug: "ended", purpose: "eval", expires_at: soon }),
    201,
  );
  const kept = await must(
    ask("POST", "/api/v1/sandboxes", { name: "K", slug: "kept", purpose: "eval", expires_at: soon }),
    201,
  );
  const keys = await count("keys");
  await own.database.exec("update data.sandboxes set expires_at = now() - interval '1 second' where slug = 'ended'");
  await sweep(own.url);
  expect((await ask("GET", `/api/v1/sandboxes/${ended.id}`)).status).toBe(404);
  expect((await ask("GET", `/api/v1/sandboxes/${kept.id}`)).status).toBe(200);
  expect(await count("keys")).toBe(keys - 1);
});

it("tokens go a month after they expired, not before", async () => {
  const org = (await must(ask("POST", `${at}/orgs`, { name: "O", slug: "swept", domain: "swept.example" }), 201)).id;
  const user = (await must(ask("POST", `${at}/users`, { org, email: "a@swept.example" }), 201)).id;
  for (let i = 0; i < 3; i++) await must(ask("POST", `${at}/users/${user}/tokens`, {}), 201);
  const [a, b] = await own.database.query<{ id: string }>("select id from data.tokens order by id");
  await own.database.query("update data.tokens set expires_at = now() - interval '31 days' where id = $1", [a!.id]);
  await own.database.query("update data.tokens set expires_at = now() - interval '29 days' where id = $1", [b!.id]);
  await sweep(own.url);
  expect(await count("tokens")).toBe(2);
});

it("without its door, the runtime role could delete none of it", async () => {
  const before = await count("tokens");
  const statement = { query: "delete from data.tokens", params: [] };
  await own.database.run("agentry_api", [statement], { batch: true });
  expect(await count("tokens")).toBe(before);
});

it("fires by cron, like any other Worker's", async () => {
  await own.database.exec("update data.idempotency_keys set created_at = now() - interval '25 hours'");
  await own.fireCrons();
  expect(await count("idempotency_keys")).toBe(0);
});
