/** A run over SQLite, whose process can die at any instant: what it sends is counted. */
import { newId } from "../../../lib/ids.ts";
import { Journal } from "../../../lib/journal/journal.ts";
import type { RunEvent, RunFrame } from "../../../lib/runs/frames.ts";
import type { RunRow } from "../../../lib/runs/remote.ts";
import { type Came, type Hands, Run, type Sending } from "../../../lib/runs/run.ts";
import type { Ask, Program } from "../../../lib/workflows/program.ts";
import { aStore } from "../journal/store.ts";

export class Crash extends Error {}

export const anAsk = (key: string, more: Partial<Ask> = {}): Ask => ({
  ...{ key, node: key, kind: "http", template: { of: key }, scope: null, effect: "once", attempts: 1 },
  ...more,
});

/** A program that asks these, one row after another, each row at once; it completes with what each came to. */
export const asking = (...rows: Ask[][]): Program<Record<string, unknown>> => ({
  begin: () => ({}),
  next: (came) => {
    const failed = Object.values(came).find((one) => typeof one === "object" && one !== null && "error" in one);
    if (failed) return { do: "fail", error: (failed as { error: string }).error };
    const row = rows.find((asks) => asks.some(({ key }) => !(key in came)));
    if (!row) return { do: "complete", result: came as never };
    return { do: "ask", asks: row.filter(({ key }) => !(key in came)) };
  },
  take: (came, key, outcome) => ({ ...came, [key]: "ok" in outcome ? outcome.ok : outcome }),
});

type Options = {
  program: Program<any>;
  row?: Partial<RunRow>;
  /** What comes of a command; without it, `<key> done`. */
  send?: (command: Sending, nth: number) => Promise<Came | null> | Came | null;
  heard?: (handed_to: string) => Came | null;
  secrets?: string[];
  hands?: Partial<Hands>;
};

export function aStage({ program, row = {}, send, heard, secrets = [], hands = {} }: Options) {
  const { sql } = aStore();
  const whole = { id: newId("agent_routine_run"), payload: {}, causes: [], ...row } as unknown as RunRow;
  const sent: { node: string; id: string; attempt: number }[] = [];
  const left: string[] = [];
  const paused: string[] = [];
  const told: RunFrame[] = [];
  let clock = Date.parse("2026-01-02T03:04:05Z");
  let wake: number | null = null;

  /** A new process over what the last one left. It ends at the given instant, counted from its beginning. */
  function process(end = Number.POSITIVE_INFINITY, its: Partial<Hands> = {}) {
    const fate = { at: 0 };
    const pass = () => {
      if (++fate.at >= end) throw new Crash();
    };
    const journal = new Journal<RunEvent>(sql, whole.id);
    const append = journal.append.bind(journal);
    journal.append = (events, now) => {
      pass();
      return append(events, now);
    };
    const jobs: string[] = [];
    let looks = 0;
    const run = new Run(whole, journal, {
      now: () => clock++,
      newCommand: () => newId("tool_call"),
      pin: async () => {
        pass();
        return { handler: "script" };
      },
      program: () => program,
      mayGoOn: async () => {
        pass();
        return true;
      },
      evaluate: async ({ template }) => template,
      listen: async () => null,
      send: async (_, command) => {
        pass();
        sent.push({ node: command.node, id: command.id, attempt: command.attempt });
        const nth = sent.filter(({ node }) => node === command.node).length;
        const came = send ? await send(command, nth) : { ok: `${command.node} done` };
        pass();
        return came;
      },
      heard: async (_, handed_to) => heard?.(handed_to) ?? null,
      letGo: (handed_to) => void left.push(handed_to),
      mask: (value) =>
        JSON.parse(secrets.reduce((text, one) => text.replaceAll(one, "****"), JSON.stringify(value ?? null))),
      told: (frames) => void told.push(...frames),
      runAt: (instant) => {
        wake = instant;
      },
      paused: () => void paused.push(run.status),
      runCommand: (id) => void jobs.push(id),
      runLook: () => void looks++,
      ...hands,
      ...its,
    });
    /** Does what is to be done, until nothing is but for a later time: answers that time. */
    const go = async (): Promise<number | null> => {
      for (;;) {
        wake = null;
        await run.run();
        for (; looks > 0; looks--) await run.look();
        const all = jobs.splice(0);
        await Promise.all(all.map((id) => run.runCommand(id)));
        if (!all.length && (wake === null || wake > clock)) return wake;
      }
    };
    return { run, journal, fate, go };
  }
  return {
    process,
    sent,
    told,
    left,
    /** What it was in each time that it was to be run again when its org is active. */
    paused,
    row: whole,
    pass: (ms: number) => {
      clock += ms;
    },
    frames: () => new Journal<RunEvent>(sql, whole.id).after(0) as RunFrame[],
  };
}
export type Stage = ReturnType<typeof aStage>;

/** Begins a run and lets it go as far as it can. */
export async function ran(stage: Stage) {
  const one = stage.process();
  one.run.begin();
  await one.go();
  return one;
}
