import { createHash } from "node:crypto";
import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import { anAgent, anApp, type Call, must, sql, system, together, unique } from "../harness/index.ts";

const yaml = (raw_content: string, fields: object = {}) => ({
  ...{ kind: "AgentTemplate", mime_type: "application/yaml", raw_content },
  ...fields,
});
const plain = (raw_content = "hello", fields: object = {}) => ({
  ...{ kind: "Config", mime_type: "text/plain", raw_content },
  ...fields,
});
const aConfig = (call: Call, body: object = plain()): Promise<any> => must(call("POST", "/api/v1/config", body), 201);
const at = ({ id }: { id: string }) => `/api/v1/config/${id}`;
const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
const fieldsOf = ({ status, body }: { status: number; body: any }) => [
  status,
  (body.error.fields as { field: string }[]).map(({ field }) => field),
];
const content = (call: Call, config: { id: string }, query = "") => call("GET", `${at(config)}/content${query}`);
const list = async (call: Call, query = ""): Promise<string[]> =>
  (await must(call("GET", `/api/v1/config${query}`), 200)).data.map(({ id }: { id: string }) => id);

describe("POST /api/v1/config", () => {
  it("answers the whole config with its first version, a person's own", async () => {
    const { acme, as, owners } = await anApp();
    const made = await aConfig(
      as(acme),
      yaml("name: Ada", { lookup_key: "ada", virtual_path: "agents/ada.yaml", data: { by: "x" } }),
    );
    expect(made).toEqual({
      ...{ id: made.id, kind: "AgentTemplate", org: acme, sandbox: null, team: null, user: owners[acme], agent: null },
      ...{ lookup_key: "ada", virtual_path: "agents/ada.yaml", parent: null, relative_path: null },
      ...{ parent_solution: null, mime_type: "application/yaml", raw_content: null, is_archived: false },
      current_version: {
        ...{ id: made.current_version.id, org: acme, sandbox: null, version_number: 1, data: { by: "x" } },
        content_hash: sha('{"name":"Ada"}'),
        ...{ change_description: null, source_solution_config_version: null, created_at: made.created_at },
      },
      ...{ created_at: made.created_at, updated_at: made.created_at },
    });
    expect(made.id).toMatch(/^cfg_[0-9A-Za-z]{22}$/);
    expect(made.current_version.id).toMatch(/^cfv_[0-9A-Za-z]{22}$/);
    expect(await must(as(acme)("GET", at(made)), 200)).toEqual(made);
  });

  it("gives it to whom it names, and a key's to the app", async () => {
    const { acme, as, asDeveloper, owners, aUser } = await anApp();
    const member = await aUser(acme);
    const agent = await anAgent(as(acme));
    const whose = ({ org, user, agent }: any) => [org, user, agent];
    expect(whose(await aConfig(asDeveloper))).toEqual([null, null, null]);
    expect(whose(await aConfig(asDeveloper, plain("x", { org: acme })))).toEqual([acme, null, null]);
    expect(whose(await aConfig(asDeveloper, plain("x", { user: member.id })))).toEqual([acme, member.id, null]);
    expect(whose(await aConfig(asDeveloper, plain("x", { agent: agent.id })))).toEqual([acme, null, agent.id]);
    expect(whose(await aConfig(as(acme), plain("x", { system: true })))).toEqual([acme, null, null]);
    expect(whose(await aConfig(as(acme), plain("x", { user: member.id })))).toEqual([acme, member.id, null]);
    const asMember = as(acme, { role: "member" });
    expect(fieldsOf(await asMember("POST", "/api/v1/config", plain("x", { user: owners[acme] })))).toEqual([
      422,
      ["user"],
    ]);
    const own = await anAgent(as(acme), { acl: { grants: [] } }).catch(() => null);
    expect(own === null || typeof own.id).toBeTruthy();
    for (const [field, value] of [
      ["team", "tem_0000000000000000000001"],
      ["user", "usr_0000000000000000000001"],
      ["agent", "nobody"],
      ["org", "org_0000000000000000000001"],
    ]) {
      const answer = await asDeveloper("POST", "/api/v1/config", plain("x", { [field!]: value }));
      expect(fieldsOf(answer)).toEqual([422, [field]]);
    }
    const both = await asDeveloper("POST", "/api/v1/config", plain("x", { user: member.id, system: true }));
    expect(fieldsOf(both)).toEqual([422, ["system"]]);
  });

  it("keeps a key and a path once an app and org, also of an archived one: 409 on the field", async () => {
    const { acme, globex, as } = await anApp();
    const first = await aConfig(as(acme), plain("x", { lookup_key: "one", virtual_path: "a/one" }));
    await must(as(acme)("POST", `${at(first)}/archive`), 200);
    const again = (fields: object, org = acme) => as(org)("POST", "/api/v1/config", plain("x", fields));
    expect(fieldsOf(await again({ lookup_key: "one", system: true }))).toEqual([409, ["lookup_key"]]);
    expect(fieldsOf(await again({ virtual_path: "a/one" }))).toEqual([409, ["virtual_path"]]);
    expect((await again({ lookup_key: "one", virtual_path: "a/one" }, globex)).status).toBe(201);
  });

  it("takes one over when asked to: its next version, its new owner, back from the archive", async () => {
    const { acme, as, owners } = await anApp();
    const first = await aConfig(as(acme), plain("x", { lookup_key: "one", system: true }));
    await must(as(acme)("POST", `${at(first)}/archive`), 200);
    const body = plain("y", { lookup_key: "one", take_ownership: true, change_description: "mine now" });
    const taken = await aConfig(as(acme), body);
    expect(taken).toMatchObject({ id: first.id, user: owners[acme], is_archived: false });
    expect(taken.current_version).toMatchObject({ version_number: 2, change_description: "mine now" });
    // Again: it is hers, and says what it should.
    expect(await aConfig(as(acme), body)).toEqual(taken);
    expect(await aConfig(as(acme), plain("z", { lookup_key: "new", take_ownership: true }))).toMatchObject({
      current_version: { version_number: 1 },
    });
    // A colleague may not write it: to her it is taken.
    const refused = await as(acme, { role: "member" })("POST", "/api/v1/config", body);
    expect(fieldsOf(refused)).toEqual([409, ["lookup_key"]]);
  });

  it("hangs a child on its parent, whose owner it has: by relative_path once, and no deeper", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    const skill = {
      kind: "Skill",
      mime_type: "text/markdown",
      raw_content: "---\nname: a\ndescription: b\n---\n",
      system: true,
    };
    const parent = await aConfig(as(acme), skill);
    const file = (fields: object) => ({ kind: "File", mime_type: "text/plain", raw_content: "x", ...fields });
    const child = await aConfig(as(acme), file({ parent: parent.id, relative_path: "a.txt" }));
    expect(child).toMatchObject({ parent: parent.id, relative_path: "a.txt", user: null, org: acme });
    expect(await list(as(acme), `?parents[]=${parent.id}`)).toEqual([child.id]);
    const ask = (fields: object, call = as(acme)) => call("POST", "/api/v1/config", file(fields));
    expect(fieldsOf(await ask({ parent: parent.id, relative_path: "a.txt" }))).toEqual([409, ["relative_path"]]);
    expect(fieldsOf(await ask({ parent: parent.id }))).toEqual([422, ["relative_path"]]);
    expect(fieldsOf(await ask({ parent: child.id, relative_path: "b" }))).toEqual([422, ["parent"]]);
    expect(fieldsOf(await ask({ parent: parent.id, relative_path: "b" }, as(globex)))).toEqual([422, ["parent"]]);
    expect(fieldsOf(await ask({ parent: "x", relative_path: "b" }, asDeveloper))).toEqual([422, ["parent"]]);
  });

  it("refuses content that its kind doesn't take, every fault with its pointer", async () => {
    const { acme, as } = await anApp();
    const faults = async (body: object) => (await must(as(acme)("POST", "/api/v1/config", body), 422)).error.fields;
    expect(await faults(yaml("identity: 3\ntools: [{ kind: none }]"))).toEqual([
      { field: "raw_content", message: 'must have "name"' },
      { field: "raw_content", message: "/identity: must be of type string or null" },
      { field: "raw_content", message: '/tools/0/kind: must be one of: "builtin","custom","mcp"' },
    ]);
    expect(await faults(yaml("a: [", {}))).toEqual([
      { field: "raw_content", message: "is not valid YAML: line 1, column 5" },
    ]);
    expect(await faults(yaml("{", { mime_type: "application/json" }))).toEqual([
      { field: "raw_content", message: "is not valid JSON" },
    ]);
    expect(await faults({ kind: "Script", mime_type: "text/plain", raw_content: "1 +" })).toHaveLength(1);
    expect(await faults({ kind: "Image", mime_type: "image/png", raw_content: "é", data_encoding: "base64" })).toEqual([
      { field: "raw_content", message: "is not base64" },
    ]);
    expect(await faults(plain("x".repeat(1024 * 1024 + 1)))).toEqual([
      { field: "raw_content", message: "must have at most 1 MB" },
    ]);
    expect((await as(acme)("POST", "/api/v1/config", plain("x", { kind: "Nothing" }))).status).toBe(422);
  });

  it("keeps content of 1 MB to the byte, as text and as base64", async () => {
    const { acme, as } = await anApp();
    const text = "é".repeat(512 * 1024);
    const bytes = Buffer.alloc(1024 * 1024, 7).toString("base64");
    const one = await aConfig(as(acme), plain(text));
    expect((await content(as(acme), one)).text).toBe(text);
    const image = { kind: "Image", mime_type: "image/png", raw_content: bytes, data_encoding: "base64" };
    const other = await aConfig(as(acme), image);
    expect(other.current_version.content_hash).toBe(
      `sha256:${createHash("sha256")
        .update(Buffer.alloc(1024 * 1024, 7))
        .digest("hex")}`,
    );
    const answer = await content(as(acme), other);
    expect([answer.headers.get("Content-Type"), answer.text.length]).toEqual(["image/png", 1024 * 1024]);
  });

  it("makes one row for an Idempotency-Key", async () => {
    const { acme, as } = await anApp();
    const key = { "Idempotency-Key": unique("key") };
    const answers = await together(4, () => as(acme)("POST", "/api/v1/config", plain(), key));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
    expect(await list(as(acme))).toEqual([answers[0]!.body.id]);
  });
});

describe("a config is addressed", () => {
  it("by its id alone, or by its key or path with one owner: else 422", async () => {
    const { acme, as, owners } = await anApp();
    const owner = owners[acme];
    const made = await aConfig(as(acme), plain("x", { lookup_key: "one", virtual_path: "a b/one" }));
    const get = (name: string, query = "") => as(acme)("GET", `/api/v1/config/${encodeURIComponent(name)}${query}`);
    for (const answer of [await get("one", `?user=${owner}`), await get("a b/one", `?user=${owner}&org=${acme}`)]) {
      expect([answer.status, answer.body.id]).toEqual([200, made.id]);
    }
    expect(fieldsOf(await get(made.id, `?user=${owner}`))).toEqual([422, ["user"]]);
    expect(fieldsOf(await get(made.id, `?org=${acme}`))).toEqual([422, ["org"]]);
    expect(fieldsOf(await get("one"))).toEqual([422, ["config"]]);
    expect(fieldsOf(await get("one", `?user=${owner}&system=true`))).toEqual([422, ["config"]]);
    for (const query of ["?system=true", "?agent=ada", "?team=x", "?user=x"]) {
      expect([query, (await get("one", query)).status]).toEqual([query, 404]);
    }
    expect((await get("two", `?user=${owner}`)).status).toBe(404);
  });

  it("to a key by its org: without one, the app's own is meant", async () => {
    const { acme, globex, asDeveloper } = await anApp();
    const ids = [];
    for (const org of [null, acme, globex]) {
      ids.push((await aConfig(asDeveloper, plain("x", { lookup_key: "one", ...(org && { org }) }))).id);
    }
    const found = [];
    for (const query of ["", `&org=${acme}`, `&org=${globex}`]) {
      found.push((await must(asDeveloper("GET", `/api/v1/config/one?system=true${query}`), 200)).id);
    }
    expect(found).toEqual(ids);
  });

  it("in every verb, and in a delete without an owner the viewer's own", async () => {
    const { acme, as, owners } = await anApp();
    const made = await aConfig(as(acme), plain("x", { lookup_key: "one" }));
    const user = owners[acme];
    const one = "/api/v1/config/one";
    expect((await as(acme)("GET", `${one}/content?user=${user}`)).text).toBe("x");
    expect((await must(as(acme)("GET", `${one}/versions?user=${user}`), 200)).versions).toEqual([made.current_version]);
    expect((await must(as(acme)("PATCH", one, { user, virtual_path: "p" }), 200)).virtual_path).toBe("p");
    const renamed = await must(
      as(acme)("PATCH", one, { user, lookup_key: "two", ...plain("y"), kind: undefined }),
      200,
    );
    expect(renamed).toMatchObject({ id: made.id, lookup_key: "two", current_version: { version_number: 2 } });
    expect((await must(as(acme)("POST", "/api/v1/config/two/archive", { user }), 200)).is_archived).toBe(true);
    expect((await must(as(acme)("POST", "/api/v1/config/two/unarchive", { user }), 200)).is_archived).toBe(false);
    expect((await as(acme, { role: "admin" })("DELETE", "/api/v1/config/two")).status).toBe(404);
    await must(as(acme)("DELETE", "/api/v1/config/two"), 204);
    expect((await as(acme)("GET", at(made))).status).toBe(404);
  });
});

describe("who may", () => {
  it("read: the org's own everybody, a person's that person and admins, an agent's who may read the agent", async () => {
    const { acme, as, asDeveloper } = await anApp();
    const asMember = as(acme, { role: "member" });
    const { id: member } = await must(asMember("GET", "/api/v1/users/me"), 200);
    const closed = await anAgent(as(acme), {
      acl: { grants: [{ principal_type: "user", principal: member, actions: ["read"] }] },
    });
    const rows = {
      system: await aConfig(as(acme), plain("x", { system: true })),
      own: await aConfig(asMember, plain("x")),
      agents: await aConfig(as(acme), plain("x", { agent: closed.id })),
    };
    const asOther = as(acme, { role: "viewer" });
    const seen = async (call: Call) => {
      const ids = await list(call);
      for (const row of Object.values(rows)) {
        const status = ids.includes(row.id) ? 200 : 404;
        for (const path of ["", "/content", "/versions"]) {
          expect((await call("GET", `${at(row)}${path}`)).status).toBe(status);
        }
      }
      return Object.keys(rows).filter((name) => ids.includes(rows[name as keyof typeof rows].id));
    };
    expect(await seen(asMember)).toEqual(["system", "own", "agents"]);
    expect(await seen(asOther)).toEqual(["system"]);
    expect(await seen(as(acme))).toEqual(["system", "own", "agents"]);
    expect(await seen(asDeveloper)).toEqual(["system", "own", "agents"]);
  });

  it("write: as they may read, and an agent's who may write the agent; what may not be is absent", async () => {
    const { acme, as } = await anApp();
    const asMember = as(acme, { role: "member" });
    const { id: member } = await must(asMember("GET", "/api/v1/users/me"), 200);
    const closed = await anAgent(as(acme), {
      acl: { grants: [{ principal_type: "user", principal: member, actions: ["read"] }] },
    });
    const agents = await aConfig(as(acme), plain("x", { agent: closed.id }));
    const owners = await aConfig(as(acme), plain("x"));
    const system = await aConfig(as(acme), plain("x", { system: true }));
    const attempts = (row: { id: string }): [string, string, object?][] => [
      ["PATCH", at(row), { virtual_path: unique("p") }],
      ["POST", `${at(row)}/archive`],
      ["POST", `${at(row)}/unarchive`],
      ["POST", `${at(row)}/change_owner`, { system: true }],
      ["DELETE", at(row)],
    ];
    for (const row of [agents, owners]) {
      for (const attempt of attempts(row)) expect((await asMember(...attempt)).status).toBe(404);
      expect(await must(as(acme)("GET", at(row)), 200)).toEqual(row);
    }
    for (const attempt of attempts(system)) expect((await asMember(...attempt)).status).toBeLessThan(300);
    expect(fieldsOf(await asMember("POST", "/api/v1/config", plain("x", { agent: closed.id })))).toEqual([
      422,
      ["agent"],
    ]);
  });

  it("read of the feed what is told of one", async () => {
    const { acme, as } = await anApp();
    const asMember = as(acme, { role: "member" });
    const own = await aConfig(as(acme), plain("x", { lookup_key: "mine" }));
    await aConfig(as(acme), plain("x", { system: true, lookup_key: "ours" }));
    await must(as(acme)("DELETE", at(own)), 204);
    const titles = async (call: Call) =>
      (await must(call("GET", "/api/v1/activity_feed?limit=100"), 200)).data
        .filter(({ kind }: any) => kind.startsWith("config."))
        .map(({ title }: any) => title);
    expect(await titles(asMember)).toEqual(["Config created: ours"]);
    expect(await titles(as(acme))).toEqual(["Config deleted: mine", "Config created: ours", "Config created: mine"]);
  });
});

describe("a version", () => {
  const patch = (call: Call, config: { id: string }, raw_content: string, fields: object = {}, headers = {}) =>
    call("PATCH", at(config), { mime_type: "application/yaml", raw_content, ...fields }, headers);

  it("comes of content that says something else, and not of the same said otherwise", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), yaml("name: Ada\nmodel: m # why"));
    const same = await must(
      patch(as(acme), made, '{"model": "m", "name": "Ada"}', { mime_type: "application/json" }),
      200,
    );
    expect(same).toEqual(made);
    expect((await content(as(acme), made)).text).toBe("name: Ada\nmodel: m # why");
    const next = await must(patch(as(acme), made, "name: Eve", { change_description: "renamed", data: { n: 1 } }), 200);
    expect(next.current_version).toMatchObject({
      ...{ version_number: 2, content_hash: sha('{"name":"Eve"}'), change_description: "renamed", data: { n: 1 } },
    });
    const { versions } = await must(as(acme)("GET", `${at(made)}/versions`), 200);
    expect(versions).toEqual([next.current_version, made.current_version]);
    const page = await must(as(acme)("GET", `${at(made)}/versions?limit=1`), 200);
    expect([page.versions, page.has_more]).toEqual([[next.current_version], true]);
    const rest = await must(as(acme)("GET", `${at(made)}/versions?limit=1&after_cursor=${page.after_cursor}`), 200);
    expect(rest).toEqual({ versions: [made.current_version], has_more: false, after_cursor: null });
  });

  it("comes of bytes under another type", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), plain("a,b"));
    const next = await must(as(acme)("PATCH", at(made), { mime_type: "text/csv", raw_content: "a,b" }), 200);
    expect([next.mime_type, next.current_version.version_number]).toEqual(["text/csv", 2]);
    expect((await content(as(acme), made)).headers.get("Content-Type")).toBe("text/csv");
  });

  it("is refused where its kind doesn't take it, and stays as it was", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), yaml("name: Ada"));
    expect(fieldsOf(await patch(as(acme), made, "identity: none"))).toEqual([422, ["raw_content"]]);
    expect(fieldsOf(await as(acme)("PATCH", at(made), { raw_content: "name: Eve" }))).toEqual([422, ["mime_type"]]);
    expect(await must(as(acme)("GET", at(made)), 200)).toEqual(made);
  });

  it("is the writer's own: one of many at once wins, by expected_version (409) and by If-Match (412)", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), yaml("name: Ada"));
    const { headers } = await as(acme)("GET", at(made));
    expect(headers.get("ETag")).toBe('"1"');
    const byBody = await together(4, (i) => patch(as(acme), made, `name: A${i}`, { expected_version: 1 }));
    expect(byBody.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    expect(byBody.find(({ status }) => status === 409)!.body.error.code).toBe("version_conflict");
    const byHeader = await together(4, (i) => patch(as(acme), made, `name: B${i}`, {}, { "If-Match": '"2"' }));
    expect(byHeader.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
    expect(byHeader.find(({ status }) => status === 200)!.headers.get("ETag")).toBe('"3"');
    expect((await patch(as(acme), made, "name: C", {}, { "If-Match": 'W/"3"' })).status).toBe(412);
    expect((await patch(as(acme), made, "name: C", {}, { "If-Match": '"1", "3"' })).status).toBe(200);
    expect((await patch(as(acme), made, "name: D", {}, { "If-Match": "*" })).status).toBe(200);
    const { versions } = await must(as(acme)("GET", `${at(made)}/versions`), 200);
    expect(versions.map(({ version_number }: any) => version_number)).toEqual([5, 4, 3, 2, 1]);
  });

  it("has a number of its own, however many writers come at once", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), yaml("name: Ada"));
    await together(6, (i) => must(patch(as(acme), made, `name: A${i}`), 200));
    const { versions } = await must(as(acme)("GET", `${at(made)}/versions`), 200);
    expect(versions.map(({ version_number }: any) => version_number)).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });
});

describe("PATCH /api/v1/config/{config}", () => {
  it("clears a key, a path and a solution with an empty string, and names what is not there", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    const solution = (call: Call) =>
      aConfig(call, { kind: "Solution", mime_type: "text/yaml", raw_content: "name: s" });
    const [ours, theirs] = [await solution(as(acme)), await solution(as(globex))];
    const made = await aConfig(as(acme), plain("x", { lookup_key: "k", virtual_path: "p", parent_solution: ours.id }));
    expect(made.parent_solution).toBe(ours.id);
    expect(await list(as(acme), `?parent_solutions[]=${ours.id}`)).toEqual([made.id]);
    for (const other of [theirs.id, made.id, "nothing"]) {
      const refused = await as(acme)("POST", "/api/v1/config", { ...plain("x"), parent_solution: other });
      expect(fieldsOf(refused)).toEqual([422, ["parent_solution"]]);
      const answer = await as(acme)("PATCH", at(made), { parent_solution: other });
      expect(fieldsOf(answer)).toEqual([422, ["parent_solution"]]);
    }
    const cleared = await must(
      as(acme)("PATCH", at(made), { lookup_key: "", virtual_path: "", parent_solution: "" }),
      200,
    );
    expect(cleared).toMatchObject({ lookup_key: null, virtual_path: null, parent_solution: null });
    expect(cleared.current_version.version_number).toBe(1);
    expect((await must(as(acme)("PATCH", at(made), { parent_solution: ours.id }), 200)).parent_solution).toBe(ours.id);
    await must(as(acme)("DELETE", at(ours)), 204);
    // It tells of the past, wherever the config stays.
    expect((await must(as(acme)("GET", at(made)), 200)).parent_solution).toBe(ours.id);
    const give = (to: string) => asDeveloper("POST", `${at(made)}/change_owner`, { system: true, org: to });
    expect((await must(give(acme), 200)).parent_solution).toBe(ours.id);
    expect((await must(give(globex), 200)).parent_solution).toBe(null);
  });
});

describe("GET /api/v1/config", () => {
  it("narrows by owner, kind, key and path; an unknown owner has none, an archived config is not shown", async () => {
    const { acme, globex, as, asDeveloper, owners } = await anApp();
    const agent = await anAgent(as(acme), { lookup_key: unique("ada") });
    const own = await aConfig(as(acme), plain("x", { lookup_key: "own", virtual_path: "a/own" }));
    const agents = await aConfig(as(acme), yaml("name: Ada", { agent: agent.id, virtual_path: "a%/b" }));
    const system = await aConfig(as(acme), plain("x", { system: true }));
    const away = await aConfig(as(acme), plain("x"));
    await must(as(acme)("POST", `${at(away)}/archive`), 200);
    await aConfig(as(globex));
    const found = (query: string) => list(as(acme), query);
    expect(await found("")).toEqual([system.id, agents.id, own.id]);
    expect(await found(`?user=${owners[acme]}`)).toEqual([own.id]);
    expect(await found(`?agent=${agent.id}`)).toEqual([agents.id]);
    expect(await found(`?agent=${agent.lookup_key}`)).toEqual([agents.id]);
    expect(await found("?system=true")).toEqual([system.id]);
    expect(await found("?kind=AgentTemplate")).toEqual([agents.id]);
    expect(await found("?lookup_key=own")).toEqual([own.id]);
    expect(await found("?path_prefix=a/")).toEqual([own.id]);
    expect(await found("?path_prefix=a%25")).toEqual([agents.id]);
    for (const none of [`?user=${owners[globex]}`, "?user=x", "?agent=x", "?team=x", `?org=${globex}`, "?kind=x"]) {
      expect([none, await found(none)]).toEqual([none, []]);
    }
    expect((await list(asDeveloper)).length).toBe(4);
    expect((await list(asDeveloper, `?org=${globex}`)).length).toBe(1);
  });

  it("goes on from a cursor, newest first", async () => {
    const { acme, as } = await anApp();
    const made = [];
    for (let i = 0; i < 5; i++) made.unshift((await aConfig(as(acme), plain(`x${i}`))).id);
    const seen: string[] = [];
    let cursor = "";
    do {
      const page = await must(as(acme)("GET", `/api/v1/config?limit=2${cursor}`), 200);
      seen.push(...page.data.map(({ id }: any) => id));
      expect(page.has_more).toBe(page.after_cursor !== null);
      cursor = page.after_cursor ? `&after_cursor=${page.after_cursor}` : "";
    } while (cursor);
    expect(seen).toEqual(made);
    expect((await as(acme)("GET", "/api/v1/config?after_cursor=x")).body.error.code).toBe("invalid_cursor");
  });
});

describe("GET /api/v1/config/{config}/content", () => {
  it("gives the bytes as they were stored, and nothing that a browser would run", async () => {
    const { acme, as } = await anApp();
    const source = "# why\nname: Ada\n";
    const made = await aConfig(as(acme), yaml(source, { mime_type: "text/x-yaml; charset=utf-8" }));
    const answer = await content(as(acme), made);
    expect([answer.text, answer.headers.get("Content-Type")]).toEqual([source, "text/x-yaml; charset=utf-8"]);
    expect(answer.headers.get("Content-Disposition")).toBe(null);
    for (const mime_type of [
      "text/html",
      "image/svg+xml",
      "application/xhtml+xml",
      "text/javascript",
      "application/pdf",
    ]) {
      const page = await aConfig(as(acme), plain("<script>alert(1)</script>", { mime_type }));
      const { headers } = await content(as(acme), page);
      expect([mime_type, headers.get("Content-Disposition"), headers.get("X-Content-Type-Options")]).toEqual([
        ...[mime_type, "attachment", "nosniff"],
      ]);
      expect(headers.get("Content-Security-Policy")).toContain("sandbox");
    }
    const bad = await as(acme)("POST", "/api/v1/config", plain("x", { mime_type: "text/html\r\nX-A: b" }));
    expect(fieldsOf(bad)).toEqual([422, ["mime_type"]]);
  });

  it("turns YAML and JSON into each other, and nothing else: 400", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), yaml("# c\nname: Ada\ntools: []\n"));
    const json = await content(as(acme), made, "?format=json");
    expect([json.headers.get("Content-Type"), json.body]).toEqual(["application/json", { name: "Ada", tools: [] }]);
    expect((await content(as(acme), made, "?format=yaml")).text).toBe("# c\nname: Ada\ntools: []\n");
    const other = await aConfig(as(acme), yaml('{"name": "Ada"}', { mime_type: "application/json" }));
    expect((await content(as(acme), other, "?format=yaml")).text).toBe("name: Ada\n");
    const text = await aConfig(as(acme));
    for (const answer of [
      await content(as(acme), text, "?format=json"),
      await content(as(acme), made, "?format=xml"),
    ]) {
      expect([answer.status, answer.body.error.code]).toEqual([400, "no_such_format"]);
    }
  });
});

describe("POST /api/v1/config/{config}/archive", () => {
  it("puts it away and back, once each; its names stay its own", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), plain("x", { lookup_key: "k" }));
    const first = await must(as(acme)("POST", `${at(made)}/archive`), 200);
    expect(first).toEqual({ ...made, is_archived: true, updated_at: first.updated_at });
    expect(await must(as(acme)("POST", `${at(made)}/archive`), 200)).toEqual(first);
    expect(await must(as(acme)("GET", at(made)), 200)).toEqual(first);
    expect((await must(as(acme)("POST", `${at(made)}/unarchive`), 200)).is_archived).toBe(false);
  });
});

describe("POST /api/v1/config/{config}/change_owner", () => {
  const give = (call: Call, config: { id: string }, body: object) => call("POST", `${at(config)}/change_owner`, body);

  it("gives it, and its children with it, to a user, an agent or the org", async () => {
    const { acme, globex, as, aUser } = await anApp();
    const [agent, member, stranger] = [await anAgent(as(acme)), await aUser(acme), await aUser(globex)];
    const made = await aConfig(as(acme));
    const child = await aConfig(as(acme), plain("x", { parent: made.id, relative_path: "a" }));
    const whose = async () => {
      const [one, other] = [await must(as(acme)("GET", at(made)), 200), await must(as(acme)("GET", at(child)), 200)];
      expect([other.user, other.agent]).toEqual([one.user, one.agent]);
      return [one.user, one.agent];
    };
    await must(give(as(acme), made, { agent: agent.id }), 200);
    expect(await whose()).toEqual([null, agent.id]);
    await must(give(as(acme), made, { user: member.id }), 200);
    expect(await whose()).toEqual([member.id, null]);
    await must(give(as(acme), made, { system: true }), 200);
    expect(await whose()).toEqual([null, null]);
    for (const [body, fields] of [
      [{}, [""]],
      [{ user: member.id, system: true }, ["system"]],
      [{ team: "x" }, ["team"]],
      [{ user: stranger.id }, ["user"]],
      [{ agent: "nobody" }, ["agent"]],
      [{ user: member.id, org: acme }, ["org"]],
      [{ system: true, org: globex }, ["org"]],
      [{ system: true, org: null }, ["org"]],
    ] as const) {
      expect(fieldsOf(await give(as(acme), made, body))).toEqual([422, fields]);
    }
    expect(fieldsOf(await give(as(acme), child, { user: member.id }))).toEqual([422, ["config"]]);
    expect((await give(as(acme), { id: "one" }, { system: true })).status).toBe(404);
    expect(await whose()).toEqual([null, null]);
  });

  it("moves it to another org or to the app, by the developer alone, with its versions and children", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    const made = await aConfig(as(acme), plain("x", { lookup_key: "k" }));
    const child = await aConfig(as(acme), plain("c", { parent: made.id, relative_path: "a" }));
    await must(give(asDeveloper, made, { system: true, org: globex }), 200);
    expect((await as(acme)("GET", at(made))).status).toBe(404);
    expect((await as(acme)("GET", at(child))).status).toBe(404);
    expect((await content(as(globex), made)).text).toBe("x");
    expect((await content(as(globex), child)).text).toBe("c");
    expect((await must(give(asDeveloper, made, { system: true, org: null }), 200)).org).toBe(null);
    expect((await as(globex)("GET", at(made))).status).toBe(404);
    await aConfig(asDeveloper, plain("x", { lookup_key: "k", org: acme }));
    expect(fieldsOf(await give(asDeveloper, made, { system: true, org: acme }))).toEqual([409, ["lookup_key"]]);
  });
});

describe("DELETE /api/v1/config/{config}", () => {
  it("takes its versions and its children with it, and frees its names", async () => {
    const { acme, as } = await anApp();
    const made = await aConfig(as(acme), plain("x", { lookup_key: "k" }));
    const child = await aConfig(as(acme), plain("x", { parent: made.id, relative_path: "a" }));
    await must(as(acme)("DELETE", at(made)), 204);
    expect((await as(acme)("DELETE", at(made))).status).toBe(404);
    expect((await as(acme)("GET", at(child))).status).toBe(404);
    const left = await sql("select id from data.config_versions where config_id in ($1, $2)", [made.id, child.id]);
    expect(left).toEqual([]);
    await aConfig(as(acme), plain("x", { lookup_key: "k" }));
  });

  it("goes with its user, and with its agent", async () => {
    const { acme, as, aUser, at: developer, asDeveloper } = await anApp();
    const [user, agent] = [await aUser(acme), await anAgent(as(acme))];
    const [users, agents] = [
      await aConfig(as(acme), plain("x", { user: user.id })),
      await aConfig(as(acme), plain("x", { agent: agent.id })),
    ];
    await must(asDeveloper("DELETE", `${developer}/users/${user.id}`), 204);
    await must(as(acme)("DELETE", `/api/v1/agents/${agent.id}`), 204);
    for (const row of [users, agents]) expect((await as(acme)("GET", at(row))).status).toBe(404);
  });
});

describe("POST /api/v1/config/validate", () => {
  const ask = async (call: Call, body: object) => must(call("POST", "/api/v1/config/validate", body), 200);

  it("says all that is wrong, warns of what it doesn't know, and stores nothing", async () => {
    const { acme, as } = await anApp();
    expect(await ask(as(acme), yaml("name: Ada"))).toEqual({ valid: true, errors: [], warnings: [] });
    expect(await ask(as(acme), yaml("nam: Ada\nmodel: 1"))).toEqual({
      valid: false,
      errors: ['must have "name"', "/model: must be of type string or null"],
      warnings: ['/nam: is not a known field; did you mean "name"?'],
    });
    expect((await ask(as(acme), plain("x", { kind: "Nothing" }))).valid).toBe(false);
    expect(await list(as(acme))).toEqual([]);
  });
});

describe("GET /api/v1/config/facets", () => {
  it("counts by kind and by the first part of the path what the viewer may read", async () => {
    const { acme, globex, app, as, owners } = await anApp();
    for (const virtual_path of ["a/1", "a/2", "b/c/3", "top"]) await aConfig(as(acme), plain("x", { virtual_path }));
    await aConfig(as(acme), yaml("name: Ada", { system: true }));
    const all = {
      kinds: [
        { kind: "AgentTemplate", count: 1 },
        { kind: "Config", count: 4 },
      ],
      path_prefixes: [
        { prefix: "a/", count: 2 },
        { prefix: "b/", count: 1 },
      ],
    };
    const facets = (call: Call, query = "") => must(call("GET", `/api/v1/config/facets${query}`), 200);
    expect(await facets(as(acme))).toEqual(all);
    expect(await facets(as(acme), `?app=${app}&org=${acme}`)).toEqual(all);
    expect((await facets(as(acme), `?user=${owners[acme]}`)).kinds).toEqual([{ kind: "Config", count: 4 }]);
    expect((await facets(as(acme, { role: "member" }))).kinds).toEqual([{ kind: "AgentTemplate", count: 1 }]);
    for (const query of ["?app=x", `?org=${globex}`, "?team=x", `?user=${owners[globex]}`]) {
      expect(await facets(as(acme), query)).toEqual({ kinds: [], path_prefixes: [] });
    }
  });
});

describe("POST /api/v1/config/encrypt_secret", () => {
  it("seals it: never twice alike, and nothing of it is to be seen", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    const plaintext = unique("plaintext");
    const encrypt = async (call: Call, body: object = {}): Promise<string> =>
      (await must(call("POST", "/api/v1/config/encrypt_secret", { plaintext, ...body }), 200)).encrypted_value;
    const sealed = [await encrypt(as(acme)), await encrypt(as(acme)), await encrypt(asDeveloper, { org: acme })];
    expect(new Set(sealed).size).toBe(3);
    for (const one of sealed) expect(atob(one.replaceAll("-", "+").replaceAll("_", "/"))).not.toContain(plaintext);
    const refused = await as(acme)("POST", "/api/v1/config/encrypt_secret", { plaintext, org: globex });
    expect([...fieldsOf(refused), refused.text.includes(plaintext)]).toEqual([422, ["org"], false]);
  });
});

describe("GET /api/v1/config/kinds", () => {
  it("lists them by name, each with its schema and a sample that it takes", async () => {
    const { acme, as } = await anApp();
    const { data } = await must(as(acme)("GET", "/api/v1/config/kinds"), 200);
    const names: string[] = data.map(({ kind }: any) => kind);
    expect(names).toEqual([...names].sort());
    expect(names.length).toBe(18);
    for (const { kind, schema_available, sample_available } of data) {
      const schema = await must(as(acme)("GET", `/api/v1/config/kinds/${kind}/schema`), 200);
      expect([schema.json_schema !== null, schema.sample_yaml !== null]).toEqual([schema_available, sample_available]);
      if (!sample_available) continue;
      const mime_type = ["Script", "Skill"].includes(kind) ? "text/plain" : "application/yaml";
      const body = { kind, mime_type, raw_content: schema.sample_yaml };
      const said = await must(as(acme)("POST", "/api/v1/config/validate", body), 200);
      expect([kind, said]).toEqual([kind, { valid: true, errors: [], warnings: [] }]);
    }
    const some = await must(as(acme)("GET", "/api/v1/config/kinds?kind[]=Skill&kind[]=Nothing"), 200);
    expect(some.data.map(({ kind }: any) => kind)).toEqual(["Skill"]);
    for (const none of ["Nothing", "constructor"]) {
      expect((await as(acme)("GET", `/api/v1/config/kinds/${none}/schema`)).status).toBe(404);
    }
  });
});

describe("the SDK", () => {
  it.each(["a secret key", "a person's token"])("keeps configs, with %s", async (credential) => {
    const { acme, publishable_key, secret_key, owners, aToken } = await anApp();
    const token = (await aToken(owners[acme]!)).access_token;
    const { config } = (
      credential === "a secret key"
        ? PlatformClient.withSecretKey(secret_key, system.base)
        : PlatformClient.withToken(publishable_key, token, system.base)
    ).v1;
    const owner = credential === "a secret key" ? { system: true } : { user: owners[acme]! };
    const body = { kind: "AgentTemplate", mime_type: "application/yaml", raw_content: "name: Ada\n" };
    const made = await config.create({ ...body, lookup_key: "ada", virtual_path: "a/ada.yaml" });
    expect((await config.list({ kind: "AgentTemplate", pathPrefix: "a/" })).data.map(({ id }) => id)).toEqual([
      made.id,
    ]);
    expect((await config.get(made.id)).id).toBe(made.id);
    expect((await config.get("a%2Fada.yaml", owner)).id).toBe(made.id);
    const next = await config.update(made.id, {
      ...body,
      kind: undefined,
      raw_content: "name: Eve",
      expected_version: 1,
    } as never);
    expect(next.current_version!.version_number).toBe(2);
    const raw = await config.content(made.id, { format: "json" });
    expect(JSON.parse(Buffer.from(raw.content as never).toString())).toEqual({ name: "Eve" });
    expect((await config.versions(made.id)).versions.length).toBe(2);
    expect((await config.archive("ada", owner)).is_archived).toBe(true);
    expect((await config.unarchive(made.id, {})).is_archived).toBe(false);
    expect((await config.changeOwner(made.id, { system: true })).id).toBe(made.id);
    expect((await config.validate(body)).valid).toBe(true);
    expect((await config.encryptSecret({ plaintext: "s" })).encrypted_value).toBeTruthy();
    expect((await config.facets()).kinds).toEqual([{ kind: "AgentTemplate", count: 1 }]);
    expect((await config.kinds.list({ kind: ["Skill", "Script"] })).data.length).toBe(2);
    expect((await config.kinds.schema("HttpTool")).kind).toBe("HttpTool");
    await config.delete(made.id);
    await expect(config.get(made.id)).rejects.toThrow();
  });
});
