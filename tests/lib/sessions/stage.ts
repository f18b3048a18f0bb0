/** A session over SQLite, whose process can die at any instant: its models are scripted, its tools count what reaches them. */

import { newId } from "../../../lib/ids.ts";
import { Journal } from "../../../lib/journal/journal.ts";
import { resolveModel, step } from "../../../lib/model/index.ts";
import type { SessionEvent, SessionFrame } from "../../../lib/sessions/frames.ts";
import type { NewMessage, SessionRow } from "../../../lib/sessions/remote.ts";
import { type Hands, type MessageKeys, Session } from "../../../lib/sessions/session.ts";
import type { OfferedTool, PinnedAgent, ToolAnswer, ToolAsk } from "../../../lib/tools/calls.ts";
import { aStore } from "../journal/store.ts";

export class Crash extends Error {}

export const aTool = (name: string, more: Partial<OfferedTool> = {}): OfferedTool => ({
  ...{ name, description: name, parameters: { type: "object" }, effect: "once", approval: "none", async: false },
  ...{ handler: { type: "http", config: { id: "cfg", version: 1 } } },
  ...more,
});
export const finish = (schema: object = { type: "object" }): OfferedTool =>
  aTool("finish", {
    ...{ effect: "read", handler: { type: "builtin", key: null, function: "finish", config: {} } },
    parameters: { type: "object", properties: { result: schema }, required: ["result"] },
  });
export const own = (name: "ask_user" | "wait"): OfferedTool =>
  aTool(name, { effect: "read", handler: { type: "builtin", key: null, function: name, config: {} } });

type Rule = Record<string, unknown>;
type Options = {
  row?: Partial<SessionRow>;
  tools?: OfferedTool[];
  /** What `scripted/script` does. */
  rules?: Rule[];
  call?: (tool: OfferedTool, ask: ToolAsk) => Promise<ToolAnswer>;
  secrets?: string[];
  hands?: Partial<Hands>;
  model?: string;
};

/** Counts the instants at which a process could end, and ends it at one of them. */
class Fate {
  at = 0;
  readonly end: number;
  constructor(end: number) {
    this.end = end;
  }
  pass() {
    if (++this.at === this.end) throw new Crash();
    if (this.at > this.end) throw new Crash();
  }
}

export function aStage({
  row = {},
  tools = [],
  rules = [],
  call,
  secrets = [],
  hands = {},
  model = "scripted/script",
}: Options = {}) {
  const instructions = `Do it.\n\`\`\`script\n${JSON.stringify(rules)}\n\`\`\``;
  const whole = {
    ...{ id: newId("agent_session"), instructions, max_turns: 100, max_tokens: 1_000_000, max_runs_per_turn: 25 },
    ...{ on_idle: "wait", start_idle: false, result_schema: null, status: "pending", ...row },
  } as SessionRow;
  const agent: PinnedAgent = {
    ...{ id: "agi", name: "Ada", identity: "You are Ada.", model, tools, servers: [], skills: [] },
  };
  const { sql } = aStore();
  const made: { name: string; key: string; attempt: number; arguments: unknown }[] = [];
  const keptKeys = new Map<string, { fingerprint: string; message: never }>();
  const keys: MessageKeys = {
    find: (subject, key) => keptKeys.get(`${subject} ${key}`) ?? null,
    keep: ({ subject, key, fingerprint, message }) =>
      void keptKeys.set(`${subject} ${key}`, { fingerprint, message: message as never }),
  };
  let clock = Date.parse("2026-01-02T03:04:05Z");
  const told: SessionFrame[] = [];
  let wake: number | null = null;

  /** A new process over what the last one left. It ends at the given instant, counted from its beginning. */
  function process(end = Number.POSITIVE_INFINITY) {
    const fate = new Fate(end);
    const journal = new Journal<SessionEvent>(sql);
    const append = journal.append.bind(journal);
    journal.append = (events, now) => {
      fate.pass();
      const frames = append(events, now);
      return frames;
    };
    const jobs: string[] = [];
    const all: Hands = {
      now: () => clock++,
      newCall: () => newId("tool_call"),
      pin: async () => {
        fate.pass();
        return agent;
      },
      mayGoOn: async () => {
        fate.pass();
        return true;
      },
      offered: async () => tools,
      model: (pinned) => resolveModel(pinned.model, {}).name,
      async *step(pinned, request, signal) {
        for await (const event of step(resolveModel(pinned.model, {}), request, {
          ways: { fetch, guarded: fetch },
          signal,
        })) {
          fate.pass();
          yield event;
        }
      },
      call: async (_, tool, ask) => {
        fate.pass();
        made.push({ name: tool.name, key: ask.idempotency_key, attempt: ask.attempt, arguments: ask.arguments });
        const answer = (await call?.(tool, ask)) ?? { ok: { content: `${tool.name} done`, resolution: null } };
        fate.pass();
        return answer;
      },
      mask: (value) =>
        JSON.parse(secrets.reduce((text, one) => text.replaceAll(one, "****"), JSON.stringify(value ?? null))),
      told: (frames) => void told.push(...frames),
      runAt: (instant) => {
        wake = Math.max(wake ?? 0, instant);
      },
      runCall: (id) => void jobs.push(id),
      ...hands,
    };
    const session = new Session(whole, journal, all);
    return { session, journal, fate, jobs, hands: all };
  }

  return {
    process,
    made,
    told,
    row: whole,
    keys,
    /** When it is to be run again, where somebody has asked for that since it was last looked at. */
    wakes: () => {
      const at = wake;
      wake = null;
      return at;
    },
    pass: (ms: number) => {
      clock += ms;
    },
    frames: () => new Journal<SessionEvent>(sql).after(0) as SessionFrame[],
  };
}
export type Stage = ReturnType<typeof aStage>;

export const says = (content: string, more: Partial<NewMessage> = {}): NewMessage => ({
  ...{ role: "user", content, metadata: {}, sender: { type: "user", id: "usr" }, on_busy: "enqueue", key: null },
  ...more,
});

/** Begins a session and runs it as far as it goes. */
export async function ran(stage: Stage) {
  const one = stage.process();
  one.session.begin();
  await one.session.run();
  return one;
}
