import { describe, expect, it } from "vitest";
import { anApp, bearer, type Call, caller, must, sql, unique } from "../harness/index.ts";

const body = (fields: object = {}) => {
  const slug = unique("org");
  return { name: "Initech", slug, domain: `${slug}.example`, ...fields };
};
const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);
const without = (fields: object, name: string) =>
  Object.fromEntries(Object.entries(fields).filter(([k]) => k !== name));

describe("POST /protected/api/v2/developer/apps/:app_id/orgs", () => {
  it("answers the whole org: active by default, unset fields as null", async () => {
    const { app, at, asDeveloper } = await anApp();
    const sent = body();
    const made = await must(asDeveloper("POST", `${at}/orgs`, sent), 201);
    expect(made.id).toMatch(/^org_[0-9A-Za-z]{22}$/);
    expect(made).toEqual({
      ...sent,
      id: made.id,
      app,
      sandbox: null,
      website: null,
      industry: null,
      description: null,
      status: "active",
      kind: "company",
      owner_user: null,
      owned_products: [],
      onboarding_track: null,
      onboarding_solution_lookup_key: null,
      created_at: made.created_at,
      updated_at: made.created_at,
    });
  });

  it("keeps every field that it is given", async () => {
    const { at, asDeveloper } = await anApp();
    const sent = body({
      website: "https://initech.example/",
      industry: "Software",
      description: "TPS reports",
      status: "trialing",
    });
    const { id } = await must(asDeveloper("POST", `${at}/orgs`, sent), 201);
    expect(await must(asDeveloper("GET", `${at}/orgs/${id}`), 200)).toMatchObject(sent);
  });

  it.each(["name", "slug", "domain"])("refuses an org without a %s", async (field) => {
    const { at, asDeveloper } = await anApp();
    const { status, body: answer } = await asDeveloper("POST", `${at}/orgs`, without(body(), field));
    expect([status, answer.error.fields]).toEqual([422, [{ field, message: "is required" }]]);
  });

  it.each(["ab", "a1", "1-a", "a-b-c", "a--b", "x".repeat(100)])("takes the slug %s", async (slug) => {
    const { at, asDeveloper } = await anApp();
    expect((await must(asDeveloper("POST", `${at}/orgs`, body({ slug })), 201)).slug).toBe(slug);
  });

  it.each(["a", "", "-ab", "ab-", "Ab", "a_b", "a b", "a.b", "é-é", "x".repeat(101), "ab\n", null, 12])(
    "refuses the slug %j",
    async (slug) => {
      const { at, asDeveloper } = await anApp();
      const { status, body: answer } = await asDeveloper("POST", `${at}/orgs`, body({ slug }));
      expect([status, answer.error.fields.map(({ field }: any) => field)]).toEqual([422, ["slug"]]);
    },
  );

  it.each(["initech.example", "localhost", "a.b.c.d.example", `${"x".repeat(63)}.example`, "xn--bcher-kva.example"])(
    "takes the domain %s",
    async (domain) => {
      const { at, asDeveloper } = await anApp();
      expect((await must(asDeveloper("POST", `${at}/orgs`, body({ domain })), 201)).domain).toBe(domain);
    },
  );

  it.each([
    "https://initech.example",
    "initech.example/",
    "initech.example:443",
    ".example",
    "initech..example",
    "initech.example.",
    "-initech.example",
    "initech-.example",
    "in_itech.example",
    "ini tech.example",
    `${"x".repeat(64)}.example`,
    `${"a.".repeat(127)}example`,
    "",
    null,
  ])("refuses the domain %j", async (domain) => {
    const { at, asDeveloper } = await anApp();
    const { status, body: answer } = await asDeveloper("POST", `${at}/orgs`, body({ domain }));
    expect([status, answer.error.fields.map(({ field }: any) => field)]).toEqual([422, ["domain"]]);
  });

  it("keeps the domain in lower case", async () => {
    const { at, asDeveloper } = await anApp();
    const { domain } = await must(asDeveloper("POST", `${at}/orgs`, body({ domain: "WWW.Initech.Example" })), 201);
    expect(domain).toBe("www.initech.example");
  });

  it.each([
    ["slug", { slug: "initech" }, { slug: "initech" }],
    ["domain", { domain: "initech.example" }, { domain: "INITECH.example" }],
  ])("refuses a %s that another org of the app has, and names it", async (field, first, second) => {
    const { at, asDeveloper } = await anApp();
    await must(asDeveloper("POST", `${at}/orgs`, body(first)), 201);
    const { status, body: answer } = await asDeveloper("POST", `${at}/orgs`, body(second));
    expect([status, answer.error.code]).toEqual([409, "conflict"]);
    expect(answer.error.fields).toEqual([{ field, message: "is already taken" }]);
  });

  it("lets two apps have the same slug and domain", async () => {
    const [one, two] = [await anApp(), await anApp()];
    const sent = body();
    await must(one.asDeveloper("POST", `${one.at}/orgs`, sent), 201);
    await must(two.asDeveloper("POST", `${two.at}/orgs`, sent), 201);
  });

  it.each([
    ["status", "closed"],
    ["status", null],
    ["name", ""],
    ["name", "x".repeat(201)],
    ["website", 7],
    ["description", "x".repeat(10_001)],
    ["id", "org_0000000000000000000000"],
    ["app", "dap_0000000000000000000000"],
  ])("refuses %s: %j", async (field, value) => {
    const { at, asDeveloper } = await anApp();
    const { status, body: answer } = await asDeveloper("POST", `${at}/orgs`, body({ [field]: value }));
    expect([status, answer.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });
});

describe("GET /protected/api/v2/developer/apps/:app_id/orgs", () => {
  it("lists the app's orgs, newest first, in a page envelope", async () => {
    const { acme, globex, at, anOrg, asDeveloper } = await anApp();
    const newest = await anOrg();
    const { data, ...page } = await must(asDeveloper("GET", `${at}/orgs`), 200);
    expect(data.map(({ id }: any) => id)).toEqual([newest.id, globex, acme]);
    expect(data[0]).toEqual(newest);
    const envelope = { page: 1, page_size: 25, total_entries: 3, total_pages: 1, has_next: false, has_prev: false };
    expect(page).toEqual(envelope);
  });

  it("finds by a part of name, slug or domain, whatever the case", async () => {
    const { at, anOrg, asDeveloper } = await anApp();
    const made = await anOrg({ name: "Umbrella", slug: "hive-9", domain: "raccoon.example" });
    for (const search of ["umbr", "BRELLA", "hive-", "RACCOON.ex"]) {
      const found = await must(asDeveloper("GET", `${at}/orgs?search=${search}`), 200);
      expect([ids(found), found.total_entries]).toEqual([[made.id], 1]);
    }
    expect(ids(await must(asDeveloper("GET", `${at}/orgs?search=nothing-like-it`), 200))).toEqual([]);
  });

  it("takes a search of 200 characters and no more, as every list does", async () => {
    const { at, asDeveloper } = await anApp();
    for (const path of [`${at}/orgs`, `${at}/users`, "/api/v1/orgs", "/api/v1/agents"]) {
      await must(asDeveloper("GET", `${path}?search=${"é".repeat(200)}`), 200);
      const { status, body } = await asDeveloper("GET", `${path}?search=${"é".repeat(201)}`);
      expect([status, body.error.fields[0].field]).toEqual([422, "search"]);
    }
  });

  it("reads %, _ and \\ in a search as themselves", async () => {
    const { at, anOrg, asDeveloper } = await anApp();
    const made = await anOrg({ name: "100%_\\" });
    for (const search of ["100%", "%_", "_\\", "\\"]) {
      expect(ids(await must(asDeveloper("GET", `${at}/orgs?search=${encodeURIComponent(search)}`), 200))).toEqual([
        made.id,
      ]);
    }
  });

  it("filters by status, and counts what it filtered", async () => {
    const { acme, globex, at, anOrg, asDeveloper } = await anApp();
    const suspended = await anOrg({ status: "suspended" });
    const trialing = await anOrg({ status: "trialing" });
    const of = async (status: string) => {
      const found = await must(asDeveloper("GET", `${at}/orgs?status=${status}`), 200);
      return [ids(found), found.total_entries];
    };
    expect(await of("suspended")).toEqual([[suspended.id], 1]);
    expect(await of("trialing")).toEqual([[trialing.id], 1]);
    expect(await of("active")).toEqual([[globex, acme], 2]);
    expect((await asDeveloper("GET", `${at}/orgs?status=closed`)).status).toBe(422);
  });

  it("combines search, status and page", async () => {
    const { at, anOrg, asDeveloper } = await anApp();
    const made: string[] = [];
    for (const n of [1, 2, 3]) made.push((await anOrg({ name: `Hooli ${n}`, status: "trialing" })).id);
    await anOrg({ name: "Hooli active" });
    const page = await must(asDeveloper("GET", `${at}/orgs?search=hooli&status=trialing&page=2&page_size=2`), 200);
    expect([ids(page), page.total_entries, page.total_pages]).toEqual([[made[0]], 3, 2]);
    expect([page.has_next, page.has_prev]).toEqual([false, true]);
  });
});

describe("PATCH /protected/api/v2/developer/apps/:app_id/orgs/:id", () => {
  it("changes what is sent, clears what is null and leaves the rest alone", async () => {
    const { at, anOrg, asDeveloper } = await anApp();
    const made = await anOrg({ website: "https://a.example", industry: "Software", description: "Reports" });
    const change = { name: "Renamed", website: null, domain: `NEW.${made.domain}` };
    const changed = await must(asDeveloper("PATCH", `${at}/orgs/${made.id}`, change), 200);
    expect(changed).toEqual({
      ...made,
      name: "Renamed",
      website: null,
      domain: `new.${made.domain}`,
      updated_at: changed.updated_at,
    });
    expect(Date.parse(changed.updated_at)).toBeGreaterThan(Date.parse(made.updated_at));
    expect(await must(asDeveloper("GET", `${at}/orgs/${made.id}`), 200)).toEqual(changed);
  });

  it.each(["slug", "domain"])("refuses another org's %s, and lets an org keep its own", async (field) => {
    const { at, anOrg, asDeveloper } = await anApp();
    const [one, two] = [await anOrg(), await anOrg()];
    const { status, body: answer } = await asDeveloper("PATCH", `${at}/orgs/${two.id}`, { [field]: one[field] });
    expect([status, answer.error.fields[0].field]).toEqual([409, field]);
    await must(asDeveloper("PATCH", `${at}/orgs/${two.id}`, { [field]: two[field] }), 200);
  });

  it.each([
    ["name", null],
    ["slug", null],
    ["domain", null],
    ["slug", "Not A Slug"],
    ["status", "closed"],
    ["kind", "personal"],
  ])("refuses %s: %j", async (field, value) => {
    const { acme, at, asDeveloper } = await anApp();
    const { status, body: answer } = await asDeveloper("PATCH", `${at}/orgs/${acme}`, { [field]: value });
    expect([status, answer.error.fields.map((fault: any) => fault.field)]).toEqual([422, [field]]);
  });

  it("suspends an org: its tokens are refused at once and no other org's", async () => {
    const { acme, globex, at, as, asDeveloper } = await anApp();
    await must(as(acme)("GET", "/api/v1/agents"), 200);
    await must(as(globex)("GET", "/api/v1/agents"), 200);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    for (const path of ["/api/v1/agents", "/api/v1/users/me", "/api/v1/orgs"]) {
      const { status, body: answer } = await as(acme)("GET", path);
      expect([path, status, answer.error.code]).toEqual([path, 403, "org_suspended"]);
    }
    expect((await as(acme)("POST", "/api/v1/agents", { name: "Ada" })).status).toBe(403);
    await must(as(globex)("GET", "/api/v1/agents"), 200);
  });

  it.each(["active", "trialing"])("lifts a suspension as soon as the org is %s: the same token works", async (next) => {
    const { acme, at, as, asDeveloper } = await anApp();
    await must(as(acme)("POST", "/api/v1/agents", { name: "Ada" }), 200);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    expect((await as(acme)("GET", "/api/v1/agents")).status).toBe(403);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: next }), 200);
    const { data } = await must(as(acme)("GET", "/api/v1/agents"), 200);
    expect(data.map(({ name }: any) => name)).toEqual(["Ada"]);
  });

  it("lets a developer work in a suspended org", async () => {
    const { acme, at, asDeveloper } = await anApp();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    await must(asDeveloper("POST", "/api/v1/agents", { name: "Ada", org: acme }), 200);
  });
});

describe("a trialing org", () => {
  it("works like an active one", async () => {
    const { at, anOrg, as, aUser, aToken, asDeveloper } = await anApp();
    const { id } = await anOrg({ status: "trialing" });
    const user = await aUser(id, "owner");
    const { refresh_token } = await aToken(user.id);
    await must(as(id)("POST", "/api/v1/agents", { name: "Ada" }), 200);
    await must(as(id)("POST", "/api/v1/users/me/tokens", {}), 201);
    await must(asDeveloper("GET", `${at}/users/${user.id}/tokens`), 200);
    await must(caller()("POST", "/api/v1/auth/refresh", { refresh_token }), 200);
  });
});

describe("DELETE /protected/api/v2/developer/apps/:app_id/orgs/:id", () => {
  it("answers 204 and leaves a 404 behind", async () => {
    const { acme, globex, at, asDeveloper } = await anApp();
    expect((await asDeveloper("DELETE", `${at}/orgs/${acme}`)).status).toBe(204);
    expect((await asDeveloper("GET", `${at}/orgs/${acme}`)).status).toBe(404);
    expect((await asDeveloper("DELETE", `${at}/orgs/${acme}`)).status).toBe(404);
    expect(ids(await must(asDeveloper("GET", `${at}/orgs`), 200))).toEqual([globex]);
  });

  it("ends its members, their tokens and their sign-ins at once", async () => {
    const { acme, globex, at, owners, aToken, asDeveloper } = await anApp();
    const { access_token, refresh_token } = await aToken(owners[acme]!);
    const member: Call = caller(bearer(access_token));
    const personal = await must(member("POST", "/api/v1/users/me/tokens", {}), 201);
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    expect((await member("GET", "/api/v1/users/me")).status).toBe(401);
    expect((await caller(bearer(personal.token))("GET", "/api/v1/users/me")).status).toBe(401);
    expect((await caller()("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
    expect((await asDeveloper("GET", `${at}/users/${owners[acme]}`)).status).toBe(404);
    await must(asDeveloper("GET", `${at}/users/${owners[globex]}`), 200);
  });

  it("leaves no row of the org in any table but the app's own entry of the feed", async () => {
    const { app, acme, at, as, asDeveloper } = await anApp();
    await must(as(acme)("POST", "/api/v1/agents", { name: "Ada" }, { "Idempotency-Key": "ada" }), 200);
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    const tables = await sql("select table_name as name from information_schema.tables where table_schema = 'data'");
    expect(tables.length).toBeGreaterThan(8);
    for (const { name } of tables) {
      if (name === "apps") continue;
      const rows = await sql(`select from data.${name} where app_id = $1 and org_id = $2`, [app, acme]);
      expect([name, rows.length]).toEqual([name, 0]);
    }
  });

  it("frees slug, domain, the members' addresses and the agents' lookup_keys", async () => {
    const { at, anOrg, aUser, asDeveloper } = await anApp();
    const { id, slug, domain } = await anOrg();
    await aUser(id, "owner", { email: "peter@initech.example" });
    await must(asDeveloper("POST", "/api/v1/agents", { name: "Ada", org: id, lookup_key: "ada" }), 200);
    await must(asDeveloper("DELETE", `${at}/orgs/${id}`), 204);
    const again = await anOrg({ slug, domain });
    await aUser(again.id, "owner", { email: "peter@initech.example" });
    await must(asDeveloper("POST", "/api/v1/agents", { name: "Ada", org: again.id, lookup_key: "ada" }), 200);
  });
});
