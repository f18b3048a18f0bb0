import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, caller, must, sql, unique } from "../harness/index.ts";

const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);
const address = () => `${unique("u")}@example.com`;

describe("POST /protected/api/v2/developer/apps/:app_id/users", () => {
  it("answers the whole user, unset fields as null", async () => {
    const { app, acme, at, asDeveloper } = await anApp();
    const sent = { email: address(), name: "Ada", alias: "ada", metadata: { plan: "pro" } };
    const made = await must(asDeveloper("POST", `${at}/users`, { ...sent, org: acme, role: "admin" }), 201);
    expect(made.id).toMatch(/^usr_[0-9A-Za-z]{22}$/);
    expect(made).toEqual({
      ...sent,
      id: made.id,
      app,
      app_name: "Test",
      sandbox: null,
      sandbox_name: null,
      org: acme,
      org_name: "Acme",
      org_slug: made.org_slug,
      org_role: "admin",
      is_system_user: false,
      created_by_agent_user: null,
      created_by_developer: null,
      created_by_org: null,
      created_by_team: null,
      created_by_user: null,
    });
  });

  it("needs nothing: a user may have no address, no name and no org", async () => {
    const { at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/users`, {}), 201);
    expect(made).toMatchObject({ email: null, name: null, alias: null, org: null, org_role: null, metadata: {} });
  });

  it.each([
    ["owner", "admin"],
    ["admin", "admin"],
    ["member", "member"],
    ["billing", "viewer"],
    ["viewer", "viewer"],
  ])("shows the role %s as %s", async (role, org_role) => {
    const { acme, at, asDeveloper } = await anApp();
    const made = await must(asDeveloper("POST", `${at}/users`, { org: acme, role }), 201);
    expect(made.org_role).toBe(org_role);
    expect(ids(await must(asDeveloper("GET", `${at}/users?org=${acme}&role=${role}`), 200))).toContain(made.id);
  });

  it("makes a member, unless told otherwise", async () => {
    const { acme, at, asDeveloper } = await anApp();
    expect((await must(asDeveloper("POST", `${at}/users`, { org: acme }), 201)).org_role).toBe("member");
  });

  it("refuses an e-mail address that is taken, whatever its case, in whichever org", async () => {
    const { acme, globex, at, asDeveloper } = await anApp();
    await must(asDeveloper("POST", `${at}/users`, { email: "Peter@Initech.example", org: acme }), 201);
    for (const email of ["peter@initech.EXAMPLE", "Peter@Initech.example"]) {
      const { status, body } = await asDeveloper("POST", `${at}/users`, { email, org: globex });
      expect([status, body.error.fields]).toEqual([409, [{ field: "email", message: "is already taken" }]]);
    }
  });

  it("keeps an address as it was written", async () => {
    const { at, asDeveloper } = await anApp();
    const { id } = await must(asDeveloper("POST", `${at}/users`, { email: "Peter@Initech.example" }), 201);
    expect((await must(asDeveloper("GET", `${at}/users/${id}`), 200)).email).toBe("Peter@Initech.example");
  });

  it("lets two apps have the same address, and one app many users without any", async () => {
    const [one, two] = [await anApp(), await anApp()];
    const email = address();
    await must(one.asDeveloper("POST", `${one.at}/users`, { email }), 201);
    await must(two.asDeveloper("POST", `${two.at}/users`, { email }), 201);
    await must(one.asDeveloper("POST", `${one.at}/users`, {}), 201);
    await must(one.asDeveloper("POST", `${one.at}/users`, { email: null }), 201);
  });

  it.each([
    ["email", "not an address"],
    ["email", "a@b@c.example"],
    ["email", ""],
    ["email", `${"x".repeat(250)}@example.com`],
    ["email", 7],
    ["name", "x".repeat(201)],
    ["role", "root"],
    ["role", null],
    ["org", "org_0000000000000000000000"],
    ["org", "acme"],
    ["is_system_user", "yes"],
    ["metadata", []],
    ["metadata", null],
    ["metadata", { text: "x".repeat(16 * 1024) }],
    ["org_role", "admin"],
    ["id", "usr_0000000000000000000000"],
  ])("refuses %s: %j", async (field, value) => {
    const { acme, at, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("POST", `${at}/users`, { org: acme, [field]: value });
    expect([status, body.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });

  it("refuses a role without an org", async () => {
    const { at, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("POST", `${at}/users`, { role: "member" });
    expect([status, body.error.fields[0].field]).toEqual([422, "role"]);
  });

  it("keeps every name in metadata, constructor and __proto__ too", async () => {
    const { at, asDeveloper } = await anApp();
    const metadata = '{"constructor":"a","__proto__":"b","prototype":"c","hasOwnProperty":"d","":"e"}';
    const made = await asDeveloper("POST", `${at}/users`, `{"metadata":${metadata}}`);
    expect(made.status).toBe(201);
    const entries = ["constructor", "__proto__", "prototype", "hasOwnProperty", ""].sort();
    expect(Object.keys(made.body.metadata).sort()).toEqual(entries);
  });
});

describe("GET /protected/api/v2/developer/apps/:app_id/users", () => {
  it("lists users of every org and of none, newest first", async () => {
    const { acme, globex, owners, at, aUser, asDeveloper } = await anApp();
    const loose = await aUser(null);
    const { data, ...page } = await must(asDeveloper("GET", `${at}/users`), 200);
    expect(data.map(({ id }: any) => id)).toEqual([loose.id, owners[globex], owners[acme]]);
    expect(page).toMatchObject({ page: 1, page_size: 25, total_entries: 3, total_pages: 1 });
  });

  it("filters by org and role, and counts what it filtered", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const billing = await aUser(acme, "billing");
    const of = async (query: string) => {
      const found = await must(asDeveloper("GET", `${at}/users?${query}`), 200);
      return [ids(found), found.total_entries];
    };
    expect(await of(`org=${acme}&role=billing`)).toEqual([[billing.id], 1]);
    expect(await of(`org=${acme}&role=viewer`)).toEqual([[], 0]);
    expect(await of("org=org_0000000000000000000000")).toEqual([[], 0]);
    expect(await of("org=acme")).toEqual([[], 0]);
    expect((await asDeveloper("GET", `${at}/users?role=root`)).status).toBe(422);
  });

  it("finds by a part of name, alias or address, whatever the case", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const made = await aUser(acme, "member", { name: "Grace Hopper", alias: "amazing", email: "rear@admiral.example" });
    for (const search of ["hopp", "GRACE", "Amaz", "ADMIRAL.ex"]) {
      expect(ids(await must(asDeveloper("GET", `${at}/users?search=${search}`), 200))).toEqual([made.id]);
    }
  });
});

describe("PATCH /protected/api/v2/developer/apps/:app_id/users/:id", () => {
  it("changes what is sent, clears what is null and leaves the rest alone", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const made = await aUser(acme, "member", { alias: "ada", metadata: { a: 1, b: 2 } });
    const change = { name: "Renamed", alias: null, metadata: { b: 3 } };
    const changed = await must(asDeveloper("PATCH", `${at}/users/${made.id}`, change), 200);
    expect(changed).toEqual({ ...made, ...change });
    expect(await must(asDeveloper("GET", `${at}/users/${made.id}`), 200)).toEqual(changed);
  });

  it("refuses another user's address, and lets a user keep its own in another case", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const [one, two] = [await aUser(acme), await aUser(acme)];
    const { status, body } = await asDeveloper("PATCH", `${at}/users/${two.id}`, { email: one.email.toUpperCase() });
    expect([status, body.error.fields[0].field]).toEqual([409, "email"]);
    await must(asDeveloper("PATCH", `${at}/users/${two.id}`, { email: two.email.toUpperCase() }), 200);
  });

  it.each(["another org", "no org"])("refuses to move a user to %s", async (to) => {
    const { acme, globex, at, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(acme);
    const org = to === "no org" ? null : globex;
    const { status, body } = await asDeveloper("PATCH", `${at}/users/${id}`, { org, name: "Moved" });
    expect([status, body.error.fields[0].field]).toEqual([422, "org"]);
    expect(await must(asDeveloper("GET", `${at}/users/${id}`), 200)).toMatchObject({ org: acme, name: "A user" });
  });

  it("takes the org that the user is in already", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(acme);
    await must(asDeveloper("PATCH", `${at}/users/${id}`, { org: acme, name: "Renamed" }), 200);
  });

  it("refuses to bring a user without an org into one, or to give it a role", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(null);
    for (const [field, value] of [
      ["org", acme],
      ["role", "member"],
    ]) {
      const { status, body } = await asDeveloper("PATCH", `${at}/users/${id}`, { [field!]: value });
      expect([status, body.error.fields[0].field]).toEqual([422, field]);
    }
  });

  it("takes effect on tokens that are out: a demoted admin may do less at once", async () => {
    const { acme, at, aUser, aToken, asDeveloper } = await anApp();
    const { id } = await aUser(acme, "admin");
    const { access_token } = await aToken(id);
    const itself = caller(bearer(access_token));
    await must(itself("POST", "/api/v1/agents", { name: "Ada" }), 200);
    await must(asDeveloper("PATCH", `${at}/users/${id}`, { role: "viewer" }), 200);
    const { status, headers } = await itself("POST", "/api/v1/agents", { name: "Bob" });
    expect([status, headers.get("WWW-Authenticate")]).toEqual([
      403,
      'Bearer realm="agentry", error="insufficient_scope", scope="agents:write"',
    ]);
    await must(itself("GET", "/api/v1/agents"), 200);
  });

  it.each(["admin", "member", "billing", "viewer"])("refuses to make the last owner a %s", async (role) => {
    const { acme, owners, at, aUser, asDeveloper } = await anApp();
    await aUser(acme, "admin");
    const { status, body } = await asDeveloper("PATCH", `${at}/users/${owners[acme]}`, { role, name: "Renamed" });
    expect([status, body.error.code]).toEqual([409, "last_owner"]);
    const still = await must(asDeveloper("GET", `${at}/users?org=${acme}&role=owner`), 200);
    expect(still.data.map(({ id, name }: any) => [id, name])).toEqual([[owners[acme], "Acme's owner"]]);
  });

  it("demotes an owner once there is another; an owner of another org is none", async () => {
    const { acme, owners, at, aUser, asDeveloper } = await anApp();
    await aUser(acme, "owner");
    const { org_role } = await must(asDeveloper("PATCH", `${at}/users/${owners[acme]}`, { role: "member" }), 200);
    expect(org_role).toBe("member");
  });

  it("lets the last owner be renamed and stay an owner", async () => {
    const { acme, owners, at, asDeveloper } = await anApp();
    const change = { name: "Renamed", role: "owner", is_system_user: false };
    const { name } = await must(asDeveloper("PATCH", `${at}/users/${owners[acme]}`, change), 200);
    expect(name).toBe("Renamed");
  });
});

describe("DELETE /protected/api/v2/developer/apps/:app_id/users/:id", () => {
  it("answers 204, leaves a 404 behind and frees the address", async () => {
    const { acme, at, aUser, asDeveloper } = await anApp();
    const { id, email } = await aUser(acme);
    expect((await asDeveloper("DELETE", `${at}/users/${id}`)).status).toBe(204);
    expect((await asDeveloper("GET", `${at}/users/${id}`)).status).toBe(404);
    expect((await asDeveloper("DELETE", `${at}/users/${id}`)).status).toBe(404);
    await aUser(acme, "member", { email });
  });

  it("ends its tokens and sign-ins at once", async () => {
    const { acme, at, aUser, aToken, asDeveloper } = await anApp();
    const { id } = await aUser(acme);
    const { access_token, refresh_token } = await aToken(id);
    await must(asDeveloper("DELETE", `${at}/users/${id}`), 204);
    const { status, headers } = await caller(bearer(access_token))("GET", "/api/v1/users/me");
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="agentry", error="invalid_token"']);
    expect((await caller()("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
    expect(await sql("select from data.tokens where user_id = $1", [id])).toEqual([]);
  });

  it("deletes the agents that are its own, and no other", async () => {
    const { acme, at, as, aUser, asDeveloper } = await anApp();
    const { id } = await aUser(acme);
    const own = await anAgent(as(acme), { user: id });
    const orgs = await anAgent(as(acme));
    await must(asDeveloper("DELETE", `${at}/users/${id}`), 204);
    expect((await as(acme)("GET", `/api/v1/agents/${own.id}`)).status).toBe(404);
    await must(as(acme)("GET", `/api/v1/agents/${orgs.id}`), 200);
  });

  it("refuses the last owner, and takes one of two", async () => {
    const { acme, owners, at, aUser, asDeveloper } = await anApp();
    const { status, body } = await asDeveloper("DELETE", `${at}/users/${owners[acme]}`);
    expect([status, body.error.code]).toEqual([409, "last_owner"]);
    const second = await aUser(acme, "owner");
    await must(asDeveloper("DELETE", `${at}/users/${owners[acme]}`), 204);
    expect((await asDeveloper("DELETE", `${at}/users/${second.id}`)).status).toBe(409);
  });

  it("takes members of an org that never had an owner", async () => {
    const { at, anOrg, aUser, asDeveloper } = await anApp();
    const { id } = await aUser((await anOrg()).id, "admin");
    await must(asDeveloper("DELETE", `${at}/users/${id}`), 204);
  });
});
