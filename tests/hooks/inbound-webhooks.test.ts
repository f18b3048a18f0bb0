/** The webhooks that others send to, as those keep them who may. */
import { beforeAll, expect, it } from "vitest";
import { aSecret } from "../harness/canary.ts";
import { type App, anAgent, anApp, type Call, must, sql, system, together, unique } from "../harness/index.ts";

const AT = "/api/v1/inbound_webhooks";
let app: App;
let owner: Call;
beforeAll(async () => {
  app = await anApp();
  owner = app.as(app.acme);
});

const make = (fields: object = {}, call = owner): Promise<any> =>
  must(call("POST", AT, { name: "Issues", provider: "github", ...fields }), 201);
const aRoutine = async (call = owner): Promise<any> => {
  const { id } = await anAgent(call);
  const routine = {
    name: "R",
    handler_type: "script",
    script: "1",
    event_type: "agentroutine.invoked",
    status: "active",
  };
  return must(call("POST", `/api/v1/agents/${id}/agent_routines`, routine), 200);
};
const anAutomation = async (call = owner, said: object = {}): Promise<any> => {
  const save = (kind: string, raw: object | string) => {
    const raw_content = typeof raw === "string" ? raw : JSON.stringify(raw);
    const mime_type = typeof raw === "string" ? "text/plain" : "application/json";
    return must(call("POST", "/api/v1/config", { kind, mime_type, raw_content, lookup_key: unique("c") }), 201);
  };
  const { id } = await save("Script", "$");
  return save("Automation", { name: "A", config_ref: id, ...said });
};

it("shows the address and the secret that it made in the answer that makes one, and never again", async () => {
  const made = await make();
  expect(made).toMatchObject({ name: "Issues", provider: "github", org: app.acme, routine: null, automation: null });
  expect(made.url).toMatch(/^http:\/\/agentry\.test\/hooks\/whk_[0-9A-Za-z]{22}__[0-9A-Za-z]{22}_[0-9A-Za-z]{43}$/);
  expect(atob(made.secret).length).toBe(32);
  const kept = { ...made, url: null, secret: null };
  expect(await must(owner("GET", `${AT}/${made.id}`), 200)).toEqual(kept);
  expect((await must(owner("GET", AT), 200)).data.find(({ id }: any) => id === made.id)).toEqual(kept);
  expect(await must(owner("PATCH", `${AT}/${made.id}`, { name: "Issues" }), 200)).toEqual(kept);
});

it("keeps a hash of the token, and the secret sealed", async () => {
  const { id, url, secret } = await make();
  const [row] = await sql("select t::text as row from data.inbound_webhooks t where id = $1", [id]);
  const token = url.split("/").at(-1);
  for (const text of [token, token.slice(-43), secret]) {
    expect(row.row).not.toContain(text);
    expect(row.row).not.toContain(Buffer.from(text).toString("hex"));
  }
});

it("makes one for a key, however often it is sent, and shows what is secret once", async () => {
  const key = { "Idempotency-Key": unique("key") };
  const body = { name: "Once", provider: "standard" };
  const first = await must(owner("POST", AT, body, key), 201);
  expect(first.secret).toMatch(/^whsec_/);
  expect(await must(owner("POST", AT, body, key), 201)).toEqual({ ...first, url: null, secret: null });
});

it("takes a secret that is brought, and shows it to nobody", async () => {
  for (const provider of ["github", "stripe", "slack"]) {
    const made = await make({ provider, secret: aSecret() });
    expect([provider, made.secret]).toEqual([provider, null]);
  }
  expect((await make({ provider: "stripe" })).secret).toBeNull();
  expect((await make({ provider: "url" })).secret).toBeNull();
});

it.each([
  ["a provider that is none", { provider: "gitlab" }, "provider"],
  ["hmac without its scheme", { provider: "hmac" }, "hmac"],
  ["a scheme of another provider", { hmac: { header: "X-Sig" } }, "hmac"],
  ["a header that is none", { provider: "hmac", hmac: { header: "X Sig" } }, "hmac.header"],
  [
    "a time that isn't signed",
    { provider: "hmac", hmac: { header: "X-Sig", timestamp_header: "X-T" } },
    "hmac.timestamp_header",
  ],
  [
    "a signed time without its header",
    { provider: "hmac", hmac: { header: "X-Sig", signed: "timestamp.body" } },
    "hmac.timestamp_header",
  ],
  ["a secret for an address alone", { provider: "url", secret: "0123456789abcdef" }, "secret"],
  ["a secret that can be guessed", { secret: "0123456789abcde" }, "secret"],
  ["a standard secret that is no base64", { provider: "standard", secret: "whsec_not-base-64-at-all" }, "secret"],
  ["a standard secret that is short", { provider: "standard", secret: `whsec_${btoa("x".repeat(23))}` }, "secret"],
  [
    "two things to start",
    { routine: "arn_0000000000000000000001", automation: "cfg_0000000000000000000001" },
    "automation",
  ],
])("refuses %s", async (_, fields, field) => {
  const { status, body } = await owner("POST", AT, { name: "No", provider: "github", ...fields });
  expect([status, body.error?.fields[0]?.field]).toEqual([422, field]);
});

it("starts what is of its org: elsewhere is absent, to the byte", async () => {
  const globex = app.as(app.globex);
  const of = {
    routine: [await aRoutine(), await aRoutine(globex)],
    automation: [await anAutomation(), await anAutomation(globex)],
  };
  for (const [field, [own, foreign]] of Object.entries(of)) {
    const hook = await make({ [field]: own.id });
    expect(hook[field]).toBe(own.id);
    const absent = `${own.id.slice(0, 4)}${"0".repeat(21)}1`;
    for (const ask of [
      (id: string) => owner("POST", AT, { name: "No", provider: "url", [field]: id }),
      (id: string) => owner("PATCH", `${AT}/${hook.id}`, { [field]: id }),
      // A key holds both orgs.
      (id: string) => app.asDeveloper("POST", AT, { name: "No", provider: "url", org: app.acme, [field]: id }),
      (id: string) => app.asDeveloper("PATCH", `${AT}/${hook.id}`, { [field]: id }),
    ]) {
      const [there, nowhere] = [await ask(foreign.id), await ask(absent)];
      expect([there.status, there.body.error]).toEqual([422, nowhere.body.error]);
      expect(there.body.error.fields).toEqual([{ field, message: `there is no such ${field}` }]);
    }
  }
});

it("starts one thing: naming another takes the place of the first", async () => {
  const [routine, automation] = [(await aRoutine()).id, (await anAutomation()).id];
  const { id } = await make({ routine });
  const patch = (body: object) => must(owner("PATCH", `${AT}/${id}`, body), 200);
  expect(await patch({ automation })).toMatchObject({ routine: null, automation });
  expect(await patch({ routine })).toMatchObject({ routine, automation: null });
  expect(await patch({ routine: null })).toMatchObject({ routine: null, automation: null });
  expect((await owner("PATCH", `${AT}/${id}`, { hmac: { header: "X-Sig" } })).status).toBe(422);
});

it("is for owners and admins to write, for members to read, and for a key in an org that it names", async () => {
  const { id } = await make();
  const member = app.as(app.acme, { role: "member" });
  expect((await member("POST", AT, { name: "No", provider: "url" })).status).toBe(403);
  expect((await member("DELETE", `${AT}/${id}`)).status).toBe(403);
  await must(member("GET", `${AT}/${id}`), 200);
  expect((await app.as(app.acme, { role: "billing" })("GET", AT)).status).toBe(403);
  expect(await make({ provider: "url", org: app.globex }, app.asDeveloper)).toMatchObject({ org: app.globex });
  const own = await make({ provider: "url" }, app.asDeveloper);
  expect(own).toMatchObject({ org: null, url: expect.stringMatching(/\/hooks\/whk_[0-9A-Za-z]{22}___/) });
  expect((await owner("GET", `${AT}/${own.id}`)).status).toBe(404);
});

it("tells of what is made, changed and deleted, and of no secret", async () => {
  const { id, secret, url } = await make({ name: unique("told") });
  await must(owner("PATCH", `${AT}/${id}`, { name: "Again" }), 200);
  await must(owner("POST", `${AT}/${id}/rotate_secret`, {}), 200);
  await must(owner("DELETE", `${AT}/${id}`), 204);
  expect((await owner("GET", `${AT}/${id}`)).status).toBe(404);
  const events = await sql("select name, payload from data.events where payload ->> 'id' = $1 order by position", [id]);
  expect(events).toEqual([
    { name: "inbound_webhook.created", payload: { id } },
    { name: "inbound_webhook.updated", payload: { id, fields: ["name"] } },
    { name: "inbound_webhook.updated", payload: { id, fields: ["secret"] } },
    { name: "inbound_webhook.deleted", payload: { id } },
  ]);
  const [feed] = await sql("select json_agg(e)::text as all from data.activity_feed_entries e where org_id = $1", [
    app.acme,
  ]);
  for (const text of [secret, url.split("/").at(-1)]) expect(feed.all).not.toContain(text);
});

it("has two addresses and two secrets after a rotation, and no third before the first has ended", async () => {
  const { id, url, secret } = await make();
  const rotate = (body: object = {}) => owner("POST", `${AT}/${id}/rotate_secret`, body);
  const second = await must(rotate({ overlap_seconds: 60 }), 200);
  expect([second.url === url, second.secret === secret]).toEqual([false, false]);
  const left = Date.parse(second.overlap_expires_at) - Date.now();
  expect([left > 50_000, left <= 60_000]).toEqual([true, true]);
  expect((await rotate()).body.error.code).toBe("rotation_under_way");
  await sql("update data.inbound_webhooks set overlap_expires_at = now() where id = $1", [id]);
  expect((await must(rotate({ overlap_seconds: 0 }), 200)).overlap_expires_at).toBeNull();
  const day = Date.parse((await must(rotate(), 200)).overlap_expires_at) - Date.now();
  expect(Math.round(day / 60_000)).toBe(24 * 60);
  for (const overlap_seconds of [-1, 604_801]) expect((await rotate({ overlap_seconds })).status).toBe(422);
});

it("wants a secret that the provider makes, and keeps the address of one that had none", async () => {
  const { id } = await make({ provider: "stripe" });
  const rotate = (body: object) => owner("POST", `${AT}/${id}/rotate_secret`, body);
  expect((await rotate({})).body.error.fields[0].field).toBe("secret");
  const first = { url: null, secret: null, overlap_expires_at: null };
  expect(await must(rotate({ secret: aSecret() }), 200)).toMatchObject(first);
  expect((await must(rotate({ secret: aSecret() }), 200)).url).toContain("/hooks/whk_");
  const standard = await make({ provider: "standard" });
  expect((await owner("POST", `${AT}/${standard.id}/rotate_secret`, { secret: "not-of-base-64" })).status).toBe(422);
});

it.runIf(system.concurrent)("rotates once of ten at once", async () => {
  const { id } = await make();
  const answers = await together(10, () => owner("POST", `${AT}/${id}/rotate_secret`, {}));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)]);
});

it("are listed newest first, page by page, each by the cursor of the one before", async () => {
  const { acme, as } = await anApp();
  const call = as(acme);
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.unshift((await make({}, call)).id);
  const pages: string[][] = [];
  for (let query = "?limit=2"; query; ) {
    const { data, after_cursor, has_more } = await must(call("GET", `${AT}${query}`), 200);
    pages.push(data.map(({ id }: any) => id));
    expect(has_more).toBe(after_cursor !== null);
    query = has_more && `?limit=2&after_cursor=${after_cursor}`;
  }
  expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
  expect((await call("GET", `${AT}?after_cursor=x`)).status).toBe(400);
});

it("is one of fifty of an org, or of as many as `settings.quotas` says", async () => {
  const { app: id, at, acme, as, asDeveloper } = await anApp();
  await must(asDeveloper("PATCH", at, { settings: { quotas: { inbound_webhooks: 2 } } }), 200);
  const call = as(acme);
  for (const _ of [1, 2]) await make({}, call);
  const beyond = await call("POST", AT, { name: "No", provider: "url" });
  expect([beyond.status, beyond.body.error.code, beyond.body.error.message]).toEqual([
    422,
    "limit_reached",
    expect.stringContaining("An org has at most 2 of these: inbound webhook"),
  ]);
  await must(asDeveloper("PATCH", at, { settings: { quotas: null } }), 200);
  const copies = `insert into data.inbound_webhooks (app_id, sandbox_id, org_id, id, name, provider, token_hash)
    select app_id, sandbox_id, org_id, id || n, name, 'url', sha256((id || n)::bytea)
      from data.inbound_webhooks, generate_series(1, 24) n where app_id = $1`;
  await sql(copies, [id]);
  expect((await call("POST", AT, { name: "No", provider: "url" })).body.error?.message).toContain("at most 50");
});
