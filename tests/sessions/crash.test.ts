/**
 * The runtime is killed with -9 at each point of a session's way, many sessions at a time: each ends as it should, and
 * nothing was silently done twice. The points are hit from outside, by what an endpoint, a database or a model holds up.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Effect } from "../../lib/db/schema.ts";
import { aStage, type Rule, SOAK, type Stage, until, wait } from "./stage.ts";

const [ROUNDS, EACH] = SOAK ? [4, 5] : [1, 2];
const EFFECTS = ["read", "idempotent", "once"] as const;
const DONE: Rule = { role: "tool", text: "All done." };
const PIN = /\bagent_tools\b/;
const PROJECTION = /\bupdate\b.*\bagent_sessions\b|\binto\b.*\btool_calls\b/is;

let stage: Stage;
const agents = new Map<string, { id: string }>();
let serial = 0;

beforeAll(async () => {
  stage = await aStage();
  for (const effect of EFFECTS) {
    agents.set(effect, await stage.anActor(["act", "hold"], effect));
    agents.set(`${effect}, approved`, await stage.anActor(["act"], effect, { approval: "required" }));
  }
});
afterEach(() => stage.database.letGo());
afterAll(() => stage.close());

type Run = { id: string; effect: Effect; kind: string; asks: string };

/** A session of each effect, EACH times, that calls one tool and says that it's done. */
async function sessions(kind: string, { rule = {}, agent = "" }: { rule?: Rule; agent?: string } = {}) {
  const all = EFFECTS.flatMap((effect) => Array.from({ length: EACH }, () => effect));
  return Promise.all(
    all.map(async (effect): Promise<Run> => {
      const asks = `c${serial++}`;
      const rules = [DONE, { ...rule, tool_calls: [{ name: kind, arguments: { id: asks } }] }];
      const { id } = await stage.aSession(agents.get(effect + agent)!, rules, { on_idle: "complete" });
      return { id, effect, kind, asks };
    }),
  );
}

const callsOf = async ({ id }: Run): Promise<any[]> =>
  (await stage.ask("GET", `/api/v1/agent_sessions/${id}/tool_calls`)).body.data;
const askedOf = ({ kind, asks }: Run) => stage.endpoint.asked.filter((one) => one.kind === kind && one.id === asks);
const rowOf = async ({ id }: Run) =>
  (await stage.own.database.query<any>("select status, result, error from data.agent_sessions where id = $1", [id]))[0];

/** Kills the runtime, and then: each session ends by itself, but for those that only a person can judge. */
async function killed(runs: Run[], { after = 0, judged = runs.length } = {}) {
  await wait(after);
  stage.kill();
  // What was held up is done now, on behalf of nobody.
  stage.database.letGo();
  const since = Date.now();
  await stage.isUp();
  let unknown = 0;
  for (const run of runs) {
    const ended = async () => {
      const row = await rowOf(run);
      if (row.status === "completed") return row;
      const [call] = row.status === "waiting" ? await callsOf(run) : [];
      return call?.outcome === "unknown" ? row : null;
    };
    const left = Math.max(0, 60_000 - (Date.now() - since));
    let row = await until(`${run.effect} ${run.id} ends: ${JSON.stringify(await rowOf(run))}`, ended, left);
    if (row.status === "waiting") {
      expect(run.effect).toBe("once");
      unknown++;
      const [call] = await callsOf(run);
      const at = `/api/v1/agent_sessions/${run.id}/tool_calls/${call.id}/resolve`;
      expect((await stage.ask("POST", at, { outcome: "happened", result: { id: run.asks } })).status).toBe(200);
      row = await until(`${run.id} ends once its call was resolved`, ended, 60_000);
    }
    expect([run.effect, row.status, row.result, row.error]).toEqual([
      ...[run.effect, "completed", { output: "All done." }, null],
    ]);
    const asked = askedOf(run);
    if (run.effect === "once") expect(asked.length).toBeLessThanOrEqual(1);
    else expect(asked.length).toBeGreaterThanOrEqual(1);
    if (run.effect === "idempotent") {
      expect(asked[0]!.key).toMatch(/.{16}/);
      expect(new Set(asked.map(({ key }) => key)).size).toBe(1);
    }
    const frames = await stage.frames(run.id);
    expect(frames.filter(({ type }) => type === "session.result")).toHaveLength(1);
    const [call] = await callsOf(run);
    expect([call.name, call.effect, call.outcome]).toEqual([run.kind, run.effect, "succeeded"]);
  }
  expect(unknown).toBeLessThanOrEqual(judged);
  return unknown;
}

const rounds = Array.from({ length: ROUNDS }, (_, i) => i);

describe("killed with -9, every session ends as promised", { timeout: 300_000 }, () => {
  it.each(rounds)("before the model call (%i)", async () => {
    stage.database.hold(PIN);
    const runs = await sessions("act");
    await until("they are to be pinned", () => (stage.database.waiting() >= runs.length ? true : null));
    await killed(runs, { judged: 0 });
  });

  it.each(rounds)("in the middle of the model's stream (%i)", async () => {
    const rule = { pace_ms: 100, text: "A word and another one. ".repeat(30) };
    const runs = await sessions("act", { rule });
    for await (const { frame } of stage.events(runs.at(-1)!.id)) if (frame.type === "model.delta") break;
    await killed(runs, { after: Math.random() * 1_000, judged: 0 });
  });

  it.each(rounds)("before a tool (%i)", async () => {
    const runs = await sessions("act", { agent: ", approved" });
    const decided = runs.map(async (run) => {
      const [call] = await until("it asks", async () => {
        const calls = await callsOf(run);
        return calls[0]?.outcome === "awaiting_approval" ? calls : null;
      });
      return { run, call };
    });
    const waiting = await Promise.all(decided);
    const approving = waiting.map(({ run, call: { id, arguments_hash } }) =>
      stage.ask("POST", `/api/v1/agent_sessions/${run.id}/tool_calls/${id}/approve`, { arguments_hash }),
    );
    // From the first that was approved on, the others are in each state between asked and called.
    await Promise.any(approving);
    const settled = Promise.allSettled(approving);
    stage.kill();
    const answers = await settled;
    await stage.isUp();
    // What was not accepted is sent again, as whoever asked would.
    for (const [i, answer] of answers.entries()) {
      if (answer.status === "fulfilled" && answer.value.status === 200) continue;
      const { run, call } = waiting[i]!;
      const { status } = await stage.ask("POST", `/api/v1/agent_sessions/${run.id}/tool_calls/${call.id}/approve`, {
        arguments_hash: call.arguments_hash,
      });
      // Taken before it died, without a word: then it isn't taken twice.
      expect([200, 409]).toContain(status);
    }
    await killed(runs);
  });

  it.each(rounds)("while a tool works (%i)", async () => {
    const runs = await sessions("hold");
    await until("all tools work", () => (stage.endpoint.held() >= runs.length ? true : null));
    const letGo = setInterval(() => stage.endpoint.letGo(), 200);
    // Not one of `once` is called again; each is known as unknown.
    expect(await killed(runs).finally(() => clearInterval(letGo))).toBe(EACH);
  });

  it.each(rounds)("after the tool has answered, before that was written down (%i)", async (round) => {
    const runs = await sessions("hold");
    await until("all tools work", () => (stage.endpoint.held() >= runs.length ? true : null));
    stage.endpoint.letGo();
    const letGo = setInterval(() => stage.endpoint.letGo(), 200);
    await killed(runs, { after: round }).finally(() => clearInterval(letGo));
  });

  it.each(rounds)("before the projection (%i)", async () => {
    const runs = await sessions("hold");
    await until("all tools work", () => (stage.endpoint.held() >= runs.length ? true : null));
    stage.database.hold(PROJECTION);
    stage.endpoint.letGo();
    for (const { id } of runs) {
      for await (const { frame } of stage.events(id)) if (frame.type === "session.result") break;
    }
    for (const run of runs) expect((await rowOf(run)).status).not.toBe("completed");
    await killed(runs, { judged: 0 });
  });
});
