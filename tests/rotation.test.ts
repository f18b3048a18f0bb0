/** Keys and secrets change under way, and no live credential is dropped. */
import { decodeProtectedHeader } from "jose";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFor, openText, sealedTables, versionsOf } from "../lib/auth/vault.ts";
import type { Database } from "../lib/local/neon.ts";
import { proveSealed, reseal } from "../lib/local/sealed-rows.ts";
import { aSecret, findShown } from "./harness/canary.ts";
import { bearer, caller, developer, must } from "./harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "./harness/own.ts";
import { senders } from "./hooks/senders.ts";
import { anEndpoint, aReceiver, type Received } from "./webhooks/stage.ts";

let own: Awaited<ReturnType<typeof ownSystem>>;
let before: string;
let after: string;
let retired: string;
let minted: { access_token: string; refresh_token: string };
let app: Awaited<ReturnType<typeof own.newApp>>;
let user: string;
let old: string;
let fresh: string;

beforeAll(async () => {
  own = await ownSystem();
  const [one, two] = [await newSigningKey("one"), await newSigningKey("two")];
  [old, fresh] = [newRoot(), newRoot()];
  before = await own.start([one, two], [old], { allowLoopback: "127.0.0.1" });
  after = await own.start([two, one], [fresh, old]);
  retired = await own.start([two], [fresh], { allowLoopback: "127.0.0.1" });
  app = await own.newApp();
  const ask = caller(bearer(app.secret_key), before);
  const at = developer(app.app_id);
  const org = (await ask("POST", `${at}/orgs`, { name: "Acme", slug: "acme", domain: "acme.example" })).body.id;
  user = (await ask("POST", `${at}/users`, { email: "a@acme.example", org, role: "owner" })).body.id;
  minted = (await ask("POST", `${at}/users/${user}/tokens`, {})).body;
});
afterAll(() => own.close());

const me = (base: string, token: string) => caller(bearer(token), base)("GET", "/api/v1/users/me");

it("a token signed before the rotation is good after it, and one signed after it where the new key was announced", async () => {
  expect((await me(after, minted.access_token)).status).toBe(200);
  const ask = caller(bearer(app.secret_key), after);
  const fresh = (await ask("POST", `${developer(app.app_id)}/users/${user}/tokens`, {})).body.access_token;
  expect(decodeProtectedHeader(fresh).kid).toBe("two");
  expect((await me(before, fresh)).status).toBe(200);
});

it("both keys are published while both are live, the signing one first", async () => {
  const { body } = await caller({}, after)("GET", "/.well-known/jwks.json");
  expect(body.keys.map(({ kid }: any) => kid)).toEqual(["two", "one"]);
  expect(JSON.stringify(body)).not.toContain('"d"');
});

it("a refresh token of the old root secret is still redeemed, and its successor is of the new one", async () => {
  const { body } = await caller({}, after)("POST", "/api/v1/auth/refresh", { refresh_token: minted.refresh_token });
  expect((await me(after, body.token)).status).toBe(200);
  expect(
    (await caller({}, retired)("POST", "/api/v1/auth/refresh", { refresh_token: body.refresh_token })).status,
  ).toBe(200);
});

it("a retired key's tokens and a retired root's refresh tokens are refused", async () => {
  expect((await me(retired, minted.access_token)).status).toBe(401);
  expect(
    (await caller({}, retired)("POST", "/api/v1/auth/refresh", { refresh_token: minted.refresh_token })).status,
  ).toBe(401);
});

describe("secrets sealed under the old root secret", () => {
  let agent: string;
  const at = () => `/api/v1/agents/${agent}/agent_env_vars`;
  const keep = async (base: string, key: string, value: string): Promise<string> =>
    (await must(caller(bearer(app.secret_key), base)("POST", at(), { key, value }), 200)).id;
  const versions = async (roots: string) => Object.fromEntries((await proveSealed(own.database, roots)).versions);

  it("are sealed anew, as many as there are, and open without the old one; again changes nothing", async () => {
    const ask = caller(bearer(app.secret_key), before);
    agent = (await must(ask("POST", "/api/v1/agents", { name: "Ada" }), 200)).id;
    for (let i = 0; i < 3; i++) await keep(before, `OLD_${i}`, aSecret());
    // More than are read at a time.
    await own.database.exec(`insert into data.agents (app_id, sandbox_id, org_id, id, name)
      select app_id, sandbox_id, org_id, 'agi_' || lpad(n::text, 22, '0'), name from data.agents, generate_series(1, 60) n`);
    const many = await Promise.all(
      Array.from({ length: 60 }, (_, i) => {
        const one = `/api/v1/agents/agi_${String(i + 1).padStart(22, "0")}/agent_env_vars`;
        return must(ask("POST", one, { key: "K", value: aSecret() }), 200);
      }),
    );
    expect(many.length).toBe(60);
    await keep(after, "NEW", aSecret());
    const [newest, older] = await versionsOf(`${fresh},${old}`);
    expect(await versions(`${fresh},${old}`)).toEqual({ [newest!]: 1, [older!]: 63 });
    expect((await proveSealed(own.database, fresh)).closed.length).toBe(63);

    expect(await reseal(own.database, `${fresh},${old}`)).toBe(63);
    expect(await proveSealed(own.database, fresh)).toEqual({ newest, versions: new Map([[newest, 64]]), closed: [] });
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(0);
  });

  it("are looked upon as equal to the same value sent again, before and after", async () => {
    const value = aSecret();
    const id = await keep(before, "SAME", value);
    const patch = async (base: string) =>
      (await must(caller(bearer(app.secret_key), base)("PATCH", `/api/v1/agent_env_vars/${id}`, { value }), 200))
        .updated_at;
    const was = await patch(before);
    await reseal(own.database, `${fresh},${old}`);
    expect(await patch(after)).toBe(was);
  });

  it("are not lost where a Worker writes at the same moment", async () => {
    const id = await keep(before, "RACED", aSecret());
    const value = aSecret();
    const patch = () =>
      must(caller(bearer(app.secret_key), before)("PATCH", `/api/v1/agent_env_vars/${id}`, { value }), 200);
    const racing: Database = {
      ...own.database,
      run: async (role, queries, options) => {
        if (queries[0]!.query.startsWith("update")) await patch();
        return own.database.run(role, queries, options);
      },
    };
    expect(await reseal(racing, `${fresh},${old}`)).toBe(0);
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(1);
    const [row] = await own.database.query<any>("select * from data.agent_env_vars where id = $1", [id]);
    const slot = { table: "agent_env_vars", app: row.app_id, sandbox: row.sandbox_id, id } as const;
    const place = [row.app_id, row.sandbox_id, row.org_id, row.agent_id, row.id, row.key];
    expect(await openFor(fresh, { slot, place, sealed: row.sealed, tag: row.tag })).toBe(value);
  });

  it("that don't open are named, and stay as they are", async () => {
    const [one, other] = [await keep(before, "MOVED", aSecret()), await keep(before, "OTHER", aSecret())];
    await own.database.query("update data.agent_env_vars set key = 'ELSEWHERE' where id = $1", [one]);
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(1);
    expect((await proveSealed(own.database, `${fresh},${old}`)).closed).toEqual([`agent_env_vars ${one}`]);
    await own.database.query("update data.agent_env_vars set key = 'MOVED' where id = $1", [one]);
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(1);
    expect((await proveSealed(own.database, fresh)).closed).toEqual([]);
    expect([other, await findShown(own.database)]).toEqual([other, []]);
  });
});

describe("secrets of webhooks, sealed under the old root secret,", () => {
  it("are believed, and sign, under the new one alone as soon as they are sealed anew, and not before", async () => {
    const { secret, body, sign } = senders.github!;
    const receiver = await aReceiver();
    const ask = caller(bearer(app.secret_key), before);
    const brought = secret();
    const hook = { name: "H", provider: "github", secret: brought };
    const { url } = await must(ask("POST", "/api/v1/inbound_webhooks", hook), 201);
    const endpoint = await anEndpoint(ask, receiver);
    const deliver = async (id: string) =>
      fetch(retired + new URL(url).pathname, {
        ...{ method: "POST", body: body(id), headers: await sign(brought, body(id), id, new Date()) },
      });
    const test = () =>
      fetch(`${retired}/api/v1/webhook_endpoints/${endpoint.id}/test`, {
        ...{ method: "POST", headers: bearer(app.secret_key) },
      });
    expect([(await deliver("a")).status, (await test()).status, receiver.received]).toEqual([500, 503, []]);
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(2);
    expect([(await deliver("b")).status, (await test()).status]).toEqual([202, 200]);
    const [{ raw, headers }] = receiver.received as [Received];
    expect(new Webhook(endpoint.secret).verify(raw, headers as Record<string, string>)).toMatchObject({
      type: "webhook_endpoint.test",
    });
    receiver.close();
  });
});

describe("a secret that was handed out sealed, to stand in a config,", () => {
  const encrypt = async (base: string, plaintext: string, org?: string): Promise<string> => {
    const ask = caller(bearer(app.secret_key), base);
    return (await must(ask("POST", "/api/v1/config/encrypt_secret", { plaintext, org }), 200)).encrypted_value;
  };
  const keyRow = async (org: string) =>
    (await own.database.query<any>("select * from data.secret_keys where org_id = $1", [org]))[0];
  /** As whoever uses it would: the key of the org, by these root secrets, and what it opens. */
  async function opened(roots: string, org: string, sealed: string) {
    const row = await keyRow(org);
    const slot = { table: "secret_keys", app: row.app_id, sandbox: row.sandbox_id, id: row.id } as const;
    const place = sealedTables.secret_keys.map((column) => row[column]);
    return openText(await openFor(roots, { slot, place, sealed: row.sealed, tag: row.tag }), sealed);
  }

  it("opens under the new root secret alone as soon as its org's key is sealed anew, though it is not", async () => {
    const { org_id: org } = (await own.database.query<any>("select org_id from data.users where id = $1", [user]))[0];
    const [mine, apps] = [aSecret(), aSecret()];
    const [sealed, sealedForApp] = [await encrypt(before, mine, org), await encrypt(before, apps)];
    expect(await opened(old, org, sealed)).toBe(mine);
    await expect(opened(fresh, org, sealed)).rejects.toThrow("not in ROOT_SECRETS");
    expect(await reseal(own.database, `${fresh},${old}`)).toBe(2);
    expect((await proveSealed(own.database, fresh)).closed).toEqual([]);
    expect([await opened(fresh, org, sealed), await opened(fresh, "-", sealedForApp)]).toEqual([mine, apps]);
    // The key is the same before and after, also for what is sealed next.
    expect(await opened(fresh, org, await encrypt(retired, mine, org))).toBe(mine);
    expect(await opened(fresh, "-", sealed)).toBe(null);
    expect(await opened(fresh, org, `${sealed.slice(0, -2)}AA`)).toBe(null);
    expect(await findShown(own.database)).toEqual([]);
  });

  it("is of one key an org, whoever asks first, and of none once the org has ended", async () => {
    const ask = caller(bearer(app.secret_key), retired);
    const at = developer(app.app_id);
    const { id } = await must(ask("POST", `${at}/orgs`, { name: "B", slug: "bee", domain: "bee.example" }), 201);
    const many = await Promise.all(Array.from({ length: 8 }, () => encrypt(retired, "the same", id)));
    expect(new Set(many).size).toBe(8);
    for (const sealed of many) expect(await opened(fresh, id, sealed)).toBe("the same");
    await must(ask("DELETE", `${at}/orgs/${id}`), 204);
    expect(await keyRow(id)).toBe(undefined);
  });

  it("does not open where the key was copied to another org", async () => {
    const ask = caller(bearer(app.secret_key), retired);
    const { id } = await must(
      ask("POST", `${developer(app.app_id)}/orgs`, { name: "C", slug: "cee", domain: "cee.example" }),
      201,
    );
    const sealed = await encrypt(retired, "theirs");
    await encrypt(retired, "mine", id);
    await own.database.query(
      "update data.secret_keys k set sealed = o.sealed, tag = o.tag from data.secret_keys o where k.org_id = $1 and o.org_id = '-'",
      [id],
    );
    await expect(opened(fresh, id, sealed)).rejects.toThrow("does not open");
    expect((await proveSealed(own.database, fresh)).closed).toEqual([`secret_keys ${id}`]);
  });
});
