import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, sql } from "../harness/index.ts";

const feed = "/api/v1/activity_feed";
const read = (call: Call, query = "") => must(call("GET", `${feed}${query && `?${query}`}`), 200);
const kindsOf = ({ data }: any) => data.map(({ kind }: any) => kind);
const told = ({ data }: any) => data.map(({ kind, agent }: any) => [kind, agent]);

/** Acme's owner, with agents made one after the other, oldest first. */
async function withAgents(count: number) {
  const made = await anApp();
  const owner = made.as(made.acme);
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((await anAgent(owner, { name: `Agent ${i}` })).id);
  return { ...made, owner, ids };
}

describe("GET /api/v1/activity_feed", () => {
  it("tells what happened to an agent, newest first, with every field", async () => {
    const { app, acme, owners, owner, ids } = await withAgents(1);
    await must(owner("PATCH", `/api/v1/agents/${ids[0]}`, { name: "Eve", identity: "E" }), 200);
    await must(owner("DELETE", `/api/v1/agents/${ids[0]}`), 204);
    const page = await read(owner, `agent[]=${ids[0]}`);
    expect(kindsOf(page)).toEqual(["agent.deleted", "agent.updated", "agent.created"]);
    expect(page.entries).toEqual(page.data);
    expect(page.data[1]).toEqual({
      id: expect.stringMatching(/^afe_[0-9A-Za-z]{22}$/),
      app,
      sandbox: null,
      org: acme,
      team: null,
      user: owners[acme],
      agent: ids[0],
      thread: null,
      routine_run: null,
      automation_run: null,
      session_record: null,
      kind: "agent.updated",
      level: "info",
      title: "Agent updated: Eve",
      content: null,
      correlation_id: null,
      attachments: [],
      metadata: { actor: owners[acme], fields: ["name", "identity"] },
      created_at: expect.stringMatching(/Z$/),
      updated_at: page.data[1].created_at,
    });
  });

  it("tells nothing of what changed nothing", async () => {
    const { acme, as, owner, ids } = await withAgents(1);
    const before = (await read(owner)).data;
    expect((await owner("PATCH", `/api/v1/agents/${ids[0]}`, { name: 7 })).status).toBe(422);
    expect((await owner("DELETE", "/api/v1/agents/nobody")).status).toBe(404);
    expect((await as(acme, { role: "viewer" })("DELETE", `/api/v1/agents/${ids[0]}`)).status).toBe(403);
    const after = (await read(owner)).data.filter(({ kind }: any) => /^agent/.test(kind));
    expect(after).toEqual(before.filter(({ kind }: any) => /^agent/.test(kind)));
  });

  it("tells of users, tokens, orgs and keys, and never a secret", async () => {
    const { acme, at, aUser, aToken, asDeveloper } = await anApp();
    const user = await aUser(acme, "member", { name: "Ada" });
    const token = await aToken(user.id);
    await must(asDeveloper("DELETE", `${at}/users/${user.id}/tokens/${token.id}`), 200);
    await must(asDeveloper("PATCH", `${at}/users/${user.id}`, { role: "admin" }), 200);
    await must(asDeveloper("DELETE", `${at}/users/${user.id}`), 204);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "trialing" }), 200);
    const key = await must(asDeveloper("POST", `${at}/keys`, { type: "secret" }), 201);
    await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
    const { text, body } = await asDeveloper("GET", `${feed}?limit=8`);
    expect(kindsOf(body)).toEqual([
      "key.revoked",
      "key.created",
      "org.updated",
      "user.deleted",
      "user.updated",
      "token.revoked",
      "token.created",
      "user.created",
    ]);
    for (const { user: about } of body.data.slice(3)) expect(about).toBe(user.id);
    for (const { org } of body.data.slice(2)) expect(org).toBe(acme);
    for (const secret of [token.access_token, token.refresh_token, key.full_key]) expect(text).not.toContain(secret);
  });

  it("tells the developer of an org that is gone", async () => {
    const { acme, at, asDeveloper } = await anApp();
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    const [entry] = (await read(asDeveloper)).data;
    expect(entry).toMatchObject({ kind: "org.deleted", org: null, metadata: { org: acme } });
  });

  it("shows each org its own, and a developer all", async () => {
    const { acme, globex, as, asDeveloper } = await anApp();
    const [ours, theirs] = [await anAgent(as(acme)), await anAgent(as(globex))];
    expect(told(await read(as(acme), "kind[]=agent.created"))).toEqual([["agent.created", ours.id]]);
    expect(told(await read(as(globex), "kind[]=agent.created"))).toEqual([["agent.created", theirs.id]]);
    expect((await read(asDeveloper, "kind[]=agent.created")).data).toHaveLength(2);
    expect((await read(as(acme), `agent[]=${theirs.id}`)).data).toEqual([]);
    expect((await read(as(acme), `org[]=${globex}`)).data).toEqual([]);
  });

  it("hides an entry from whom the agent was hidden", async () => {
    const { acme, as, aUser, aToken } = await anApp();
    const [one, two] = [await aUser(acme), await aUser(acme)];
    const grants = [{ principal_type: "user", principal: one.id, actions: ["read"] }];
    const { id } = await anAgent(as(acme), { acl: { grants } });
    const sees = async (user: string) => {
      const call = caller(bearer((await aToken(user)).access_token));
      return (await read(call, `agent[]=${id}`)).data.length;
    };
    expect([await sees(one.id), await sees(two.id)]).toEqual([1, 0]);
  });

  it("shows a person the entries about an agent of its own, whomever else its access list names", async () => {
    const { acme, as, aUser, aToken } = await anApp();
    const [one, two, three] = [await aUser(acme), await aUser(acme), await aUser(acme)];
    const grants = [{ principal_type: "user", principal: two.id, actions: ["read"] }];
    const { id } = await anAgent(as(acme), { user: one.id, acl: { grants } });
    await must(as(acme)("PATCH", `/api/v1/agents/${id}`, { name: "Eve" }), 200);
    const sees = async (user: string) => {
      const call = caller(bearer((await aToken(user)).access_token));
      return kindsOf(await read(call, `agent[]=${id}`));
    };
    const both = ["agent.updated", "agent.created"];
    expect([await sees(one.id), await sees(two.id), await sees(three.id)]).toEqual([both, both, []]);
  });

  it("shows what is told of an org to its owners and admins alone", async () => {
    const { acme, at, as, asDeveloper } = await anApp();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { name: "Acme Ltd" }), 200);
    const sees = async (role: "owner" | "admin" | "member" | "viewer") =>
      kindsOf(await read(as(acme, { role }), "kind[]=org.created&kind[]=org.updated"));
    for (const role of ["owner", "admin"] as const) expect(await sees(role)).toEqual(["org.updated", "org.created"]);
    for (const role of ["member", "viewer"] as const) expect(await sees(role)).toEqual([]);
  });

  it("shows a member what is about itself, and not what is about others or the org", async () => {
    const { acme, aUser, aToken } = await anApp();
    const user = await aUser(acme);
    const call = caller(bearer((await aToken(user.id)).access_token));
    expect((await read(call)).data.map((entry: any) => [entry.kind, entry.user])).toEqual([
      ["token.created", user.id],
      ["user.created", user.id],
    ]);
  });

  describe("filters", () => {
    it("by agent: any of several, written in each way", async () => {
      const { owner, ids } = await withAgents(3);
      const [a, b] = ids;
      for (const query of [
        `agent[]=${a}&agent[]=${b}`,
        `agent=${a}&agent=${b}`,
        `agent=${a},${b}`,
        `agent[]=${a}&agent=${b}`,
      ]) {
        expect(told(await read(owner, query))).toEqual([
          ["agent.created", b],
          ["agent.created", a],
        ]);
      }
      expect((await read(owner, "agent[]=nobody")).data).toEqual([]);
    });

    it("by kind, and by both at once", async () => {
      const { owner, ids } = await withAgents(2);
      await must(owner("DELETE", `/api/v1/agents/${ids[0]}`), 204);
      expect(kindsOf(await read(owner, "kind[]=agent.deleted"))).toEqual(["agent.deleted"]);
      expect(told(await read(owner, `kind[]=agent.created&kind[]=agent.deleted&agent[]=${ids[0]}`))).toEqual([
        ["agent.deleted", ids[0]],
        ["agent.created", ids[0]],
      ]);
    });

    it("by level, of which warn is warning by another name", async () => {
      const { owner } = await withAgents(1);
      expect((await read(owner, "level[]=info&kind=agent.created")).data).toHaveLength(1);
      for (const level of ["warn", "warning", "error", "debug", "audit"]) {
        expect((await read(owner, `level[]=${level}`)).data).toEqual([]);
      }
    });

    it("by org, for a developer", async () => {
      const { acme, globex, asDeveloper } = await withAgents(1);
      const orgs = new Set((await read(asDeveloper, `org[]=${acme}`)).data.map(({ org }: any) => org));
      expect([...orgs]).toEqual([acme]);
      const both = await read(asDeveloper, `org[]=${acme}&org[]=${globex}&kind[]=org.created`);
      expect(both.data).toHaveLength(2);
    });

    it.each(["thread[]=thr_1", "team[]=tem_1", "correlation_id=x", "org[]=acme"])(
      "by %s: there is none",
      async (query) => {
        const { asDeveloper } = await anApp();
        expect((await read(asDeveloper, query)).data).toEqual([]);
      },
    );

    it.each([
      ["kind", "agent.created&kind[]=agent_fell", "agent.created, "],
      ["level", "loud", "info, "],
    ])("refuses an unknown %s with a 400 that names the known ones", async (name, query, known) => {
      const { asDeveloper } = await anApp();
      const { status, body } = await asDeveloper("GET", `${feed}?${name}[]=${query}`);
      expect([status, body.error.code]).toEqual([400, `unknown_${name}`]);
      expect(body.error.message).toContain(known);
      expect(body.error.message).not.toContain("fell");
    });
  });

  describe("cursors", () => {
    const agents = (page: any) => page.data.map(({ agent }: any) => agent);
    const q = (fields: Record<string, string | number>) =>
      new URLSearchParams({ "kind[]": "agent.created", ...(fields as Record<string, string>) }).toString();

    it("lead to older entries until the end", async () => {
      const { owner, ids } = await withAgents(5);
      const newest = ids.toReversed();
      const one = await read(owner, q({ limit: 2 }));
      expect([agents(one), one.has_more, one.after_cursor]).toEqual([newest.slice(0, 2), true, null]);
      const two = await read(owner, q({ limit: 2, before_cursor: one.before_cursor }));
      expect([agents(two), two.has_more]).toEqual([newest.slice(2, 4), true]);
      const three = await read(owner, q({ limit: 2, before_cursor: two.before_cursor }));
      expect([agents(three), three.has_more, three.before_cursor]).toEqual([newest.slice(4), false, null]);
    });

    it("lead back to newer entries, and to what came since", async () => {
      const { owner, ids } = await withAgents(5);
      const newest = ids.toReversed();
      const one = await read(owner, q({ limit: 2 }));
      const two = await read(owner, q({ limit: 2, before_cursor: one.before_cursor }));
      const back = await read(owner, q({ limit: 2, after_cursor: two.after_cursor }));
      expect([agents(back), back.has_more, back.after_cursor]).toEqual([newest.slice(0, 2), false, null]);
      const since = await anAgent(owner);
      const more = await read(owner, q({ limit: 1, after_cursor: two.after_cursor }));
      expect([agents(more), more.has_more]).toEqual([[newest[1]], true]);
      const last = await read(owner, q({ limit: 5, after_cursor: more.after_cursor }));
      expect(agents(last)).toEqual([since.id, newest[0]]);
    });

    it("are held by no new entry: a page continues where it ended", async () => {
      const { owner, ids } = await withAgents(3);
      const one = await read(owner, q({ limit: 1 }));
      await anAgent(owner);
      expect(agents(await read(owner, q({ limit: 5, before_cursor: one.before_cursor })))).toEqual([ids[1], ids[0]]);
    });

    it("are sealed: they show no id, and a changed one is a 400", async () => {
      const { owner, ids } = await withAgents(2);
      const { before_cursor } = await read(owner, q({ limit: 1 }));
      expect(before_cursor).not.toContain("afe_");
      expect(Buffer.from(before_cursor, "base64url").toString("latin1")).not.toContain("afe_");
      const changed = before_cursor.replace(/.$/, (last: string) => (last === "A" ? "Q" : "A"));
      for (const cursor of [changed, before_cursor.slice(1), "nonsense", "%", ids[0]!, ""]) {
        for (const name of ["before_cursor", "after_cursor"]) {
          const { status, body } = await owner("GET", `${feed}?${q({ [name]: cursor })}`);
          expect([cursor, status, body.error?.code]).toEqual([cursor, 400, "invalid_cursor"]);
        }
      }
    });

    it("open for no other org, nor for another app", async () => {
      const { globex, owner, as, asDeveloper } = await withAgents(2);
      const other = await anApp();
      const { before_cursor } = await read(owner, "limit=1");
      for (const call of [as(globex), asDeveloper, other.asDeveloper]) {
        const { status, body } = await call("GET", `${feed}?${q({ before_cursor })}`);
        expect([status, body.error.code]).toEqual([400, "invalid_cursor"]);
      }
    });

    it("come one at a time", async () => {
      const { owner } = await withAgents(2);
      const { before_cursor } = await read(owner, "limit=1");
      const both = q({ before_cursor, after_cursor: before_cursor });
      expect((await owner("GET", `${feed}?${both}`)).status).toBe(400);
    });

    it("are both null on a page that holds everything", async () => {
      const { owner } = await withAgents(1);
      const page = await read(owner, q({ limit: 100 }));
      expect([page.before_cursor, page.after_cursor, page.has_more]).toEqual([null, null, false]);
    });

    it("lead back from an empty page: where there is nothing older, and where nothing has come since", async () => {
      const { owner, ids } = await withAgents(3);
      const { before_cursor: middle } = await read(owner, q({ limit: 2 }));
      const older = await read(owner, q({ "kind[]": "agent.deleted", before_cursor: middle }));
      expect([older.data, older.has_more, older.before_cursor]).toEqual([[], false, null]);
      expect(agents(await read(owner, q({ after_cursor: older.after_cursor })))).toEqual([ids[2]]);
      const newer = await read(owner, q({ "kind[]": "agent.deleted", after_cursor: middle }));
      expect([newer.data, newer.has_more, newer.after_cursor]).toEqual([[], false, null]);
      expect(agents(await read(owner, q({ before_cursor: newer.before_cursor })))).toEqual([ids[0]]);
    });

    it("hold 50 entries unless told otherwise, and at most 100", async () => {
      const { app, acme, as } = await anApp();
      await sql(
        `insert into data.activity_feed_entries (id, app_id, sandbox_id, org_id, kind)
         select 'afe_' || lpad(n::text, 22, '0'), $1, '-', $2, 'generic' from generate_series(1, 120) n`,
        [app, acme],
      );
      const count = async (query: string) => (await read(as(acme), `kind=generic${query}`)).data.length;
      expect([await count(""), await count("&limit=100"), await count("&limit=101")]).toEqual([50, 100, 100]);
    });

    it.each(["0", "-1", "1.5", "x", "1e3", ""])("refuses the limit %j", async (limit) => {
      const { asDeveloper } = await anApp();
      const { status, body } = await asDeveloper("GET", `${feed}?limit=${limit}`);
      expect([status, body.error.fields[0].field]).toEqual([422, "limit"]);
    });
  });
});
