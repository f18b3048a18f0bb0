import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must, sql } from "../harness/index.ts";

const ping = "/api/v1/status/ping";

describe("POST /protected/api/v2/developer/apps/:app_id/keys", () => {
  it("makes a publishable key unless told otherwise, which stays readable", async () => {
    const { at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`), 201);
    expect(made).toMatchObject({ type: "publishable", status: "active", key_value: made.full_key, last_used_at: null });
    expect(made.full_key).toMatch(/^pk_live_/);
  });

  it("makes a secret key that works at once and for the same app", async () => {
    const { app, at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    expect(made.full_key).toMatch(new RegExp(`^sk_live_${app.slice(4)}_`));
    const { id } = await must(caller(bearer(made.full_key))("GET", at), 200);
    expect(id).toBe(app);
  });

  it("keeps a secret key as its hash alone", async () => {
    const { app, at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    const [row] = await sql("select k::text as text, value from data.keys k where app_id = $1 and id = $2", [
      app,
      made.id,
    ]);
    expect(row.value).toBeNull();
    expect(row.text).not.toContain(made.full_key.split("_")[3]);
  });

  it("hints at a key by its last four characters", async () => {
    const { at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    expect(made.key_hint).toBe(made.full_key.slice(-4));
  });

  it.each([
    ["another type", { type: "root" }, "type"],
    ["a null type", { type: null }, "type"],
    ["a key of the client's choice", { full_key: "sk_live_mine" }, "full_key"],
  ])("refuses %s", async (_, asked, field) => {
    const { at, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("POST", `${at}/keys`, asked);
    expect([status, body.error.fields[0].field]).toEqual([422, field]);
  });
});

describe("GET /protected/api/v2/developer/apps/:app_id/keys", () => {
  it("lists the newest first, revoked ones too", async () => {
    const { at, asDeveloper } = await anApp();
    const one = await must(asDeveloper("POST", `${at}/keys`), 201);
    const two = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    await must(asDeveloper("DELETE", `${at}/keys/${one.id}`), 200);
    const { data } = await must(asDeveloper("GET", `${at}/keys`), 200);
    expect(data).toHaveLength(4);
    expect(data.slice(0, 2).map(({ id, status }: any) => [id, status])).toEqual([
      [two.id, "active"],
      [one.id, "revoked"],
    ]);
  });

  it("are the newest 1000", async () => {
    const { app, at, asDeveloper } = await anApp();
    await sql(
      `insert into data.keys (id, app_id, sandbox_id, type, hash, hint)
        select 'dsk_' || lpad(i::text, 22, '0'), $1, '-', 'publishable', sha256(i::text::bytea), 'hint' from generate_series(1, 1000) i`,
      [app],
    );
    const { data } = await must(asDeveloper("GET", `${at}/keys`), 200);
    // The app's own two are newer than any of these.
    expect([data.length, data.at(-1).id]).toEqual([1000, `dsk_${"3".padStart(22, "0")}`]);
  });

  it("never shows a secret key again", async () => {
    const { at, asDeveloper, secret_key } = await anApp();
    const { full_key } = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    const { text, body } = await asDeveloper("GET", `${at}/keys`);
    for (const key of [secret_key, full_key]) expect(text).not.toContain(key.slice(-20));
    expect(body.data.every((key: any) => key.full_key === null)).toBe(true);
  });

  it("shows publishable keys, which are no secret", async () => {
    const { at, asDeveloper, publishable_key } = await anApp();
    const { data } = await must(asDeveloper("GET", `${at}/keys`), 200);
    const values = data.map(({ type, key_value }: any) => [type, key_value]);
    expect(values).toEqual(
      expect.arrayContaining([
        ["publishable", publishable_key],
        ["secret", null],
      ]),
    );
  });

  it("notes when a key was last used", async () => {
    const { at, asDeveloper } = await anApp();
    const used = async () => {
      const { data } = await must(asDeveloper("GET", `${at}/keys`), 200);
      return data.find(({ type }: any) => type === "secret").last_used_at;
    };
    await expect.poll(used, { timeout: 5000 }).toMatch(/Z$/);
  });

  it("notes use at most once a minute", async () => {
    const { app, at, asDeveloper } = await anApp();
    const stamp = (age: string) =>
      sql(`update data.keys set last_used_at = now() - interval '${age}' where app_id = $1 and type = 'secret'`, [app]);
    const used = async () => {
      const [row] = await sql(
        "select extract(epoch from now() - last_used_at)::int as age from data.keys where app_id = $1 and type = 'secret' and sandbox_id = '-'",
        [app],
      );
      return row.age;
    };
    await expect.poll(async () => (await must(asDeveloper("GET", `${at}/keys`), 200)) && (await used())).not.toBeNull();
    await stamp("50 seconds");
    await must(asDeveloper("GET", at), 200);
    await must(asDeveloper("GET", at), 200);
    // What goes out after the answers has had its time by then.
    for (let i = 0; i < 5; i++) expect(await used()).toBeGreaterThanOrEqual(50);
    await stamp("61 seconds");
    await must(asDeveloper("GET", at), 200);
    await expect.poll(used, { timeout: 5000 }).toBeLessThan(50);
  });
});

describe("DELETE /protected/api/v2/developer/apps/:app_id/keys/:key", () => {
  it("refuses the very next request with the key", async () => {
    const { at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    const asOther = caller(bearer(made.full_key));
    await must(asOther("GET", at), 200);
    expect(await must(asDeveloper("DELETE", `${at}/keys/${made.id}`), 200)).toMatchObject({ status: "revoked" });
    const { status, headers } = await asOther("GET", at);
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="agentry", error="invalid_token"']);
  });

  it("refuses a token that comes beside a revoked publishable key, and it alone", async () => {
    const { acme, owners, at, asDeveloper, aToken, publishable_key } = await anApp();
    const { access_token } = await aToken(owners[acme]!);
    const both = caller({ ...bearer(access_token), "x-archastro-api-key": publishable_key });
    await must(both("GET", "/api/v1/users/me"), 200);
    const { data } = await must(asDeveloper("GET", `${at}/keys`), 200);
    const { id } = data.find(({ key_value }: any) => key_value === publishable_key);
    await must(asDeveloper("DELETE", `${at}/keys/${id}`), 200);
    expect((await both("GET", "/api/v1/users/me")).status).toBe(401);
    await must(caller(bearer(access_token))("GET", "/api/v1/users/me"), 200);
  });

  it("refuses a secret key that comes beside a revoked one, and it alone", async () => {
    const { at, secret_key, asDeveloper } = await anApp();
    const other = await must(asDeveloper("POST", `${at}/keys`), 201);
    const both = caller({ ...bearer(secret_key), "x-archastro-api-key": other.full_key });
    await must(both("GET", at), 200);
    await must(asDeveloper("DELETE", `${at}/keys/${other.id}`), 200);
    expect((await both("GET", at)).status).toBe(401);
    await must(asDeveloper("GET", at), 200);
  });

  it("answers the same record when asked twice", async () => {
    const { at, asDeveloper } = await anApp();
    const { id } = await must(asDeveloper("POST", `${at}/keys`), 201);
    const once = await must(asDeveloper("DELETE", `${at}/keys/${id}`), 200);
    expect(await must(asDeveloper("DELETE", `${at}/keys/${id}`), 200)).toEqual(once);
    const [told] = await sql(
      "select count(*)::int as times from data.activity_feed_entries where kind = 'key.revoked' and metadata ->> 'key' = $1",
      [id],
    );
    expect(told.times).toBe(1);
  });

  it("lets a key end itself", async () => {
    const { at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    const itself = caller(bearer(made.full_key));
    await must(itself("DELETE", `${at}/keys/${made.id}`), 200);
    const { token } = await must(itself("GET", ping), 200);
    expect(token).toEqual({ status: "invalid", active: false });
  });

  it.each(["dsk_0000000000000000000000", "dsk_short", "org_0000000000000000000000", "%00"])(
    "answers 404 for %s",
    async (id) => {
      const { at, asDeveloper } = await anApp();
      const { status, body } = await asDeveloper("DELETE", `${at}/keys/${id}`);
      expect([status, body.error.message]).toEqual([404, "No such key."]);
    },
  );
});
