import { PlatformClient } from "@archastro/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../lib/ids.ts";
import { bearer, caller, developer, must } from "../harness/index.ts";
import { aStage, events, instructionsOf, type Stage, until, wait } from "./stage.ts";

const at = (id: string, rest = "") => `/api/v1/agent_sessions/${id}${rest}`;

let stage: Stage;
let agent: { id: string };
beforeAll(async () => {
  stage = await aStage();
  agent = await stage.anActor([], "read");
});
afterAll(() => stage?.close());

const waiting = async () => {
  const { id } = await stage.aSession(agent, [{ text: "Hello." }]);
  await stage.is(id, "waiting");
  return id as string;
};

type Event = { event: string; data: any; at: number };
/** What a stream says, with each comment; it ends where the stream does. */
async function* said(path: string, token: string, headers: Record<string, string> = {}): AsyncGenerator<Event> {
  const response = await fetch(stage.base + path, { headers: { ...bearer(token), ...headers } });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  expect(response.headers.get("Content-Type")).toBe("text/event-stream");
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
    text += chunk;
    expect(text).not.toContain("\r");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const event = field("event");
      if (event) yield { event, data: JSON.parse(field("data")!), at: Date.now() };
      else yield { event: lines[0]!, data: null, at: Date.now() };
    }
  }
}
const aToken = async (org = stage.app.acme) => {
  const { id, access_token } = await stage.app.aToken(stage.app.owners[org]!);
  return { id, access_token } as { id: string; access_token: string };
};

describe("GET …/stream", () => {
  it("says how the session is, each change of its status, and ends when it has ended", async () => {
    const { id } = await stage.aSession(agent, [{ match: "more", text: "More." }, { text: "Hello." }]);
    const statuses: string[] = [];
    let messages = 0;
    for await (const { event, data } of said(at(id, "/stream"), stage.token)) {
      if (event.startsWith(":")) continue;
      expect([event, data.id]).toEqual(["session_update", id]);
      statuses.push(data.status);
      if (data.status !== "waiting") continue;
      if (messages++) await stage.ask("POST", at(id, "/cancel"));
      else await stage.ask("POST", at(id, "/message"), { content: "more" });
    }
    const rest = statuses.slice(statuses.indexOf("waiting"));
    expect(rest).toEqual(["waiting", "running", "waiting", "cancelled"]);
  });

  it("of a session that has ended is one event", async () => {
    const { id } = await stage.aSession(agent, [{ text: "Hello." }], { on_idle: "complete" });
    const done = await stage.is(id, "completed");
    const told = [];
    for await (const { event, data } of said(at(id, "/stream"), stage.token)) told.push([event, data]);
    expect(told).toEqual([["session_update", done]]);
  });

  it("is read by the SDK as it is", async () => {
    const { id } = await stage.aSession(agent, [{ text: "Hello." }], { on_idle: "complete" });
    const client = PlatformClient.withSecretKey(stage.app.secret_key, stage.base);
    const statuses: string[] = [];
    for await (const event of await client.v1.agent_sessions.stream(id))
      statuses.push((event as { data: { status: string } }).data.status);
    expect(statuses.at(-1)).toBe("completed");
  });
});

describe("GET …/events", () => {
  it("tells every frame under its sequence, from any sequence on, by the header or the query", async () => {
    const { id } = await stage.aSession(agent, [{ text: "One two three." }], { on_idle: "complete" });
    await stage.is(id, "completed");
    const frames = await stage.frames(id);
    const told = async (path: string, headers = {}) => {
      const found = [];
      for await (const { event, data } of said(path, stage.token, headers)) found.push([event, data]);
      return found;
    };
    const from = (after: number) => frames.filter(({ sequence }) => sequence > after).map((one) => [one.type, one]);
    expect(frames.map(({ type }) => type)).toContain("model.delta");
    expect(await told(at(id, "/events?after=2"))).toEqual(from(2));
    expect(await told(at(id, "/events?after=0"), { "Last-Event-ID": "3" })).toEqual(from(3));
    expect(await told(at(id, `/events?after=${frames.at(-1)!.sequence}`))).toEqual([]);
    for (const answer of [
      await stage.ask("GET", at(id, "/events?after=-1")),
      await stage.ask("GET", at(id, "/events"), undefined, { "Last-Event-ID": "x" }),
    ]) {
      expect([answer.status, answer.body.error.fields.length]).toEqual([422, 1]);
    }
  });

  it("tells what happens while it happens, and comments while nothing does", async () => {
    const id = await waiting();
    const told: Event[] = [];
    let sent = 0;
    for await (const event of said(at(id, "/events"), stage.token)) {
      told.push(event);
      if (told.filter((one) => one.event.startsWith(":")).length === 2 && !sent) {
        sent = Date.now();
        await stage.ask("POST", at(id, "/message"), { content: "Hi" });
      }
      if (event.event === "message.received") break;
    }
    expect(told.at(-1)!.at - sent).toBeLessThan(1000);
  });

  it("tells a client that takes its time every frame, in order and with no gap", async () => {
    const text = "word ".repeat(1000);
    const { id } = await stage.aSession(agent, [{ text, pace_ms: 1 }], { on_idle: "complete" });
    const sequences: number[] = [];
    for await (const { event, data } of said(at(id, "/events"), stage.token)) {
      if (event.startsWith(":")) continue;
      sequences.push(data.sequence);
      if (sequences.length % 5 === 0) await wait(50);
    }
    expect(sequences).toEqual(sequences.map((_, i) => i + 1));
    expect((await stage.get(id)).status).toBe("completed");
  });

  it("stops nothing when the client goes, and isn't kept up by it", async () => {
    const { id } = await stage.aSession(agent, [{ delay_ms: 3000, text: "Late." }], { on_idle: "complete" });
    for await (const { event } of said(at(id, "/events"), stage.token)) if (event === "model.started") break;
    await stage.is(id, "completed");
  });
});

describe("who may go on watching", () => {
  /** How long after `change` both streams of the token end, and with what. */
  async function cut(id: string, token: string, change: () => Promise<unknown>) {
    let changed = 0;
    const ends = await Promise.all(
      ["/stream", "/events"].map(async (path) => {
        let last: Event | undefined;
        for await (const event of said(at(id, path), token)) {
          if (path === "/stream" && event.event === "session_update" && !changed) {
            await wait(1000);
            await change();
            changed = Date.now();
          }
          if (!event.event.startsWith(":")) last = event;
        }
        return { code: last!.data.code, ms: Date.now() - changed };
      }),
    );
    for (const { ms } of ends) expect(ms).toBeLessThan(5000);
    return ends.map(({ code }) => code);
  }

  it("ends within 5 s of the revocation of the token", async () => {
    const id = await waiting();
    const token = await aToken();
    const other = await aToken();
    let codes: string[] = [];
    const goesOn = (async () => {
      for await (const _ of said(at(id, "/events"), other.access_token)) if (codes.length) return "goes on";
      return "ended";
    })();
    codes = await cut(id, token.access_token, () =>
      stage.own.database.query("update data.tokens set revoked_at = now() where id = $1", [token.id]),
    );
    expect(codes).toEqual(["unauthenticated", "unauthenticated"]);
    expect(await goesOn).toBe("goes on");
  });

  it("ends within 5 s of the org's suspension, and the session is as it was", async () => {
    const { app } = stage;
    const org = await app.anOrg();
    const user = await app.aUser(org.id, "owner");
    const { access_token } = await app.aToken(user.id);
    const ask = caller(bearer(access_token), stage.base);
    const { id: agent } = await must(ask("POST", "/api/v1/agents", { name: "A", model: "scripted/script" }), 200);
    const body = { agent, instructions: instructionsOf({ text: "Hello." }), start_idle: true };
    const { id } = await must(ask("POST", "/api/v1/agent_sessions", body), 201);
    const set = (status: string) =>
      must(app.asDeveloper("PATCH", `${developer(app.app)}/orgs/${org.id}`, { status }), 200);
    expect(await cut(id, access_token, () => set("suspended"))).toEqual(["org_suspended", "org_suspended"]);
    await set("active");
    expect((await must(ask("GET", at(id)), 200)).status).toBe("waiting");
  });

  it("asks after all of them by one statement every 4 s", async () => {
    const id = await waiting();
    const tokens = await Promise.all([aToken(), aToken(), aToken()]);
    const abort = new AbortController();
    const streams = tokens.flatMap(({ access_token }) =>
      Array.from({ length: 4 }, async () => {
        const watched = events(stage.base, access_token, id, undefined, abort.signal);
        try {
          for await (const _ of watched);
        } catch {}
      }),
    );
    await wait(2000);
    const looks = stage.database.count(/app\.watch/);
    await wait(8000);
    expect(looks()).toBeLessThanOrEqual(3);
    expect(looks()).toBeGreaterThanOrEqual(1);
    abort.abort();
    await Promise.all(streams);
  });

  it("is no other org, and nobody whom the agent is hidden from", async () => {
    const id = await waiting();
    const globex = stage.app.as(stage.app.globex);
    for (const path of ["/stream", "/events", "/export", "/tool_calls"]) {
      const foreign = await globex("GET", at(id, path));
      const absent = await globex("GET", at(newId("agent_session"), path));
      expect([foreign.status, foreign.body.detail]).toEqual([404, absent.body.detail]);
    }
  });
});

describe("what the cron does for sessions", () => {
  const erasures = () => stage.own.database.query<{ id: string }>("select id from app.erasures order by n");
  const look = (id: string) =>
    stage.own.database.query<{ status: string }>("select status from data.agent_sessions where id = $1", [id]);

  it("takes up a session whose beginning was lost", async () => {
    const id = newId("agent_session");
    await stage.own.database.query(
      `insert into data.agent_sessions (id, app_id, sandbox_id, org_id, agent_id, trajectory_id, instructions, max_turns,
         max_tokens, max_runs_per_turn, start_idle, on_idle, look_at)
       select $1, app_id, sandbox_id, org_id, id, $2, $3, 5, 1000, 5, false, 'complete', now() - interval '1 second'
         from data.agents where id = $4`,
      [id, newId("trajectory"), instructionsOf({ text: "Hello." }), agent.id],
    );
    await stage.own.fireCrons();
    await until("it is completed", async () => (await look(id))[0]!.status === "completed" || null, 5000);
  });

  it("goes on with what a suspension had paused, which took no step meanwhile and has not failed", async () => {
    const { app } = stage;
    const org = await app.anOrg();
    const user = await app.aUser(org.id, "owner");
    const ask = caller(bearer((await app.aToken(user.id)).access_token), stage.base);
    const { id: actor } = await must(ask("POST", "/api/v1/agents", { name: "A", model: "scripted/script" }), 200);
    const asks = { name: "nobody", arguments: {} };
    const rules = [
      { match: "Go on", text: "Done." },
      { delay_ms: 300, tool_calls: [asks] },
    ];
    const body = {
      agent: actor,
      instructions: instructionsOf(...rules),
      on_idle: "complete",
      max_turns: 1000,
      max_tokens: 10_000_000,
    };
    const { id } = await must(ask("POST", "/api/v1/agent_sessions", body), 201);
    const set = (status: string) =>
      must(app.asDeveloper("PATCH", `${developer(app.app)}/orgs/${org.id}`, { status }), 200);
    const turns = async () => {
      const [row] = await stage.own.database.query<{ status: string; sequence: number; turns: number }>(
        `select s.status, (select count(*)::int from data.model_calls m where m.session_id = s.id) as turns
           from data.agent_sessions s where s.id = $1`,
        [id],
      );
      return row!;
    };
    await until("it has taken some turns", async () => (await turns()).turns > 2 || null);
    await set("suspended");
    await wait(5_000);
    const paused = await turns();
    await wait(2_000);
    expect(await turns()).toEqual(paused);
    expect(paused.status).toBe("running");
    await set("active");
    await stage.own.database.query("update data.agent_sessions set look_at = now() where id = $1", [id]);
    await stage.own.fireCrons();
    await until("it takes turns again", async () => (await turns()).turns > paused.turns || null);
    await must(ask("POST", at(id, "/message"), { content: "Go on" }), 200);
    await until("it ends", async () => (await turns()).status === "completed" || null);
  });

  it("takes no step for what the app says to a suspended org's session, and does when that is lifted", async () => {
    const { app } = stage;
    const org = await app.anOrg();
    const user = await app.aUser(org.id, "owner");
    const ask = caller(bearer((await app.aToken(user.id)).access_token), stage.base);
    const { id: actor } = await must(ask("POST", "/api/v1/agents", { name: "A", model: "scripted/script" }), 200);
    const body = { agent: actor, instructions: instructionsOf({ text: "Hello." }), start_idle: true };
    const { id } = await must(ask("POST", "/api/v1/agent_sessions", body), 201);
    const set = (status: string) =>
      must(app.asDeveloper("PATCH", `${developer(app.app)}/orgs/${org.id}`, { status }), 200);
    const calls = async () => {
      const [row] = await stage.own.database.query<{ n: number }>(
        "select count(*)::int as n from data.model_calls where session_id = $1",
        [id],
      );
      return row!.n;
    };
    await set("suspended");
    await wait(4_500);
    await must(app.asDeveloper("POST", at(id, "/message"), { content: "Are you there?" }), 200);
    await wait(2_000);
    expect(await calls()).toBe(0);
    await set("active");
    await must(ask("POST", at(id, "/message"), { content: "And now?" }), 200);
    await until("it answers", async () => (await calls()) > 0 || null);
  });

  it("erases the objects of what was deleted: a session, an agent's, an org's", async () => {
    const { app, ask } = stage;
    const one = await waiting();
    await must(ask("POST", at(one, "/cancel")), 200);
    await must(ask("DELETE", at(one)), 204);
    const actor = await stage.anActor([], "read");
    const { id: two } = await stage.aSession(actor, [{ text: "Hello." }]);
    await must(ask("DELETE", `/api/v1/agents/${actor.id}`), 204);
    const org = await app.anOrg();
    const user = await app.aUser(org.id, "owner");
    const theirs = caller(bearer((await app.aToken(user.id)).access_token), stage.base);
    const { id: agent } = await must(theirs("POST", "/api/v1/agents", { name: "A" }), 200);
    const { id: three } = await must(
      theirs("POST", "/api/v1/agent_sessions", { agent, instructions: "Hello.", start_idle: true }),
      201,
    );
    await must(app.asDeveloper("DELETE", `${developer(app.app)}/orgs/${org.id}`), 204);
    expect((await erasures()).map(({ id }) => id)).toEqual([one, two, actor.id, three, agent]);
    await stage.own.fireCrons();
    await until("they are erased", async () => (await erasures()).length === 0 || null, 10_000);
  });
});

it("masks what a person notes though the object has just come to memory", async () => {
  const actor = await stage.anActor(["act"], "once", { approval: "required" });
  const value = `hush-${newId("agent")}`;
  await must(stage.ask("POST", `/api/v1/agents/${actor.id}/agent_env_vars`, { key: "TOKEN", value }), 200);
  const asks = { tool_calls: [{ name: "act", arguments: { id: "x" } }] };
  const { id } = await stage.aSession(actor, [{ role: "tool", text: "I see." }, asks]);
  const call = await until("it asks", async () => {
    const { body } = await stage.ask("GET", at(id, "/tool_calls"));
    return body.data[0]?.outcome === "awaiting_approval" ? body.data[0] : null;
  });
  stage.kill();
  await stage.isUp();
  const { arguments_hash } = call;
  const denial = { arguments_hash, note: `not with ${value}` };
  await must(stage.ask("POST", at(id, `/tool_calls/${call.id}/deny`), denial), 200);
  const tape = await must(stage.ask("GET", at(id, "/export")), 200);
  const notes = tape.frames.flatMap(({ type, note }: any) => (type === "approval.decided" ? [note] : []));
  expect(notes).toEqual(["not with ****"]);
});
