import { describe, expect, it } from "vitest";
import { anApp, bearer, caller, must } from "../harness/index.ts";

/** An app, and a member of acme with a token. */
async function aMember(fields: object = {}, scopes?: string[]) {
  const made = await anApp();
  const user = await made.aUser(made.acme, "member", fields);
  return { ...made, user, itself: caller(bearer((await made.aToken(user.id, scopes)).access_token)) };
}

describe("GET /api/v1/users/me", () => {
  it("answers the token's user with the names of what is around it", async () => {
    const { app, acme, user, itself } = await aMember({ alias: "ada", metadata: { plan: "pro" } });
    const me = await must(itself("GET", "/api/v1/users/me"), 200);
    expect(me).toEqual({
      id: user.id,
      app,
      app_name: "Test",
      sandbox: null,
      sandbox_name: null,
      org: acme,
      org_name: "Acme",
      org_slug: expect.stringMatching(/^org-/),
      org_kind: "company",
      org_role: "member",
      email: user.email,
      name: "A user",
      alias: "ada",
      is_system_user: false,
      metadata: { plan: "pro" },
      notification_settings: {},
      profile_picture: null,
      timezone: null,
      effective_access: null,
    });
  });

  it("needs no scope: any live token may know whose it is", async () => {
    const { user, itself } = await aMember({}, ["agents:read"]);
    expect((await must(itself("GET", "/api/v1/users/me"), 200)).id).toBe(user.id);
  });

  it("refuses a secret key, which acts for nobody", async () => {
    const { asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("GET", "/api/v1/users/me");
    expect([status, body.error.code]).toEqual([403, "no_user"]);
  });
});

describe("GET /api/v1/users/:user", () => {
  it("answers a colleague, and oneself", async () => {
    const { acme, owners, user, itself } = await aMember();
    expect(await must(itself("GET", `/api/v1/users/${user.id}`), 200)).toEqual(user);
    const colleague = await must(itself("GET", `/api/v1/users/${owners[acme]}`), 200);
    expect(colleague).toMatchObject({ name: "Acme's owner", org: acme, org_role: "admin" });
  });

  it("shows another org's user as it shows none", async () => {
    const { globex, owners, itself } = await aMember();
    const ask = (id: string) => itself("GET", `/api/v1/users/${id}`, undefined, { "X-Request-Id": "the-same-request" });
    const foreign = await ask(owners[globex]!);
    expect([foreign.status, foreign.text]).toEqual([404, (await ask("usr_0000000000000000000000")).text]);
  });

  it("shows a developer any user", async () => {
    const { globex, owners, asDeveloper } = await anApp();
    expect((await must(asDeveloper("GET", `/api/v1/users/${owners[globex]}`), 200)).org).toBe(globex);
  });
});

describe("GET /api/v1/users/:user/orgs", () => {
  it.each(["me", "id"])("answers the one org that the user is in, named by %s", async (by) => {
    const { acme, at, user, itself, asDeveloper } = await aMember();
    const { data } = await must(itself("GET", `/api/v1/users/${by === "me" ? "me" : user.id}/orgs`), 200);
    expect(data).toEqual([await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200)]);
  });

  it("answers nothing for a user that is in none", async () => {
    const { aUser, asDeveloper } = await anApp();
    const { id } = await aUser(null);
    expect(await must(asDeveloper("GET", `/api/v1/users/${id}/orgs`), 200)).toEqual({ data: [] });
  });

  it("answers 404 for a user of another org", async () => {
    const { globex, owners, itself } = await aMember();
    expect((await itself("GET", `/api/v1/users/${owners[globex]}/orgs`)).status).toBe(404);
  });
});

describe("PUT /api/v1/users/:user/profile", () => {
  it.each(["me", "id"])("changes one's own name and alias, named by %s", async (by) => {
    const { user, itself } = await aMember();
    const path = `/api/v1/users/${by === "me" ? "me" : user.id}/profile`;
    const changed = await must(itself("PUT", path, { full_name: "Ada Lovelace", alias: "ada" }), 200);
    expect(changed).toEqual({ ...user, name: "Ada Lovelace", alias: "ada" });
    expect(await must(itself("PUT", path, {}), 200)).toEqual(changed);
  });

  it("merges metadata, and takes a name out with null", async () => {
    const { itself } = await aMember({ metadata: { keep: 1, change: 1, drop: 1 } });
    const { metadata } = await must(
      itself("PUT", "/api/v1/users/me/profile", { metadata: { change: 2, drop: null, add: { deep: null } } }),
      200,
    );
    expect(metadata).toEqual({ keep: 1, change: 2, add: { deep: null } });
  });

  it("keeps merged metadata within bounds, however it got there", async () => {
    const { itself } = await aMember();
    const put = (name: string) =>
      itself("PUT", "/api/v1/users/me/profile", { metadata: { [name]: "x".repeat(15_000) } });
    await must(put("one"), 200);
    const { status, body } = await put("two");
    expect([status, body.error.fields.map((fault: any) => fault.field)]).toEqual([422, ["metadata"]]);
  });

  it("clears the name with clear_full_name or null", async () => {
    const { itself } = await aMember();
    for (const clear of [{ clear_full_name: true }, { full_name: null }]) {
      await must(itself("PUT", "/api/v1/users/me/profile", { full_name: "Ada" }), 200);
      expect((await must(itself("PUT", "/api/v1/users/me/profile", clear), 200)).name).toBeNull();
    }
  });

  it.each([
    ["a name and its clearing", { full_name: "Ada", clear_full_name: true }, "clear_full_name"],
    ["a picture", { profile_picture: { data: "", filename: "a.png", mime_type: "image/png" } }, "profile_picture"],
    ["a role", { role: "owner" }, "role"],
    ["an address", { email: "other@example.com" }, "email"],
    ["an org", { org: null }, "org"],
    ["a list for metadata", { metadata: [1] }, "metadata"],
  ])("refuses %s", async (_, change, field) => {
    const { itself } = await aMember();
    const { status, body } = await itself("PUT", "/api/v1/users/me/profile", change);
    expect([status, body.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });

  it("is one's own: a colleague's is absent, even for the owner", async () => {
    const { acme, user, as } = await aMember();
    expect((await as(acme)("PUT", `/api/v1/users/${user.id}/profile`, { full_name: "Eve" })).status).toBe(404);
  });

  it("refuses a restricted token", async () => {
    const { itself } = await aMember({}, ["users:read", "users:write", "agents:*"]);
    expect((await itself("PUT", "/api/v1/users/me/profile", { full_name: "Eve" })).status).toBe(403);
  });

  it("lets a developer write any user's", async () => {
    const { user, asDeveloper } = await aMember();
    const { name } = await must(asDeveloper("PUT", `/api/v1/users/${user.id}/profile`, { full_name: "Ada" }), 200);
    expect(name).toBe("Ada");
    expect((await asDeveloper("PUT", "/api/v1/users/me/profile", {})).status).toBe(403);
  });
});
