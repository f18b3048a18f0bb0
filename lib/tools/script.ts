/** A tool that is a script: what it learns from outside goes through the session's ledger, so that it can be taken up again. */

import type { Effect } from "../db/schema.ts";
import type { Egress } from "../http/egress.ts";
import {
  type Answer,
  edgeWorld,
  type HttpRequest,
  type Journal,
  type Json,
  LIMITS,
  type OutboundCall,
  type RunOptions,
  request,
  type ScriptRun,
  type World,
  withinLimit,
} from "../script/index.ts";
import type { ToolAnswer, ToolAsk } from "./calls.ts";

export type ScriptWorld = Egress & {
  /** `runScript`, wherever it computes. */
  run: (source: string, options: RunOptions) => Promise<ScriptRun>;
  env: Readonly<Record<string, string>>;
  viewer: Json;
  platform: (call: OutboundCall) => Promise<Answer | null>;
  /** The source that a script of the session's place has by this key. */
  scripts: (lookup_key: string) => Promise<string | null>;
};

/** Nobody knows whether a call of an earlier attempt happened, and it can't be made again. */
class Unknown extends Error {}

/**
 * Runs a script, or takes up one of which an earlier attempt knows something. Whatever it does is an answer. Without an
 * effect of its own each of its calls has the one that its method says.
 */
export async function callScript(
  source: string,
  effect: Effect | null,
  ask: ToolAsk,
  { run: compute, env, viewer, platform, scripts, ...egress }: ScriptWorld,
): Promise<ToolAnswer> {
  const { signal } = ask;
  const edge = edgeWorld(egress);
  let isOver = false;
  const world: World = {
    ...edge,
    rest: async () => {
      await edge.rest();
      signal.throwIfAborted();
    },
    call: async (n, { name, args, hash }) => {
      signal.throwIfAborted();
      const begun = ask.outbound.find((call) => call.n === n);
      if (begun && !mayRepeat(effect, name, args, begun.hash === hash)) throw new Unknown();
      ask.note({ n, name, hash, answer: null });
      // Of one that can't be made again, an answer that was lost leaves open whether it happened.
      const lost = () => {
        if (effect === null && !mayRepeat(effect, name, args, true)) throw new Unknown();
      };
      const answer = withinLimit(name, await inTime(name, answerOf(name, args, n, lost), lost));
      // A script that has ended meanwhile, as one does that has no time left, learns nothing more.
      if (isOver || signal.aborted) return answer;
      const noted = ask.note({ n, name, hash, answer });
      return { ...noted.answer!, at: noted.at };
    },
  };
  const answerOf = async (name: string, args: Json, n: number, lost: () => void): Promise<Answer> => {
    if (name !== "requests.request") return (await platform({ name, args })) ?? notHere(name);
    const { headers, ...rest } = args as unknown as HttpRequest;
    const keyed = { "idempotency-key": `${ask.idempotency_key}-${n}`, ...headers };
    return request({ ...rest, headers: keyed } as unknown as Json, { ...egress, signal, lost });
  };
  try {
    const run = await compute(source, {
      ...{ input: ask.arguments as Json, env, viewer, world, scripts },
      journal: await journalOf(ask),
    });
    if (run.status === "done") return { ok: { content: null, resolution: run.result } };
    // It did something at an earlier attempt, and does another thing now.
    if (run.code === "journal_mismatch" && (effect ?? "once") === "once") return { unknown: true };
    return { error: `The script failed: ${run.error}` };
  } catch (error) {
    if (error instanceof Unknown) return { unknown: true };
    throw error;
  } finally {
    isOver = true;
  }
}

const notHere = (name: string): Answer => ({ error: `${name} is not available here` });

/** Answered before the script itself would take it for late, so that what it learns is what is written down. */
async function inTime(name: string, owed: Promise<Answer>, lost: () => void): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const time = new Promise<"over">((resolve) => {
    timer = setTimeout(resolve, LIMITS.call_ms, "over");
  });
  const late = time.then(() => {
    lost();
    return { error: `${name} took longer than ${LIMITS.call_ms / 1000} seconds` };
  });
  return Promise.race([owed, late]).finally(() => clearTimeout(timer));
}

/** Whether a call that was begun may be made again, if it is the same. */
function mayRepeat(effect: Effect | null, name: string, args: Json, isSame: boolean): boolean {
  if (effect === "read" || effect === "idempotent") return true;
  if (!isSame) return false;
  return isRead(name, args) || (effect === null && isIdempotent(name, args));
}
const isIdempotent = (name: string, args: Json) =>
  name === "requests.request" && ["PUT", "DELETE"].includes((args as unknown as HttpRequest).method);

/** Whether making a call twice is as making it once. */
const isRead = (name: string, args: Json) =>
  name === "requests.request"
    ? ["GET", "HEAD"].includes((args as unknown as HttpRequest).method)
    : /\.(get|list|current)$/.test(name);

/** What is known of earlier attempts; the seed is the call's own. */
async function journalOf({ call, begun_at, outbound }: ToolAsk): Promise<Journal> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(call));
  const calls: Journal["calls"][number][] = [];
  for (const { n, name, hash, answer, at } of outbound) if (answer) calls[n] = { name, hash, answer, at };
  return { started_at: begun_at, seed: new DataView(hash).getInt32(0), calls };
}
