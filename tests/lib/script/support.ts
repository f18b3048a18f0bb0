import {
  type Answer,
  type Json,
  type OutboundCall,
  type RunOptions,
  runScript,
  type World,
} from "../../../lib/script/index.ts";
import type { Waiting } from "../../../lib/script/values.ts";

/** A world at a fixed instant; `answer` stands for everything outside. */
export function aWorld(answer: (call: OutboundCall, n: number) => Answer | "pause" = () => ({ ok: null })): World {
  return {
    call: async (n, call) => answer(call, n),
    rest: async () => {},
    now: () => Date.UTC(2026, 0, 2, 3, 4, 5),
    random: () => 0.25,
  };
}

export const run = (source: string, options: Partial<RunOptions> = {}) =>
  runScript(source, { world: aWorld(), ...options });

/** What comes of what may wait, where only others' turns are waited for. */
export function ended<T>(waiting: Waiting<T>): T {
  for (;;) {
    const { done, value } = waiting.next();
    if (done) return value;
    if (value !== null) throw new Error(`it waits for ${value.name}`);
  }
}

/** The result of a script that must run to its end. */
export async function resultOf(source: string, options: Partial<RunOptions> = {}): Promise<Json> {
  const { status, result, error } = await run(source, options);
  if (status !== "done") throw new Error(`${status}: ${error}\n${source}`);
  return result;
}

/** What kind of error a script ends with, and its message. */
export async function failureOf(source: string, options: Partial<RunOptions> = {}) {
  const { status, code, error, findings } = await run(source, options);
  if (status !== "failed") throw new Error(`${status}: ${source}`);
  return { code, error, at: findings.map(({ line, column }) => [line, column]).at(-1) };
}
