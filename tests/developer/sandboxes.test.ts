import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, sql, unique } from "../harness/index.ts";

const sandboxes = "/api/v1/sandboxes";
const soon = "2099-12-31T12:00:00Z";
const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

/** A sandbox of an app, and its developer: a secret key of the sandbox. */
async function aSandbox(asDeveloper: Call, fields: object = {}) {
  const made = await must(asDeveloper("POST", sandboxes, { name: "Staging", slug: unique("sb"), ...fields }), 201);
  const key = await must(asDeveloper("POST", `${sandboxes}/${made.id}/keys`, { type: "secret" }), 200);
  return { ...made, key, inside: caller(bearer(key.full_key)) };
}

describe("POST /api/v1/sandboxes", () => {
  it("answers the sandbox with one publishable key", async () => {
    const { app, asDeveloper } = await anApp();
    const slug = unique("sb");
    const made = await must(asDeveloper("POST", sandboxes, { name: "Staging", slug }), 201);
    expect(made.id).toMatch(/^dsb_[0-9A-Za-z]{22}$/);
    expect(made).toMatchObject({ name: "Staging", slug, org: null, purpose: null, expires_at: null });
    expect(made.keys).toHaveLength(1);
    const [key] = made.keys;
    expect(key).toMatchObject({ type: "publishable", status: "active", full_key: null });
    expect(key.key_value).toMatch(new RegExp(`^pk_dsb_${app.slice(4)}_${made.id.slice(4)}_`));
  });

  it("refuses a slug that the app already has, and lets another app have it", async () => {
    const [one, two] = [await anApp(), await anApp()];
    const { status, body } = await one.asDeveloper("POST", sandboxes, { name: "Another", slug: "test" });
    expect([status, body.error.fields[0].field]).toEqual([409, "slug"]);
    await must(one.asDeveloper("POST", sandboxes, { name: "Staging", slug: "staging" }), 201);
    await must(two.asDeveloper("POST", sandboxes, { name: "Staging", slug: "staging" }), 201);
  });

  it("may be made for an org, and for a while", async () => {
    const { acme, asDeveloper } = await anApp();
    const made = await aSandbox(asDeveloper, { org: acme, purpose: "eval", expires_at: soon });
    expect(made).toMatchObject({ org: acme, purpose: "eval" });
    expect(Date.parse(made.expires_at)).toBe(Date.parse(soon));
    expect(made.key.expires_at).toBe(made.expires_at);
  });

  it.each([
    ["no name", { slug: "ab" }, "name"],
    ["no slug", { name: "Staging" }, "slug"],
    ["a slug with capitals", { name: "Staging", slug: "Staging" }, "slug"],
    ["an end without a purpose", { name: "Staging", slug: "ab", expires_at: soon }, "expires_at"],
    ["a purpose without an end", { name: "Staging", slug: "ab", purpose: "eval" }, "expires_at"],
    ["another purpose", { name: "Staging", slug: "ab", purpose: "fun", expires_at: soon }, "purpose"],
    ["a date without a time", { name: "Staging", slug: "ab", purpose: "eval", expires_at: "2099-12-31" }, "expires_at"],
    [
      "a day that there isn't",
      { name: "Staging", slug: "ab", purpose: "eval", expires_at: "2099-02-31T12:00:00Z" },
      "expires_at",
    ],
    ["the year 0", { name: "Staging", slug: "ab", purpose: "eval", expires_at: "0000-01-01T12:00:00Z" }, "expires_at"],
    ["an org that isn't there", { name: "Staging", slug: "ab", org: "org_0000000000000000000000" }, "org"],
  ])("refuses %s", async (_, asked, field) => {
    const { asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("POST", sandboxes, asked);
    expect([status, body.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });

  it("reads an end in any time zone", async () => {
    const { asDeveloper } = await anApp();
    const made = await aSandbox(asDeveloper, { purpose: "eval", expires_at: "2099-12-31T12:00:00+23:00" });
    expect(Date.parse(made.expires_at)).toBe(Date.parse("2099-12-30T13:00:00Z"));
  });

  it("refuses a sandbox's key", async () => {
    const { asDeveloper } = await anApp();
    const { inside } = await aSandbox(asDeveloper);
    const { status, body } = await inside("POST", sandboxes, { name: "Nested", slug: "nested" });
    expect([status, body.error.code]).toEqual([403, "sandbox_key"]);
  });
});

describe("GET /api/v1/sandboxes", () => {
  it("shows that every app is born with one called Test", async () => {
    const { asDeveloper } = await anApp();
    const { data, total_entries } = await must(asDeveloper("GET", sandboxes), 200);
    expect([total_entries, data[0].name, data[0].slug]).toEqual([1, "Test", "test"]);
    const { keys } = await must(asDeveloper("GET", `${sandboxes}/${data[0].id}`), 200);
    expect(keys.map(({ type, status }: any) => [type, status])).toEqual([["publishable", "active"]]);
  });

  it("lists the newest first, in pages", async () => {
    const { asDeveloper } = await anApp();
    const [one, two] = [await aSandbox(asDeveloper), await aSandbox(asDeveloper)];
    const page = await must(asDeveloper("GET", `${sandboxes}?page_size=2`), 200);
    expect([ids(page), page.total_entries, page.has_next]).toEqual([[two.id, one.id], 3, true]);
  });

  it("shows a sandbox's key its own sandbox alone", async () => {
    const { asDeveloper } = await anApp();
    const [one, two] = [await aSandbox(asDeveloper), await aSandbox(asDeveloper)];
    expect(ids(await must(one.inside("GET", sandboxes), 200))).toEqual([one.id]);
    await must(one.inside("GET", `${sandboxes}/${one.id}`), 200);
    expect((await one.inside("GET", `${sandboxes}/${two.id}`)).status).toBe(404);
    expect((await one.inside("DELETE", `${sandboxes}/${two.id}`)).status).toBe(404);
    await must(two.inside("GET", sandboxes), 200);
  });
});

describe("GET /api/v1/sandboxes/:sandbox", () => {
  it("shows live keys only, and never a secret", async () => {
    const { at, asDeveloper } = await anApp();
    const { id, key, keys, inside } = await aSandbox(asDeveloper);
    await must(inside("DELETE", `${at}/keys/${keys[0].id}`), 200);
    const { text, body } = await asDeveloper("GET", `${sandboxes}/${id}`);
    expect(body.keys.map((row: any) => [row.id, row.full_key])).toEqual([[key.id, null]]);
    expect(text).not.toContain(key.full_key.slice(-20));
  });
});

describe("POST /api/v1/sandboxes/:sandbox/keys", () => {
  it("makes keys of that sandbox: publishable unless told otherwise", async () => {
    const { app, asDeveloper } = await anApp();
    const { id, key } = await aSandbox(asDeveloper);
    expect(key.full_key).toMatch(new RegExp(`^sk_dsb_${app.slice(4)}_${id.slice(4)}_`));
    expect(key.key_value).toBeNull();
    const { type, full_key } = await must(asDeveloper("POST", `${sandboxes}/${id}/keys`), 200);
    expect([type, full_key.slice(0, 7)]).toEqual(["publishable", "pk_dsb_"]);
  });

  it("answers 404 for a sandbox that isn't there", async () => {
    const { asDeveloper } = await anApp();
    const { status } = await asDeveloper("POST", `${sandboxes}/dsb_0000000000000000000000/keys`);
    expect(status).toBe(404);
  });
});

describe("a sandbox", () => {
  it("is a partition: neither it nor production nor another sandbox sees the others' rows", async () => {
    const { acme, at, asDeveloper, owners } = await anApp();
    const [one, two] = [await aSandbox(asDeveloper), await aSandbox(asDeveloper)];
    const org = await must(
      one.inside("POST", `${at}/orgs`, { name: "Inner", slug: "inner", domain: "in.example" }),
      201,
    );
    expect(org.sandbox).toBe(one.id);
    for (const outside of [asDeveloper, two.inside]) {
      expect((await outside("GET", `${at}/orgs/${org.id}`)).status).toBe(404);
      expect(ids(await must(outside("GET", `${at}/orgs`), 200))).not.toContain(org.id);
    }
    expect((await one.inside("GET", `${at}/orgs/${acme}`)).status).toBe(404);
    expect((await one.inside("GET", `${at}/users/${owners[acme]}`)).status).toBe(404);
    expect(ids(await must(one.inside("GET", `${at}/orgs`), 200))).toEqual([org.id]);
    expect((await one.inside("GET", `${at}/keys`)).body.data).toHaveLength(2);
  });

  it("has slugs, domains, addresses and lookup_keys of its own", async () => {
    const { at, asDeveloper } = await anApp();
    const { inside } = await aSandbox(asDeveloper);
    const org = { name: "Twin", slug: "twin", domain: "twin.example" };
    for (const call of [asDeveloper, inside]) {
      const { id } = await must(call("POST", `${at}/orgs`, org), 201);
      await must(call("POST", `${at}/users`, { email: "ada@twin.example", org: id }), 201);
      await anAgent(call, { org: id, lookup_key: "twin" });
      for (const [path, again] of [
        [`${at}/orgs`, { ...org, domain: "other.example" }],
        [`${at}/orgs`, { ...org, slug: "other" }],
        [`${at}/users`, { email: "ADA@twin.example" }],
        ["/api/v1/agents", { name: "Bob", lookup_key: "twin" }],
      ] as const)
        expect((await call("POST", path, again)).status).toBe(409);
    }
  });

  it("mints tokens that see it alone, and say so", async () => {
    const { at, asDeveloper } = await anApp();
    const { id, inside, keys } = await aSandbox(asDeveloper);
    const org = await must(inside("POST", `${at}/orgs`, { name: "Inner", slug: "inner", domain: "in.example" }), 201);
    const user = await must(inside("POST", `${at}/users`, { org: org.id, role: "owner" }), 201);
    const minted = await must(inside("POST", `${at}/users/${user.id}/tokens`), 201);
    const itself = caller({ ...bearer(minted.access_token), "x-archastro-api-key": keys[0].key_value });
    const me = await must(itself("GET", "/api/v1/users/me"), 200);
    expect([me.id, me.sandbox, me.sandbox_name]).toEqual([user.id, id, "Staging"]);
    expect((await anAgent(itself)).sandbox).toBe(id);
    const { refresh_token } = minted;
    const refreshed = await must(caller()("POST", "/api/v1/auth/refresh", { refresh_token }), 200);
    expect((await must(caller(bearer(refreshed.token))("GET", "/api/v1/agents"), 200)).total_entries).toBe(1);
  });

  it("refuses production's publishable key beside its token", async () => {
    const { at, asDeveloper, publishable_key } = await anApp();
    const { inside } = await aSandbox(asDeveloper);
    const org = await must(inside("POST", `${at}/orgs`, { name: "Inner", slug: "inner", domain: "in.example" }), 201);
    const user = await must(inside("POST", `${at}/users`, { org: org.id }), 201);
    const { access_token } = await must(inside("POST", `${at}/users/${user.id}/tokens`), 201);
    const mixed = caller({ ...bearer(access_token), "x-archastro-api-key": publishable_key });
    expect((await mixed("GET", "/api/v1/users/me")).status).toBe(401);
  });
});

describe("a sandbox past its end", () => {
  /** A sandbox with a day left, a token and a refresh token of a person in it, and how to end it without a sweep. */
  async function anEnding() {
    const made = await anApp();
    const { id, inside } = await aSandbox(made.asDeveloper, { purpose: "eval", expires_at: soon });
    const org = await must(inside("POST", `${made.at}/orgs`, { name: "I", slug: "inner", domain: "in.example" }), 201);
    const user = await must(inside("POST", `${made.at}/users`, { org: org.id, role: "owner" }), 201);
    const session = await must(inside("POST", `${made.at}/users/${user.id}/tokens`), 201);
    // Its keys keep the end that they were made with, so that nothing but the sandbox's own can close a door.
    const leave = (time: string) =>
      sql(`update data.sandboxes set expires_at = now() + interval '${time}' where app_id = $1 and sandbox_id = $2`, [
        made.app,
        id,
      ]);
    return { ...made, id, inside, session, leave };
  }
  const refresh = (refresh_token: string) => caller()("POST", "/api/v1/auth/refresh", { refresh_token });

  it("is over at once for its keys", async () => {
    const { at, inside, leave } = await anEnding();
    await leave("1 minute");
    await must(inside("GET", at), 200);
    await leave("-1 second");
    const { status, body } = await inside("GET", at);
    expect([status, body.error.code]).toEqual([401, "unauthenticated"]);
  });

  it("is over at once for its tokens", async () => {
    const { session, leave } = await anEnding();
    const itself = caller(bearer(session.access_token));
    await leave("1 minute");
    await must(itself("GET", "/api/v1/users/me"), 200);
    await leave("-1 second");
    const { status, body } = await itself("GET", "/api/v1/users/me");
    expect([status, body.error.code]).toEqual([401, "unauthenticated"]);
  });

  it("is over at once for its refresh tokens", async () => {
    const { session, leave } = await anEnding();
    await leave("1 minute");
    const { refresh_token } = await must(refresh(session.refresh_token), 200);
    await leave("-1 second");
    const { status, body } = await refresh(refresh_token);
    expect([status, body.error.code]).toEqual([401, "unauthenticated"]);
  });

  it("ends nothing of production, nor of another sandbox", async () => {
    const { at, asDeveloper, leave, acme, as } = await anEnding();
    const other = await aSandbox(asDeveloper, { purpose: "eval", expires_at: soon });
    await leave("-1 second");
    await must(asDeveloper("GET", at), 200);
    await must(as(acme)("GET", "/api/v1/users/me"), 200);
    await must(other.inside("GET", at), 200);
  });
});

describe("DELETE /api/v1/sandboxes/:sandbox", () => {
  it("ends its keys, its tokens and all that lives in it", async () => {
    const { app, at, asDeveloper } = await anApp();
    const { id, inside } = await aSandbox(asDeveloper);
    const org = await must(inside("POST", `${at}/orgs`, { name: "Inner", slug: "inner", domain: "in.example" }), 201);
    const user = await must(inside("POST", `${at}/users`, { org: org.id, role: "owner" }), 201);
    const { access_token, refresh_token } = await must(inside("POST", `${at}/users/${user.id}/tokens`), 201);
    await anAgent(inside, { org: org.id });
    expect((await asDeveloper("DELETE", `${sandboxes}/${id}`)).status).toBe(204);
    expect((await inside("GET", at)).status).toBe(401);
    expect((await caller(bearer(access_token))("GET", "/api/v1/users/me")).status).toBe(401);
    expect((await caller()("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
    const tables = await sql("select table_name as name from information_schema.tables where table_schema = 'data'");
    for (const { name } of tables) {
      if (name === "apps") continue;
      expect([name, await sql(`select from data.${name} where app_id = $1 and sandbox_id = $2`, [app, id])]).toEqual([
        name,
        [],
      ]);
    }
  });

  it("is refused to the sandbox's own key, which sees the record; to another's there is none", async () => {
    const { asDeveloper } = await anApp();
    const [one, two] = [await aSandbox(asDeveloper), await aSandbox(asDeveloper)];
    const { status, body } = await one.inside("DELETE", `${sandboxes}/${one.id}`);
    expect([status, body.error.code]).toEqual([403, "sandbox_key"]);
    expect((await two.inside("DELETE", `${sandboxes}/${one.id}`)).status).toBe(404);
    await must(one.inside("GET", `${sandboxes}/${one.id}`), 200);
  });

  it("leaves a 404 behind, frees the slug and leaves the other sandboxes alone", async () => {
    const { asDeveloper } = await anApp();
    const [one, two] = [await aSandbox(asDeveloper), await aSandbox(asDeveloper)];
    await must(asDeveloper("DELETE", `${sandboxes}/${one.id}`), 204);
    expect((await asDeveloper("GET", `${sandboxes}/${one.id}`)).status).toBe(404);
    expect((await asDeveloper("DELETE", `${sandboxes}/${one.id}`)).status).toBe(404);
    await must(two.inside("GET", `${sandboxes}/${two.id}`), 200);
    await must(asDeveloper("POST", sandboxes, { name: "Again", slug: one.slug }), 201);
  });

  it("leaves the sandbox of a deleted org, which is a label only", async () => {
    const { acme, at, asDeveloper } = await anApp();
    const { id } = await aSandbox(asDeveloper, { org: acme });
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    expect((await must(asDeveloper("GET", `${sandboxes}/${id}`), 200)).org).toBeNull();
  });
});
