import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { typeOf } from "../../lib/events/catalogue.ts";
import { listEventsQuery } from "../../lib/events/schema.ts";
import { anAgent, anApp, type Call, must, sql, together, unique } from "../harness/index.ts";
import { aSubscription, namesOf, pull, tell } from "./stage.ts";

const payloads = (events: any[]) => events.map(({ payload }) => payload.n);

describe("GET /api/v1/events", () => {
  it("shows what happened in an org, whole, from its first event on, numbered without a gap", async () => {
    const { acme, owners, as } = await anApp();
    const owner = as(acme);
    const { next } = await pull(owner);
    const agent = await anAgent(owner, { name: "Ada" });
    await must(owner("PATCH", `/api/v1/agents/${agent.id}`, { name: "Eve" }), 200);
    await must(owner("DELETE", `/api/v1/agents/${agent.id}`), 204);
    const { events } = await pull(owner, { after: next });
    expect(namesOf(events)).toEqual(["agent.created", "agent.updated", "agent.deleted"]);
    expect(events[1]).toEqual({
      id: expect.stringMatching(/^evt_[0-9A-Za-z]{22}$/),
      event_name: "agent.updated",
      payload: { id: agent.id, agent: agent.id, fields: ["name"] },
      ...{ org: acme, sandbox: null, team: null, user: owners[acme], agent: agent.id },
      ...{ idempotency_key: null, cursor: null, sequence: next + 2 },
      created_at: expect.stringMatching(/Z$/),
    });
    const all = (await pull(owner, { after: 0 })).events;
    expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, i) => i + 1));
    expect((await must(owner("GET", "/api/v1/events?limit=1"), 200)).oldest_sequence).toBe(1);
  });

  it("goes on behind `after`, page by page, and stays where there is nothing more", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    for (const n of [1, 2, 3]) await tell(owner, n);
    const page = (query: string) => must(owner("GET", `/api/v1/events?event_names[]=custom.order&${query}`), 200);
    const first = await page("limit=2");
    expect([payloads(first.data), first.next_after]).toEqual([[1, 2], first.data[1].sequence]);
    const second = await page(`limit=2&after=${first.next_after}`);
    expect(payloads(second.data)).toEqual([3]);
    const third = await page(`after=${second.next_after}`);
    expect([third.data, third.next_after]).toEqual([[], second.next_after]);
    await tell(owner, 4);
    expect(payloads((await page(`after=${third.next_after}`)).data)).toEqual([4]);
    // More than five hundred are never asked for.
    expect(v.parse(listEventsQuery, { limit: "501" }).limit).toBe(500);
  });

  it("finds events by their names, and refuses one that is no event's", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    await anAgent(owner);
    await tell(owner, 1, { name: "custom.a" });
    await tell(owner, 2, { name: "custom.b" });
    const named = (names: string[]) =>
      owner("GET", `/api/v1/events?${names.map((name) => `event_names[]=${name}`).join("&")}`);
    expect(namesOf((await must(named(["custom.b", "agent.created"]), 200)).data)).toEqual([
      "agent.created",
      "custom.b",
    ]);
    for (const name of ["agent.exploded", "custom.*", "custom.", "custom.A"]) {
      const { status, body } = await named([name]);
      expect([name, status, body.error.fields[0].field]).toEqual([name, 422, "event_names.0"]);
    }
  });

  it("shows a key the org that it names, and without one what is the app's own", async () => {
    const { acme, globex, as, asDeveloper, anOrg, at } = await anApp();
    await tell(as(globex), 1);
    await tell(asDeveloper, 2, { org: acme });
    await tell(asDeveloper, 3);
    const orders = (call: Call, query = "") => pull(call, { query: `&event_names[]=custom.order${query}` });
    expect(payloads((await orders(asDeveloper, `&org=${acme}`)).events)).toEqual([2]);
    expect(payloads((await orders(asDeveloper, `&org=${globex}`)).events)).toEqual([1]);
    expect(payloads((await orders(asDeveloper)).events)).toEqual([3]);
    expect(payloads((await orders(as(acme), `&org=${acme}`)).events)).toEqual([2]);
    expect((await as(acme)("GET", `/api/v1/events?org=${globex}`)).status).toBe(422);
    const gone = await anOrg();
    await must(asDeveloper("DELETE", `${at}/orgs/${gone.id}`), 204);
    expect((await asDeveloper("GET", `/api/v1/events?org=${gone.id}`)).status).toBe(422);
    expect(namesOf((await pull(asDeveloper)).events)).toContain("org.deleted");
  });

  it("leaves out what the viewer may not read, and no trace of it", async () => {
    const { acme, owners, as } = await anApp();
    const [owner, member] = [as(acme), as(acme, { role: "member" })];
    await tell(member, 1);
    const before = await pull(member);
    const mine = { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read"] }] };
    const hidden = await anAgent(owner, { acl: mine });
    await must(owner("PATCH", `/api/v1/agents/${hidden.id}`, { name: "Eve" }), 200);
    expect((await pull(member, { after: before.next })).events).toEqual([]);
    await tell(member, 2);
    const { events } = await pull(member, { after: before.next });
    expect(payloads(events)).toEqual([2]);
    const seen = (await pull(member)).events;
    const own = (await pull(owner)).events;
    expect(seen.map(({ id }) => id)).not.toContain(hidden.id);
    for (const { sequence, cursor } of seen) expect([sequence, cursor?.length > 20]).toEqual([null, true]);
    for (const { sequence, cursor } of own) expect([typeof sequence, cursor]).toEqual(["number", null]);
    expect(new Set(seen.map(({ cursor }) => cursor.length)).size).toBe(1);
    expect((await must(member("GET", "/api/v1/events"), 200)).oldest_sequence).toBeNull();
    const one = own.find(({ agent }) => agent === hidden.id);
    expect((await member("GET", `/api/v1/events/${one.id}`)).status).toBe(404);
    expect(await must(owner("GET", `/api/v1/events/${one.id}`), 200)).toEqual(one);
    // From an event's own cursor it goes on behind it; a number tells who sees none nothing.
    expect((await pull(member, { after: seen.at(-2).cursor })).events.map(({ id }) => id)).toEqual([seen.at(-1).id]);
    for (const after of ["0", "1", "x"]) {
      const { status, body } = await member("GET", `/api/v1/events?after=${after}`);
      expect([after, status, body.error.code]).toEqual([after, 400, "invalid_cursor"]);
    }
  });

  it("takes a cursor of another org for none at all", async () => {
    const { acme, globex, as } = await anApp();
    const { next } = await pull(as(acme, { role: "member" }));
    expect((await as(acme)("GET", `/api/v1/events?after=${next}`)).status).toBe(200);
    for (const role of ["member", "owner"] as const) {
      expect((await as(globex, { role })("GET", `/api/v1/events?after=${next}`)).status).toBe(400);
    }
  });

  it("says 410 where some that follow are kept no longer, and never leaves out one silently", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    const owner = as(acme);
    await must(asDeveloper("PATCH", at, { settings: { retention_days: { events: 7 } } }), 200);
    for (const n of [1, 2, 3, 4]) await tell(owner, n);
    const { events, next } = await pull(owner);
    const last = events.find(({ payload }) => payload.n === 2).sequence;
    // Made when it says, as their ids do: the second is older than the first.
    await sql(
      `update data.events set created_at = now() - make_interval(days => 7, secs => 60 - sequence), id = 'evt_' || app.id_at(now() - make_interval(days => 7, secs => 60 - sequence)) where org_id = $1
        and sequence <= $2 and sequence <> $2 - 1`,
      [acme, last],
    );
    await sql("select app.sweep()");
    expect((await must(owner("GET", "/api/v1/events"), 200)).oldest_sequence).toBe(last + 1);
    expect(payloads((await pull(owner)).events)).toEqual([3, 4]);
    expect(payloads((await pull(owner, { after: last })).events)).toEqual([3, 4]);
    for (const after of [0, last - 1]) {
      const { status, body } = await owner("GET", `/api/v1/events?after=${after}`);
      expect([status, body.error.code]).toEqual([410, "events_expired"]);
    }
    expect((await pull(owner, { after: next })).events).toEqual([]);
    const [left] = await sql("select count(*)::int as n from data.events where org_id = $1", [acme]);
    expect(left.n).toBe(3);
  });
});

describe("POST /api/v1/events", () => {
  it("tells of what the app's own code knows, and of nothing else", async () => {
    const { acme, owners, as } = await anApp();
    const owner = as(acme);
    const event = await tell(owner, { deep: [1] }, { name: "custom.order.paid" });
    expect(event).toMatchObject({ payload: { n: { deep: [1] } }, org: acme, user: owners[acme], sequence: null });
    expect((await must(owner("GET", `/api/v1/events/${event.id}`), 200)).payload).toEqual(event.payload);
    const faults = async (body: object) => {
      const answer = await owner("POST", "/api/v1/events", { name: "custom.a", payload: {}, ...body });
      return [answer.status, answer.body.error.fields[0].field];
    };
    for (const name of ["agent.created", "custom.", "other", "custom.*"])
      expect(await faults({ name })).toEqual([422, "name"]);
    expect(await faults({ payload: { text: "x".repeat(33_000) } })).toEqual([422, "payload"]);
  });

  it("writes one event for a name and its dedupe_key, however often and concurrently it is told", async () => {
    const { acme, globex, as } = await anApp();
    const key = { dedupe_key: unique("order") };
    const told = await together(8, (n) => tell(as(acme), n, key));
    expect(new Set(told.map(({ id }) => id)).size).toBe(1);
    expect(told[0].idempotency_key).toBe(key.dedupe_key);
    const others = [await tell(as(acme), 1, { ...key, name: "custom.b" }), await tell(as(globex), 1, key)];
    expect(new Set([told[0].id, ...others.map(({ id }) => id)]).size).toBe(3);
    const { events } = await pull(as(acme), { query: "&event_names[]=custom.order" });
    expect(events).toHaveLength(1);
    expect((await tell(as(acme), 9, key)).sequence).toBe(events[0].sequence);
  });
});

describe("an event", () => {
  it("says what state a row has come to, behind the change itself, and only where it has", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const agent = await anAgent(owner);
    const task = { name: "R", handler_type: "preset", preset_name: "do_task", event_type: "agentroutine.invoked" };
    const routine = await must(
      owner("POST", `/api/v1/agents/${agent.id}/agent_routines`, { ...task, status: "draft" }),
      200,
    );
    const at = `/api/v1/agent_routines/${routine.id}`;
    const { next } = await pull(owner);
    await must(owner("POST", `${at}/activate`), 200);
    await must(owner("POST", `${at}/activate`), 200);
    await must(owner("PATCH", at, { description: "d" }), 200);
    await must(owner("POST", `${at}/pause`), 200);
    const { events } = await pull(owner, { after: next });
    expect(namesOf(events)).toEqual([
      ...["agent_routine.updated", "agent_routine.active", "agent_routine.updated"],
      ...["agent_routine.updated", "agent_routine.paused"],
    ]);
    expect(events[1].payload).toEqual({ id: routine.id, agent: agent.id, status: "active", fields: ["status"] });
    expect(events[1].agent).toBe(agent.id);
  });

  it("says each state that a person brings something to", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    const owner = as(acme);
    const agent = (await anAgent(owner)).id;
    const on = (collection: string, body: object) =>
      must(owner("POST", `/api/v1/agents/${agent}/${collection}`, body), 200);
    const script = { kind: "Script", mime_type: "text/plain", raw_content: "1", lookup_key: unique("s") };
    const text = "---\nname: a\ndescription: b\n---\nc\n";
    const skill = { kind: "Skill", mime_type: "text/markdown", raw_content: text, lookup_key: unique("k") };
    const [run, learn] = [
      await must(owner("POST", "/api/v1/config", script), 201),
      await must(owner("POST", "/api/v1/config", skill), 201),
    ];
    const custom = { kind: "custom", name: "t", description: "d", handler_type: "script", config: run.id };
    const tool = await on("agent_tools", { ...custom, parameters: { type: "object" }, status: "active" });
    const learnt = await must(owner("POST", "/api/v1/agent_skills", { agent, config: learn.id }), 201);
    const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "i" };
    const schedule = await on("schedules", daily);
    const site = await on("agent_installations", { kind: "web/site", config: { url: "https://a.example" } });
    const subscription = await aSubscription(owner);
    const key = { ...{ kind: "env_var", title: "A key" }, params: { key: "A_KEY" } };
    const installed = await must(
      owner("POST", "/api/v1/agents", { template_bundle: { template: { name: "B", setup_actions: [key] } } }),
      200,
    );
    const variables = `/api/v1/agents/${installed.id}/agent_env_vars`;
    const actions = await must(owner("GET", `/api/v1/agents/${installed.id}/agent_health_actions`), 200);
    const verify = `/api/v1/agent_health_actions/${actions.data[0].id}/verify`;
    const { next } = await pull(owner);
    const asked: [Call, string, string, (object | undefined)?][] = [
      [owner, "POST", `/api/v1/agent_tools/${tool.id}/deactivate`],
      [owner, "POST", `/api/v1/agent_tools/${tool.id}/activate`],
      [owner, "POST", `/api/v1/agent_skills/${learnt.id}/activate`],
      [owner, "POST", `/api/v1/agent_skills/${learnt.id}/deactivate`],
      [owner, "POST", `/api/v1/agents/${agent}/schedules/${schedule.id}/pause`],
      [owner, "POST", `/api/v1/agents/${agent}/schedules/${schedule.id}/resume`],
      [owner, "POST", `/api/v1/agent_installations/${site.id}/activate`],
      [owner, "PATCH", `/api/v1/event_subscriptions/${subscription.id}`, { status: "paused" }],
      [owner, "PATCH", `/api/v1/event_subscriptions/${subscription.id}`, { status: "active" }],
      [owner, "POST", variables, { key: "A_KEY", value: "x" }],
      [owner, "POST", verify],
      [asDeveloper, "PATCH", `${at}/orgs/${acme}`, { status: "trialing" }],
      [asDeveloper, "PATCH", `${at}/orgs/${acme}`, { status: "suspended" }],
      [asDeveloper, "PATCH", `${at}/orgs/${acme}`, { status: "active" }],
    ];
    for (const [call, method, path, body] of asked) await must(call(method, path, body), 200);
    const { data } = await must(owner("GET", variables), 200);
    await must(owner("DELETE", `/api/v1/agent_env_vars/${data[0].id}`), 204);
    await must(owner("POST", verify), 200);
    const { events } = await pull(owner, { after: next });
    expect(namesOf(events).filter((name) => !/\.(created|updated|deleted)$/.test(name))).toEqual([
      ...["agent_tool.disabled", "agent_tool.active", "agent_skill.active", "agent_skill.inactive"],
      ...["agent_schedule.paused", "agent_schedule.active", "agent_installation.active"],
      ...["event_subscription.paused", "event_subscription.active", "agent_health_action.completed"],
      ...["org.trialing", "org.suspended", "org.active", "agent_health_action.degraded"],
    ]);
  });

  it("is told of a session's states, which its object alone knows", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const agent = await anAgent(owner, { model: "scripted/echo" });
    const asked = { agent: agent.id, instructions: "Say something.", on_idle: "complete" };
    const session = await must(owner("POST", "/api/v1/agent_sessions", asked), 201);
    const query =
      "&event_names[]=agent_session.created&event_names[]=agent_session.running&event_names[]=agent_session.completed";
    const told = async () => (await pull(owner, { query })).events;
    await expect.poll(async () => namesOf(await told()).at(-1), { timeout: 10_000 }).toBe("agent_session.completed");
    const events = await told();
    expect(namesOf(events).filter((name) => name === "agent_session.completed")).toHaveLength(1);
    expect(events.at(-1).payload).toEqual({ id: session.id, agent: agent.id, status: "completed" });
    await must(owner("DELETE", `/api/v1/agent_sessions/${session.id}`), 204);
    const failing = await anAgent(owner, { model: "no/such" });
    await must(owner("POST", "/api/v1/agent_sessions", { ...asked, agent: failing.id }), 201);
    const last = async () => namesOf((await pull(owner)).events);
    await expect
      .poll(last, { timeout: 10_000 })
      .toEqual(expect.arrayContaining(["agent_session.deleted", "agent_session.failed"]));
  });

  it("is a quota that an org has come to: one an hour, which its admins and the app read", async () => {
    const { acme, globex, app, as, asDeveloper } = await anApp();
    const quotas = { event_subscriptions: 1, schedules: 0 };
    await sql("update data.apps set settings = $2 where id = $1", [app, JSON.stringify({ quotas })]);
    const [owner, member] = [as(acme), as(acme, { role: "member" })];
    const one = { name: "S", event_names: ["custom.order"] };
    await must(member("POST", "/api/v1/event_subscriptions", one), 201);
    for (const _ of [1, 2, 3]) await must(member("POST", "/api/v1/event_subscriptions", one), 422);
    const agent = await anAgent(as(globex));
    const daily = { schedule_type: "recurring", cron_expression: "0 9 * * *", instructions: "i" };
    for (const _ of [1, 2]) await must(asDeveloper("POST", `/api/v1/agents/${agent.id}/schedules`, daily), 422);
    const told = async (call: Call, query = "") =>
      (await pull(call, { query: `&event_names[]=quota.reached${query}` })).events.map(({ payload, user }) => [
        v.parse(typeOf("quota.reached")!.schema, payload),
        user,
      ]);
    const full = [[{ quota: "event_subscriptions", limit: 1 }, null]];
    await expect.poll(() => told(owner), { timeout: 10_000 }).toEqual(full);
    await expect.poll(() => told(as(globex)), { timeout: 10_000 }).toEqual([[{ quota: "schedules", limit: 0 }, null]]);
    expect(await told(asDeveloper, `&org=${acme}`)).toEqual(full);
    expect(await told(member)).toEqual([]);
    await sql("update data.events set idempotency_key = idempotency_key || ' before' where org_id = $1", [acme]);
    await must(member("POST", "/api/v1/event_subscriptions", one), 422);
    await expect.poll(() => told(owner), { timeout: 10_000 }).toEqual([...full, ...full]);
  });

  it("is no token that was made: thousands are, each second", async () => {
    const { acme, as, aToken, owners } = await anApp();
    await must(as(acme)("POST", "/api/v1/users/me/tokens", { name: "ci" }), 201);
    const { id } = await aToken(owners[acme]!);
    await must(as(acme)("DELETE", `/api/v1/users/me/tokens/${id}`), 200);
    const names = namesOf((await pull(as(acme))).events);
    expect([names.includes("token.created"), names.includes("token.revoked")]).toEqual([false, true]);
  });
});

describe("event types", () => {
  it("are listed, each with its schema and a sample, and found by name", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const { data } = await must(owner("GET", "/api/v1/event_types"), 200);
    const names = data.map(({ name }: any) => name);
    expect(names).toEqual(names.toSorted());
    expect(names).toEqual(
      expect.arrayContaining(["agent.created", "agent_session.completed", "custom.*", "quota.reached"]),
    );
    const type = await must(owner("GET", "/api/v1/event_types/agent_routine.paused"), 200);
    expect(data).toContainEqual(type);
    expect(type).toMatchObject({ version: 1, sample: { status: "paused" }, payload_schema: { type: "object" } });
    expect((await must(owner("GET", "/api/v1/event_types/custom.order"), 200)).name).toBe("custom.*");
    expect((await owner("GET", "/api/v1/event_types/agent.exploded")).status).toBe(404);
  });
});
