import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, sql } from "../harness/index.ts";

const agents = "/api/v1/agents";
const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);
const fieldsOf = ({ body }: { body: any }) => body.error.fields.map(({ field }: any) => field);

/** An app, and somebody of acme: the id, and a caller with full access. */
async function aPerson(role: "member" | "viewer" | "admin" = "member") {
  const made = await anApp();
  const person = async (of: "member" | "viewer" | "admin" = "member") => {
    const { id } = await made.aUser(made.acme, of);
    return { id: id as string, call: caller(bearer((await made.aToken(id)).access_token)) as Call };
  };
  const { id, call } = await person(role);
  return { ...made, person, me: id, mine: call, owner: made.as(made.acme) };
}
const grant = (principal_type: string, principal: string | null, ...actions: string[]) => ({
  principal_type,
  principal,
  actions,
});

describe("POST /api/v1/agents", () => {
  it("answers the whole agent, unset fields as null", async () => {
    const { app, acme, as } = await anApp();
    const made = await must(as(acme)("POST", agents, { name: "Ada" }), 200);
    expect(made.id).toMatch(/^agi_[0-9A-Za-z]{22}$/);
    expect(made).toEqual({
      id: made.id,
      app,
      sandbox: null,
      org: acme,
      org_name: "Acme",
      team: null,
      user: null,
      name: "Ada",
      description: null,
      identity: null,
      default_model: null,
      originator: null,
      lookup_key: null,
      email: null,
      phone_number: null,
      metadata: {},
      acl: null,
      last_applied_template_config: null,
      template_upgrade_available: null,
      source_solution: null,
      created_at: made.created_at,
      updated_at: made.created_at,
    });
  });

  it("keeps every field that it is given", async () => {
    const { acme, as } = await anApp();
    const sent = {
      name: "Ada",
      description: "Counts",
      identity: "You are Ada.",
      default_model: "gpt",
      originator: "test",
      lookup_key: "ada",
      metadata: { a: [1, { b: null }] },
    };
    const { id } = await must(as(acme)("POST", agents, sent), 200);
    expect(await must(as(acme)("GET", `${agents}/${id}`), 200)).toMatchObject(sent);
  });

  it("refuses a lookup_key that any org of the app already has", async () => {
    const { acme, globex, as } = await anApp();
    await anAgent(as(acme), { lookup_key: "support" });
    const { status, body } = await as(globex)("POST", agents, { name: "Bob", lookup_key: "support" });
    expect([status, body.error.fields[0].field]).toEqual([409, "lookup_key"]);
  });

  it("takes model for default_model, and refuses two that differ", async () => {
    const { acme, as } = await anApp();
    expect((await anAgent(as(acme), { model: "one" })).default_model).toBe("one");
    expect((await anAgent(as(acme), { model: "one", default_model: "one" })).default_model).toBe("one");
    expect((await anAgent(as(acme), { model: "" })).default_model).toBeNull();
    const answer = await as(acme)("POST", agents, { name: "Ada", model: "one", default_model: "two" });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["model"]]);
  });

  it.each([
    ["name", undefined],
    ["name", null],
    ["name", ""],
    ["lookup_key", ""],
    ["lookup_key", "a/b"],
    ["lookup_key", "a b"],
    ["lookup_key", "agi_0000000000000000000000"],
    ["metadata", []],
    ["team", "tem_0000000000000000000000"],
    ["user", "usr_0000000000000000000000"],
    ["user", "ada"],
    ["org", "org_0000000000000000000000"],
    ["email", "ada@example.com"],
    ["phone_number", "+1"],
    ["profile_picture", { data: "", filename: "a.png", mime_type: "image/png" }],
    ["template", "support"],
    ["created_at", "2026-01-01T00:00:00Z"],
  ])("refuses %s: %j", async (field, value) => {
    const { acme, as } = await anApp();
    const answer = await as(acme)("POST", agents, { name: "Ada", [field]: value });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, [field]]);
  });

  describe("owner", () => {
    it("is the caller's org, or for a developer the app", async () => {
      const { acme, as, asDeveloper } = await anApp();
      expect(await anAgent(as(acme))).toMatchObject({ org: acme, user: null });
      expect(await anAgent(asDeveloper)).toMatchObject({ org: null, user: null });
    });

    it("may be any org, for a developer; for a person its own org alone", async () => {
      const { acme, globex, as, asDeveloper } = await anApp();
      expect((await anAgent(asDeveloper, { org: globex })).org).toBe(globex);
      expect((await anAgent(as(acme), { org: acme })).org).toBe(acme);
      const answer = await as(acme)("POST", agents, { name: "Ada", org: globex });
      expect([answer.status, fieldsOf(answer)]).toEqual([422, ["org"]]);
    });

    it("may be a user: the agent lives in that user's org", async () => {
      const { acme, me, mine, owner, asDeveloper } = await aPerson();
      for (const call of [mine, owner, asDeveloper]) {
        expect(await anAgent(call, { user: me })).toMatchObject({ org: acme, user: me });
      }
    });

    it("may be another person only by an admin's hand, and never one of another org", async () => {
      const { acme, globex, owners, mine, owner } = await aPerson();
      expect((await mine("POST", agents, { name: "Ada", user: owners[acme] })).status).toBe(403);
      const answer = await owner("POST", agents, { name: "Ada", user: owners[globex] });
      expect([answer.status, fieldsOf(answer)]).toEqual([422, ["user"]]);
    });

    it("is one: a user and an org together are refused", async () => {
      const { acme, me, owner } = await aPerson();
      const answer = await owner("POST", agents, { name: "Ada", user: me, org: acme });
      expect([answer.status, fieldsOf(answer)]).toEqual([422, ["org"]]);
    });
  });
});

describe("GET /api/v1/agents", () => {
  it("lists the org's agents, newest first, in a page envelope", async () => {
    const { acme, globex, as } = await anApp();
    const made = [await anAgent(as(acme)), await anAgent(as(acme)), await anAgent(as(acme))];
    await anAgent(as(globex));
    const { data, ...page } = await must(as(acme)("GET", `${agents}?page_size=2`), 200);
    expect(data.map(({ id }: any) => id)).toEqual([made[2].id, made[1].id]);
    expect(page).toEqual({ page: 1, page_size: 2, total_entries: 3, total_pages: 2, has_next: true, has_prev: false });
  });

  it("finds by a part of the agent's, its org's or its owner's name", async () => {
    const { acme, aUser, as } = await anApp();
    const grace = await aUser(acme, "member", { name: "Grace Hopper" });
    const [own, plain] = [await anAgent(as(acme), { user: grace.id }), await anAgent(as(acme), { name: "100% Bob" })];
    const found = async (search: string) =>
      ids(await must(as(acme)("GET", `${agents}?search=${encodeURIComponent(search)}`), 200));
    expect(await found("hopp")).toEqual([own.id]);
    expect(await found("BOB")).toEqual([plain.id]);
    expect(await found("acme")).toEqual([plain.id, own.id]);
    expect(await found("0%")).toEqual([plain.id]);
    expect(await found("globex")).toEqual([]);
  });

  it("filters by user, org and template, and counts what it filtered", async () => {
    const { acme, globex, me, mine, asDeveloper } = await aPerson();
    const own = await anAgent(mine, { user: me });
    const acmes = await anAgent(mine);
    const globexs = await anAgent(asDeveloper, { org: globex });
    const apps = await anAgent(asDeveloper);
    const of = async (query: string) => {
      const found = await must(asDeveloper("GET", `${agents}?${query}`), 200);
      return [ids(found), found.total_entries];
    };
    expect(await of("")).toEqual([[apps.id, globexs.id, acmes.id, own.id], 4]);
    expect(await of(`user=${me}`)).toEqual([[own.id], 1]);
    expect(await of(`org_id=${acme}`)).toEqual([[acmes.id, own.id], 2]);
    expect(await of(`org_id=${globex}&user=${me}`)).toEqual([[], 0]);
    for (const query of ["user=ada", "org_id=acme", "template_config=x", "solution_config[]=x"]) {
      expect([query, await of(query)]).toEqual([query, [[], 0]]);
    }
  });
});

describe("GET /api/v1/agents/:agent", () => {
  it("finds by id and by lookup_key", async () => {
    const { acme, as } = await anApp();
    const made = await anAgent(as(acme), { lookup_key: "grüße@1:2" });
    for (const name of [made.id, encodeURIComponent("grüße@1:2")]) {
      expect(await must(as(acme)("GET", `${agents}/${name}`), 200)).toEqual(made);
    }
  });

  it("shows another org's agent as it shows none, by id and by lookup_key", async () => {
    const { acme, globex, as } = await anApp();
    const { id } = await anAgent(as(globex), { lookup_key: "theirs" });
    const ask = (name: string) =>
      as(acme)("GET", `${agents}/${name}`, undefined, { "X-Request-Id": "the-same-request" });
    const answers = await Promise.all([id, "theirs", "agi_0000000000000000000000", "nobody", "%00"].map(ask));
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  });
});

describe("PATCH /api/v1/agents/:agent", () => {
  it("changes what is sent, clears what is null and leaves the rest alone", async () => {
    const { acme, as } = await anApp();
    const fields = {
      description: "Counts",
      identity: "Ada",
      model: "one",
      lookup_key: "ada",
      metadata: { a: 1, b: 2 },
    };
    const made = await anAgent(as(acme), fields);
    const change = { name: "Eve", description: null, metadata: { b: 3 } };
    const changed = await must(as(acme)("PATCH", `${agents}/ada`, change), 200);
    expect(changed).toEqual({ ...made, ...change, updated_at: changed.updated_at });
    expect(Date.parse(changed.updated_at)).toBeGreaterThan(Date.parse(made.updated_at));
  });

  it.each([
    [{ model: "two" }, "two"],
    [{ default_model: "two" }, "two"],
    [{ model: "" }, null],
    [{ default_model: null }, null],
  ])("sets the model with %j", async (change, model) => {
    const { acme, as } = await anApp();
    const { id } = await anAgent(as(acme), { model: "one" });
    expect((await must(as(acme)("PATCH", `${agents}/${id}`, change), 200)).default_model).toBe(model);
  });

  it("refuses a lookup_key that is taken; clearing one frees it", async () => {
    const { acme, globex, as } = await anApp();
    const one = await anAgent(as(acme), { lookup_key: "one" });
    const { id } = await anAgent(as(globex));
    const answer = await as(globex)("PATCH", `${agents}/${id}`, { lookup_key: "one" });
    expect([answer.status, fieldsOf(answer)]).toEqual([409, ["lookup_key"]]);
    await must(as(acme)("PATCH", `${agents}/${one.id}`, { lookup_key: null }), 200);
    await must(as(globex)("PATCH", `${agents}/${id}`, { lookup_key: "one" }), 200);
  });

  it("gives an agent to a user of its org, and takes it back", async () => {
    const { globex, owners, me, mine, owner } = await aPerson();
    const { id } = await anAgent(owner);
    expect((await must(mine("PATCH", `${agents}/${id}`, { user: me }), 200)).user).toBe(me);
    expect((await must(owner("PATCH", `${agents}/${id}`, { user: null }), 200)).user).toBeNull();
    const answer = await owner("PATCH", `${agents}/${id}`, { user: owners[globex] });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["user"]]);
  });

  it("leaves an agent in its org", async () => {
    const { acme, globex, asDeveloper } = await anApp();
    const { id } = await anAgent(asDeveloper, { org: acme });
    const answer = await asDeveloper("PATCH", `${agents}/${id}`, { org: globex });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, ["org"]]);
    expect((await must(asDeveloper("PATCH", `${agents}/${id}`, { org: acme }), 200)).org).toBe(acme);
  });

  it.each(["name", "team", "template", "id"])("refuses %s where it can't be changed so", async (field) => {
    const { acme, as } = await anApp();
    const { id } = await anAgent(as(acme));
    const answer = await as(acme)("PATCH", `${agents}/${id}`, { [field]: 7 });
    expect([answer.status, fieldsOf(answer)]).toEqual([422, [field]]);
  });
});

describe("DELETE /api/v1/agents/:agent", () => {
  it.each(["id", "lookup_key"])("answers 204, by its %s, leaves a 404 behind and frees the lookup_key", async (by) => {
    const { acme, as } = await anApp();
    const made = await anAgent(as(acme), { lookup_key: "ada" });
    expect((await as(acme)("DELETE", `${agents}/${made[by]}`)).status).toBe(204);
    for (const method of ["GET", "DELETE"]) expect((await as(acme)(method, `${agents}/${made.id}`)).status).toBe(404);
    await anAgent(as(acme), { lookup_key: "ada" });
  });

  it("doesn't reach another org's", async () => {
    const { acme, globex, as } = await anApp();
    const { id } = await anAgent(as(globex), { lookup_key: "theirs" });
    for (const name of [id, "theirs"]) expect((await as(acme)("DELETE", `${agents}/${name}`)).status).toBe(404);
    await must(as(globex)("GET", `${agents}/${id}`), 200);
  });
});

describe("acl", () => {
  it("is null where nothing restricts: everybody in the org reads and writes", async () => {
    const { mine, owner } = await aPerson();
    const { id, acl } = await anAgent(owner);
    expect(acl).toBeNull();
    await must(mine("PATCH", `${agents}/${id}`, { name: "Eve" }), 200);
  });

  it("is not needed for a personal agent: without one it is its user's, and the owners' and admins', alone", async () => {
    const { me, mine, owner, person, asDeveloper } = await aPerson();
    const [admin, other, viewer] = [await person("admin"), await person(), await person("viewer")];
    const { id, acl } = await anAgent(mine, { user: me, lookup_key: `own-${me}` });
    expect(acl).toBeNull();
    const feed = async (call: Call) =>
      (await must(call("GET", `/api/v1/activity_feed?agent[]=${id}`), 200)).data.map(({ kind }: any) => kind);
    for (const call of [other.call, viewer.call]) {
      expect((await must(call("GET", agents), 200)).total_entries).toBe(0);
      for (const name of [id, `own-${me}`]) expect((await call("GET", `${agents}/${name}`)).status).toBe(404);
      expect(await feed(call)).toEqual([]);
    }
    expect((await other.call("PATCH", `${agents}/${id}`, { name: "Eve" })).status).toBe(404);
    expect((await other.call("PATCH", `${agents}/${id}`, { user: other.id })).status).toBe(404);
    expect((await other.call("DELETE", `${agents}/${id}`)).status).toBe(404);
    for (const call of [mine, owner, admin.call, asDeveloper]) {
      expect(ids(await must(call("GET", agents), 200))).toEqual([id]);
      await must(call("PATCH", `${agents}/${id}`, { description: crypto.randomUUID() }), 200);
      expect(await feed(call)).toContain("agent.created");
    }
    // Nobody's own any more, it is the org's.
    await must(mine("PATCH", `${agents}/${id}`, { user: null }), 200);
    await must(other.call("PATCH", `${agents}/${id}`, { name: "Eve" }), 200);
    expect(await feed(other.call)).toEqual(["agent.updated", "agent.updated"]);
  });

  it("hides an agent from whom no grant names, in the list, its totals, its pages and by itself", async () => {
    const { me, mine, owner, person } = await aPerson();
    const other = await person();
    const shown: string[] = [];
    for (let i = 0; i < 6; i++) {
      const acl = { grants: [grant("user", i % 2 ? me : other.id, "read")] };
      const { id } = await anAgent(owner, { acl, lookup_key: `agent-${i}-${me}` });
      if (i % 2) shown.unshift(id);
    }
    const page = await must(mine("GET", `${agents}?page_size=2`), 200);
    expect([ids(page), page.total_entries, page.total_pages]).toEqual([shown.slice(0, 2), 3, 2]);
    expect(ids(await must(mine("GET", `${agents}?page_size=2&page=2`), 200))).toEqual(shown.slice(2));
    expect((await must(mine("GET", `${agents}?search=ada`), 200)).total_entries).toBe(3);
    for (const method of ["GET", "PATCH", "DELETE"]) {
      expect(
        (await mine(method, `${agents}/agent-0-${me}`, method === "PATCH" ? { name: "Eve" } : undefined)).status,
      ).toBe(404);
    }
  });

  it("lets whom it grants read alone look and not touch", async () => {
    const { me, mine, owner } = await aPerson();
    const { id } = await anAgent(owner, { acl: { grants: [grant("user", me, "read")] } });
    await must(mine("GET", `${agents}/${id}`), 200);
    expect((await mine("PATCH", `${agents}/${id}`, { name: "Eve" })).status).toBe(403);
    expect((await mine("DELETE", `${agents}/${id}`)).status).toBe(403);
  });

  it("takes write for read too, and another action for neither", async () => {
    const { me, mine, owner } = await aPerson();
    const writable = await anAgent(owner, { acl: { grants: [grant("user", me, "write")] } });
    const strange = await anAgent(owner, { acl: { grants: [grant("user", me, "admire")] } });
    expect(strange.acl.grants[0].actions).toEqual(["admire"]);
    expect(ids(await must(mine("GET", agents), 200))).toEqual([writable.id]);
    await must(mine("PATCH", `${agents}/${writable.id}`, { name: "Eve" }), 200);
  });

  it.each([
    ["everyone", () => null, [true, true]],
    ["org", (acme: string) => acme, [true, true]],
    ["org", () => "org_0000000000000000000000", [false, false]],
    ["org_role", () => "member", [true, false]],
    ["org_role", () => "viewer", [false, true]],
    ["org_role", () => "admin", [false, false]],
    ["team", () => "tem_0000000000000000000000", [false, false]],
    ["agent", () => "agi_0000000000000000000000", [false, false]],
  ] as const)("grants %s: a member and a viewer see it or don't", async (type, principal, expected) => {
    const { acme, globex, mine, owner, person, as } = await aPerson();
    const viewer = await person("viewer");
    const { id } = await anAgent(owner, { acl: { grants: [grant(type, principal(acme), "read")] } });
    const sees = async (call: Call) => (await call("GET", `${agents}/${id}`)).status === 200;
    expect([await sees(mine), await sees(viewer.call)]).toEqual(expected);
    expect(await sees(as(globex))).toBe(false);
  });

  it("means by everyone everyone in the org, however many orgs grant it", async () => {
    const { acme, globex, as } = await anApp();
    const acl = { grants: [grant("everyone", null, "read", "write")] };
    const [ours, theirs] = [await anAgent(as(acme), { acl }), await anAgent(as(globex), { acl })];
    const member = as(acme, { role: "member" });
    expect(ids(await must(member("GET", agents), 200))).toEqual([ours.id]);
    expect((await member("PATCH", `${agents}/${theirs.id}`, { name: "Eve" })).status).toBe(404);
  });

  it("is passed by the org's owners and admins, the agent's owner and developers", async () => {
    const { me, mine, owner, person, asDeveloper } = await aPerson();
    const [admin, other] = [await person("admin"), await person()];
    const { id } = await anAgent(owner, { user: me, acl: { grants: [grant("user", me, "read")] } });
    for (const call of [owner, admin.call, mine, asDeveloper]) {
      await must(call("PATCH", `${agents}/${id}`, { name: "Eve" }), 200);
      expect(ids(await must(call("GET", agents), 200))).toContain(id);
    }
    expect((await other.call("GET", `${agents}/${id}`)).status).toBe(404);
  });

  it("follows a role as it is now: a demoted admin loses sight at once", async () => {
    const { at, me, mine, owner, person, asDeveloper } = await aPerson();
    const admin = await person("admin");
    const { id } = await anAgent(owner, { acl: { grants: [grant("user", me, "read")] } });
    await must(admin.call("GET", `${agents}/${id}`), 200);
    await must(asDeveloper("PATCH", `${at}/users/${admin.id}`, { role: "member" }), 200);
    expect((await admin.call("GET", `${agents}/${id}`)).status).toBe(404);
    await must(mine("GET", `${agents}/${id}`), 200);
  });

  describe("changes", () => {
    const aclOf = async (call: Call, id: string, acl: unknown) =>
      (await must(call("PATCH", `${agents}/${id}`, { acl }), 200)).acl;
    const user = (n: number) => `usr_${String(n).padStart(22, "0")}`;

    it("replaces the whole list with grants; an empty list or null clears it", async () => {
      const { acme, as } = await anApp();
      const { id, acl } = await anAgent(as(acme), { acl: { grants: [grant("user", user(1), "read")] } });
      expect(acl).toEqual({ grants: [grant("user", user(1), "read")] });
      const next = { grants: [grant("everyone", null, "read"), grant("user", user(2), "write")] };
      expect(await aclOf(as(acme), id, next)).toEqual(next);
      expect(await aclOf(as(acme), id, { grants: [] })).toBeNull();
      await aclOf(as(acme), id, next);
      expect(await aclOf(as(acme), id, null)).toBeNull();
    });

    it("merges what is added, the actions of one principal united", async () => {
      const { acme, as } = await anApp();
      const { id } = await anAgent(as(acme), { acl: { grants: [grant("user", user(1), "read")] } });
      const add = [grant("user", user(1), "write", "read"), grant("org_role", "member", "read")];
      const { grants } = await aclOf(as(acme), id, { add });
      expect(grants).toEqual([grant("user", user(1), "read", "write"), grant("org_role", "member", "read")]);
    });

    it("drops whom remove names, whatever they could do, and adds in the same breath", async () => {
      const { acme, as } = await anApp();
      const { id } = await anAgent(as(acme), {
        acl: { grants: [grant("user", user(1), "read", "write"), grant("everyone", null, "read")] },
      });
      const { grants } = await aclOf(as(acme), id, {
        remove: [{ principal_type: "everyone" }, { principal_type: "user", principal: user(1) }],
        add: [grant("user", user(1), "admire"), grant("user", user(2), "read")],
      });
      expect(grants).toEqual([grant("user", user(1), "admire"), grant("user", user(2), "read")]);
    });

    it("drops nobody of the same kind that remove doesn't name", async () => {
      const { acme, as } = await anApp();
      const kept = [grant("user", user(2), "read"), grant("org_role", "member", "read")];
      const { id } = await anAgent(as(acme), {
        acl: { grants: [grant("user", user(1), "read"), grant("org_role", "viewer", "read"), ...kept] },
      });
      const remove = [
        { principal_type: "user", principal: user(1) },
        { principal_type: "org_role", principal: "viewer" },
      ];
      expect((await aclOf(as(acme), id, { remove })).grants).toEqual(kept);
    });

    it("never opens a row by taking a grant away", async () => {
      const { me, mine, owner } = await aPerson();
      const { id } = await anAgent(owner, { acl: { grants: [grant("user", me, "read")] } });
      const acl = await aclOf(owner, id, { remove: [{ principal_type: "user", principal: me }] });
      expect(acl).toEqual({ grants: [] });
      expect((await mine("GET", `${agents}/${id}`)).status).toBe(404);
    });

    it.each([
      ["nobody added", { add: [] }],
      ["nobody removed", { remove: [] }],
      ["somebody removed who wasn't there", { remove: [{ principal_type: "user", principal: user(1) }] }],
    ])("never closes an open row with %s", async (_, acl) => {
      const { mine, owner } = await aPerson();
      const { id } = await anAgent(owner);
      expect(await aclOf(owner, id, acl)).toBeNull();
      await must(mine("GET", `${agents}/${id}`), 200);
    });

    it("leaves the list alone when acl is absent", async () => {
      const { acme, as } = await anApp();
      const acl = { grants: [grant("user", user(1), "read")] };
      const { id } = await anAgent(as(acme), { acl });
      expect((await must(as(acme)("PATCH", `${agents}/${id}`, { name: "Eve" }), 200)).acl).toEqual(acl);
    });

    it.each([
      ["grants with add", { grants: [], add: [grant("everyone", null, "read")] }, "acl"],
      [
        "grants with remove",
        { grants: [grant("everyone", null, "read")], remove: [{ principal_type: "everyone" }] },
        "acl",
      ],
      ["nothing in it", {}, "acl"],
      ["a list", [], "acl"],
      ["a grant without actions", { grants: [grant("everyone", null)] }, "acl.grants.0.actions"],
      ["everyone with a principal", { grants: [grant("everyone", "user", "read")] }, "acl.grants.0"],
      ["a user without a principal", { add: [grant("user", null, "read")] }, "acl.add.0"],
      ["a user by another kind's id", { add: [grant("user", "org_0000000000000000000000", "read")] }, "acl.add.0"],
      ["an org_role that there isn't", { add: [grant("org_role", "owner", "read")] }, "acl.add.0"],
      ["a kind that there isn't", { add: [grant("robot", "x", "read")] }, "acl.add.0.principal_type"],
      ["a field that there isn't", { add: [{ ...grant("everyone", null, "read"), until: "noon" }] }, "acl.add.0.until"],
    ])("refuses %s, on create and on update", async (_, acl, field) => {
      const { acme, as } = await anApp();
      const { id } = await anAgent(as(acme));
      for (const answer of [
        await as(acme)("POST", agents, { name: "Ada", acl }),
        await as(acme)("PATCH", `${agents}/${id}`, { acl }),
      ]) {
        expect([answer.status, fieldsOf(answer)]).toEqual([422, [field]]);
      }
      expect(await sql("select from data.agents where id = $1 and acl is null", [id])).toHaveLength(1);
    });
  });
});
