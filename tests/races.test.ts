/** What many do at once. On a real PostgreSQL alone: the embedded database has a single connection. */
import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { anAgent, anApp, bearer, type Call, caller, must, sql, system, together, unique } from "./harness/index.ts";

type Answered = { status: number; body: any };
/** How many answers had which status. */
function statuses(answers: Answered[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
const refresh = (refresh_token: string) => caller()("POST", "/api/v1/auth/refresh", { refresh_token });
const me = async (token: string) => (await caller(bearer(token))("GET", "/api/v1/users/me")).status;

/** Another request's change on its way: made, and held back for half a second before it is committed. */
async function meanwhile(change: string, params: unknown[]) {
  const committed = sql(`with changed as (${change}) select pg_sleep(0.5) from changed`, params);
  const asleep = "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
  await expect.poll(() => sql(asleep), { interval: 10 }).toHaveLength(1);
  return { committed };
}

/** Deletes, and comes again where it had to wait too long for a lock, as a client does. */
async function ended(call: Call, path: string): Promise<number> {
  const { status } = await call("DELETE", path);
  return status === 503 ? ended(call, path) : status;
}

describe.runIf(system.concurrent)("at once", () => {
  it("50 equal idempotency keys make one agent, and all answers name it", async () => {
    const { acme, as } = await anApp();
    const headers = { "Idempotency-Key": unique("key") };
    const answers = await together(50, () =>
      as(acme)("POST", "/api/v1/agents", { name: "Ada", lookup_key: "ada" }, headers),
    );
    expect(statuses(answers)).toEqual({ 200: 50 });
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(answers.filter((answer) => answer.headers.get("Idempotent-Replayed") === null)).toHaveLength(1);
    expect((await must(as(acme)("GET", "/api/v1/agents"), 200)).total_entries).toBe(1);
  });

  it("50 equal idempotency keys make one org, whose slug is no conflict with itself", async () => {
    const { at, asDeveloper } = await anApp();
    const headers = { "Idempotency-Key": unique("key") };
    const body = { name: "One", slug: "one", domain: "one.example" };
    const answers = await together(50, () => asDeveloper("POST", `${at}/orgs`, body, headers));
    expect(statuses(answers)).toEqual({ 201: 50 });
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
  });

  it("50 equal idempotency keys mint one token, and all answers are that token", async () => {
    const { acme, at, owners, asDeveloper } = await anApp();
    const headers = { "Idempotency-Key": unique("key") };
    const path = `${at}/users/${owners[acme]}/tokens`;
    const answers = await together(50, () => asDeveloper("POST", path, {}, headers));
    expect(statuses(answers)).toEqual({ 201: 50 });
    expect(new Set(answers.map(({ body }) => JSON.stringify(decodeJwt(body.access_token)))).size).toBe(1);
    expect(new Set(answers.map(({ body }) => body.refresh_token)).size).toBe(1);
    expect((await must(asDeveloper("GET", path), 200)).data).toHaveLength(1);
  });

  it("50 equal idempotency keys of requests that fail all say why, and leave the key free", async () => {
    const { acme, at, owners, asDeveloper } = await anApp();
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    const headers = { "Idempotency-Key": unique("key") };
    const mint = () => asDeveloper("POST", `${at}/users/${owners[acme]}/tokens`, {}, headers);
    expect(statuses(await together(50, mint))).toEqual({ 409: 50 });
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    await must(mint(), 201);
  });

  it("two bodies under one idempotency key make one row: the other is told", async () => {
    const { acme, as } = await anApp();
    const headers = { "Idempotency-Key": unique("key") };
    const answers = await together(50, (i) => as(acme)("POST", "/api/v1/agents", { name: `Agent ${i % 2}` }, headers));
    expect(statuses(answers)).toEqual({ 200: 25, 422: 25 });
    expect((await must(as(acme)("GET", "/api/v1/agents"), 200)).total_entries).toBe(1);
  });

  it("50 equal slugs make one org and 49 conflicts", async () => {
    const { at, asDeveloper } = await anApp();
    const answers = await together(50, (i) =>
      asDeveloper("POST", `${at}/orgs`, { name: "One", slug: "one", domain: `one-${i}.example` }),
    );
    expect(statuses(answers)).toEqual({ 201: 1, 409: 49 });
    for (const { status, body } of answers) if (status === 409) expect(body.error.fields[0].field).toBe("slug");
    expect((await must(asDeveloper("GET", `${at}/orgs?search=one-`), 200)).total_entries).toBe(1);
    const kept = await sql("select from data.tenants where app_id = $1 and sandbox_id = '-'", [at.split("/").at(-1)]);
    expect(kept).toHaveLength(4);
  });

  it("50 addresses that differ in case alone make one user", async () => {
    const { at, asDeveloper } = await anApp();
    const answers = await together(50, (i) =>
      asDeveloper("POST", `${at}/users`, { email: `${i % 2 ? "ADA" : "ada"}@example.com` }),
    );
    expect(statuses(answers)).toEqual({ 201: 1, 409: 49 });
  });

  it("64 refreshes of one token are one rotation, with one successor for all", async () => {
    const { acme, at, owners, aToken, asDeveloper } = await anApp();
    const session = await aToken(owners[acme]!);
    const answers = await together(64, () => refresh(session.refresh_token));
    expect(statuses(answers)).toEqual({ 200: 64 });
    expect(new Set(answers.map(({ body }) => body.refresh_token)).size).toBe(1);
    expect(new Set(answers.map(({ body }) => decodeJwt(body.token).jti)).size).toBe(1);
    expect(await me(answers[0]!.body.token)).toBe(200);
    const live = await must(asDeveloper("GET", `${at}/users/${owners[acme]}/tokens`), 200);
    expect(live.data).toHaveLength(2);
    await must(refresh(answers[63]!.body.refresh_token), 200);
  });

  it("an older generation among 64 refreshes ends the session and all its access tokens", async () => {
    const { acme, owners, aToken } = await anApp();
    const session = await aToken(owners[acme]!);
    const second = await must(refresh(session.refresh_token), 200);
    const third = await must(refresh(second.refresh_token), 200);
    const answers = await together(64, (i) => refresh(i === 32 ? session.refresh_token : third.refresh_token));
    expect(answers[32]!.status).toBe(401);
    const made = answers.filter(({ status }) => status === 200).map(({ body }) => body.token);
    for (const token of [session.access_token, second.token, third.token, ...made]) expect(await me(token)).toBe(401);
    for (const token of [third.refresh_token, ...answers.flatMap(({ body }) => body.refresh_token ?? [])]) {
      expect((await refresh(token)).status).toBe(401);
    }
  });

  it("a refresh that waits for a revoke finds the sign-in ended, and doesn't bring it back", async () => {
    const { acme, owners, aToken } = await anApp();
    const session = await aToken(owners[acme]!);
    const second = await must(refresh(session.refresh_token), 200);
    const setRevoked = (at: string) =>
      `update data.token_families set revoked_at = ${at} where user_id = $1 returning 1`;
    // The newest generation would rotate, and the one before it is an honest retry: neither undoes a revoke.
    for (const token of [second.refresh_token, session.refresh_token]) {
      await sql(setRevoked("null"), [owners[acme]]);
      const { committed } = await meanwhile(setRevoked("now()"), [owners[acme]]);
      expect((await refresh(token)).status).toBe(401);
      await committed;
      expect(await me(second.token)).toBe(401);
      expect((await refresh(token)).status).toBe(401);
    }
  });

  it("a refresh that waits for its user's end doesn't hold the sign-in, which goes with the user", async () => {
    const { acme, owners, aToken } = await anApp();
    const session = await aToken(owners[acme]!);
    // As a deletion does, which goes on to the sign-ins while the refresh waits.
    const { committed } = await meanwhile("select id from data.users where id = $1 for update", [owners[acme]]);
    const refreshed = refresh(session.refresh_token);
    const waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    await expect.poll(() => sql(waits), { interval: 10 }).not.toHaveLength(0);
    await sql("select from data.token_families where user_id = $1 for update nowait", [owners[acme]]);
    await committed;
    expect((await refreshed).status).toBe(200);
  });

  it("a revoke among 100 requests: whatever is sent after its answer is refused", async () => {
    const { acme, at, owners, aToken, asDeveloper } = await anApp();
    const { id, access_token } = await aToken(owners[acme]!);
    let revoked = false;
    const requests = together(100, async () => {
      const seen: [boolean, number][] = [];
      for (let i = 0; i < 4; i++) {
        const after = revoked;
        seen.push([after, await me(access_token)]);
      }
      return seen;
    });
    await must(asDeveloper("DELETE", `${at}/users/${owners[acme]}/tokens/${id}`), 200);
    revoked = true;
    const seen = (await requests).flat();
    const later = seen.filter(([after]) => after);
    expect(later.length).toBeGreaterThan(50);
    expect(later.filter(([, status]) => status !== 401)).toEqual([]);
    expect(seen.filter(([, status]) => status !== 401 && status !== 200)).toEqual([]);
  });

  it("a suspension among 100 writes: whatever is sent after its answer is refused", async () => {
    const { acme, at, as, asDeveloper } = await anApp();
    await must(as(acme)("GET", "/api/v1/agents"), 200);
    let suspended = false;
    const writes = together(100, async () => {
      const after = suspended;
      const first = (await as(acme)("POST", "/api/v1/agents", { name: "Ada" })).status;
      const then = suspended;
      return [
        [after, first],
        [then, (await as(acme)("POST", "/api/v1/agents", { name: "Ada" })).status],
      ] as const;
    });
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    suspended = true;
    const seen = (await writes).flat();
    expect(seen.filter(([after, status]) => after && status !== 403)).toEqual([]);
    const { total_entries } = await must(asDeveloper("GET", `/api/v1/agents?org_id=${acme}`), 200);
    expect(seen.filter(([, status]) => status === 200)).toHaveLength(total_entries);
  });

  it.each([
    ["demoted twice", "PATCH", "PATCH"],
    ["deleted twice", "DELETE", "DELETE"],
    ["one demoted and one deleted", "PATCH", "DELETE"],
  ])("two owners %s: exactly one succeeds, and an owner stays", async (_, one, two) => {
    for (let round = 0; round < 10; round++) {
      const { acme, at, owners, aUser, asDeveloper } = await anApp();
      const other = await aUser(acme, "owner");
      const remove = (method: string, user: string) =>
        asDeveloper(method, `${at}/users/${user}`, method === "PATCH" ? { role: "member" } : undefined);
      const answers = await Promise.all([remove(one, owners[acme]!), remove(two, other.id)]);
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(1);
      expect(answers.filter(({ status }) => status < 300)).toHaveLength(1);
      expect((await must(asDeveloper("GET", `${at}/users?org=${acme}&role=owner`), 200)).total_entries).toBe(1);
    }
  });

  it("the last owner demoted 20 times is refused 20 times", async () => {
    const { acme, at, owners, asDeveloper } = await anApp();
    const answers = await together(20, () => asDeveloper("PATCH", `${at}/users/${owners[acme]}`, { role: "admin" }));
    expect(statuses(answers)).toEqual({ 409: 20 });
  });

  it("51 personal tokens: 50 are made", async () => {
    const { acme, as } = await anApp();
    await must(as(acme)("GET", "/api/v1/users/me"), 200);
    const answers = await together(51, () => as(acme)("POST", "/api/v1/users/me/tokens", {}));
    expect(statuses(answers)).toEqual({ 201: 50, 429: 1 });
  });

  it("130 variables of an agent: 100 are made, each time", async () => {
    const { acme, as } = await anApp();
    for (let round = 0; round < 8; round++) {
      const { id } = await anAgent(as(acme), { name: "Ada" });
      const one = (i: number) => as(acme)("POST", `/api/v1/agents/${id}/agent_env_vars`, { key: `K${i}`, value: "v" });
      expect(statuses(await together(130, one))).toEqual({ 200: 100, 422: 30 });
    }
  });

  it("20 personal tokens where there is room for one: one is made", async () => {
    for (let round = 0; round < 5; round++) {
      const { app, acme, owners, as } = await anApp();
      await must(as(acme)("GET", "/api/v1/users/me"), 200);
      await sql(
        `insert into data.tokens (id, app_id, sandbox_id, org_id, user_id, scopes, expires_at)
         select 'sat_' || lpad(n::text, 22, '0'), $1, '-', $2, $3, '{full_access}', now() + interval '1 day'
           from generate_series(1, 49) n`,
        [app, acme, owners[acme]],
      );
      const answers = await together(20, () => as(acme)("POST", "/api/v1/users/me/tokens", {}));
      expect(statuses(answers)).toEqual({ 201: 1, 429: 19 });
    }
  });

  it("20 grants added to one access list all count", async () => {
    const { acme, as } = await anApp();
    const { id } = await anAgent(as(acme), {
      acl: { grants: [{ principal_type: "org_role", principal: "viewer", actions: ["read"] }] },
    });
    const user = (i: number) => `usr_${String(i).padStart(22, "0")}`;
    const add = (i: number) => ({
      acl: { add: [{ principal_type: "user", principal: user(i % 10), actions: [i < 10 ? "read" : "write"] }] },
    });
    expect(statuses(await together(20, (i) => as(acme)("PATCH", `/api/v1/agents/${id}`, add(i))))).toEqual({ 200: 20 });
    const { acl } = await must(as(acme)("GET", `/api/v1/agents/${id}`), 200);
    expect(acl.grants).toHaveLength(11);
    for (let i = 0; i < 10; i++) {
      expect(acl.grants.find(({ principal }: any) => principal === user(i)).actions.toSorted()).toEqual([
        "read",
        "write",
      ]);
    }
  });

  it("an org deleted among writes into it: nothing of it stays, and nothing is a 500", async () => {
    const { app, acme, at, as, asDeveloper } = await anApp();
    await must(as(acme)("GET", "/api/v1/agents"), 200);
    const writes = together(60, (i) =>
      i % 2
        ? as(acme)("POST", "/api/v1/agents", { name: "Ada" })
        : asDeveloper("POST", "/api/v1/agents", { name: "Ada", org: acme }),
    );
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    expect(
      Object.keys(statuses(await writes)).filter((status) => !["200", "401", "422", "503"].includes(status)),
    ).toEqual([]);
    expect(await sql("select from data.agents where app_id = $1 and org_id = $2", [app, acme])).toEqual([]);
  });

  it("a user deleted among mints, refreshes and revokes: each is done or refused, and nothing is a 500", async () => {
    for (let round = 0; round < 5; round++) {
      const { acme, at, aUser, aToken, asDeveloper } = await anApp();
      const { id } = await aUser(acme);
      const tokens = `${at}/users/${id}/tokens`;
      const sessions = await together(8, () => aToken(id));
      const itself = caller(bearer(sessions[0].access_token));
      const requests = together(48, (i) => {
        const session = sessions[i % 8];
        if (i % 6 === 0) return asDeveloper("POST", tokens, {});
        if (i % 6 === 1) return refresh(session.refresh_token);
        if (i % 6 === 2) return asDeveloper("DELETE", `${tokens}/${session.id}`);
        if (i % 6 === 3) return itself("POST", "/api/v1/users/me/tokens", {});
        if (i % 6 === 4) return asDeveloper("POST", "/api/v1/agents", { name: "Ada", user: id });
        return itself("POST", "/api/v1/agents", { name: "Ada", user: id }, { "Idempotency-Key": "ada" });
      });
      const deleted = ended(asDeveloper, `${at}/users/${id}`);
      const seen = Object.keys(statuses(await requests)).filter(
        (s) => !["200", "201", "401", "404", "422", "503"].includes(s),
      );
      expect([await deleted, seen]).toEqual([204, []]);
      expect(await sql("select from data.tokens where user_id = $1", [id])).toEqual([]);
    }
  });

  it("an org deleted among mints, new users and keyed writes: each is done or refused, and nothing is a 500", async () => {
    for (let round = 0; round < 5; round++) {
      const { app, acme, at, owners, as, aToken, asDeveloper } = await anApp();
      const sessions = await together(6, () => aToken(owners[acme]!));
      await must(as(acme)("GET", "/api/v1/agents"), 200);
      const requests = together(48, (i) => {
        if (i % 6 === 0)
          return asDeveloper("POST", `${at}/users/${owners[acme]}/tokens`, {}, { "Idempotency-Key": `${i}` });
        if (i % 6 === 1) return refresh(sessions[i % 6].refresh_token);
        if (i % 6 === 2) return asDeveloper("POST", `${at}/users`, { org: acme });
        if (i % 6 === 3) return as(acme)("POST", "/api/v1/users/me/tokens", {});
        if (i % 6 === 4) return as(acme)("POST", "/api/v1/agents", { name: "Ada" }, { "Idempotency-Key": `${i}` });
        return asDeveloper("PATCH", `${at}/orgs/${acme}`, { name: `Acme ${i}` });
      });
      const deleted = ended(asDeveloper, `${at}/orgs/${acme}`);
      const seen = Object.keys(statuses(await requests)).filter(
        (s) => !["200", "201", "401", "404", "422", "503"].includes(s),
      );
      expect([await deleted, seen]).toEqual([204, []]);
      expect(await sql("select from data.users where app_id = $1 and org_id = $2", [app, acme])).toEqual([]);
    }
  });

  it("a sandbox deleted among new keys, orgs and users in it: nothing is a 500", async () => {
    for (let round = 0; round < 5; round++) {
      const { at, asDeveloper } = await anApp();
      const { id } = (await must(asDeveloper("GET", "/api/v1/sandboxes"), 200)).data[0];
      const { full_key } = await must(asDeveloper("POST", `/api/v1/sandboxes/${id}/keys`, { type: "secret" }), 200);
      const inside = caller(bearer(full_key));
      const requests = together(40, (i) => {
        if (i % 4 === 0) return asDeveloper("POST", `/api/v1/sandboxes/${id}/keys`, {});
        if (i % 4 === 1) return inside("POST", `${at}/keys`, {}, { "Idempotency-Key": `${i}` });
        if (i % 4 === 2) return inside("POST", `${at}/orgs`, { name: "A", slug: `a-${i}`, domain: `a-${i}.example` });
        return inside("POST", `${at}/users`, {});
      });
      const deleted = ended(asDeveloper, `/api/v1/sandboxes/${id}`);
      const seen = Object.keys(statuses(await requests)).filter(
        (s) => !["200", "201", "401", "404", "422", "503"].includes(s),
      );
      expect([await deleted, seen]).toEqual([204, []]);
    }
  });

  it.each(["PATCH", "DELETE"])(
    "a right that is taken away while a %s waits for the row is gone for it",
    async (method) => {
      const { acme, as, aUser, aToken } = await anApp();
      const { id: member } = await aUser(acme);
      const call = caller(bearer((await aToken(member)).access_token));
      const grant = (actions: string[]) => ({ grants: [{ principal_type: "user", principal: member, actions }] });
      const { id } = await anAgent(as(acme), { acl: grant(["read", "write"]) });
      const change = "update data.agents set acl = $2::jsonb where id = $1 returning id";
      const { committed } = await meanwhile(change, [id, JSON.stringify(grant(["read"]))]);
      const { status } = await call(method, `/api/v1/agents/${id}`, method === "PATCH" ? { name: "Eve" } : undefined);
      await committed;
      expect([status, (await must(as(acme)("GET", `/api/v1/agents/${id}`), 200)).name]).toEqual([404, "Ada"]);
      expect(
        (await call(method, `/api/v1/agents/${id}`, method === "PATCH" ? { name: "Eve" } : undefined)).status,
      ).toBe(403);
    },
  );
});
