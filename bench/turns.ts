/** Measuring: targets take turns under load, and what each turn says is held against the others'. */
import type { ChildProcess } from "node:child_process";
import type { Load, Measured, Request } from "./load.ts";

const WARM_UP_S = 1;
/** Many short turns, so that what else happens on the machine happens to an operation and its floors alike. */
const TURNS = 16;
export const TURN_S = 0.25;

export type Way = "direct" | "entry" | "walls" | "floor" | "bare";
export type Target = { name: string; way: Way; origin: string; pid: number; requests: Request[]; connections: number };
export type Figures = { rate: number; p50: number; p99: number; cpu_ms: number | null; turns: Turn[] };
type Turn = { rate: number; p50: number };

/** The process that loads: one for the whole run, one load at a time. */
export function load(child: ChildProcess, wanted: Load): Promise<Measured> {
  return new Promise((resolve, reject) => {
    const gone = () => reject(new Error("the loading process ended"));
    child.once("exit", gone);
    child.once("message", (answer: Measured | { error: string }) => {
      child.off("exit", gone);
      if ("error" in answer) reject(new Error(answer.error));
      else resolve(answer);
    });
    child.send(wanted);
  });
}

/** Measures targets in turns, every second time in reverse. */
export async function inTurns(child: ChildProcess, targets: Target[]): Promise<Map<Target, Figures>> {
  const send = (target: Target, seconds: number) =>
    load(child, { ...target, seconds }).catch((error: Error) => {
      throw new Error(`${target.name} (${target.way}): ${error.message}`);
    });
  const found = new Map(targets.map((target) => [target, [] as Measured[]]));
  for (const target of targets) await send(target, WARM_UP_S);
  for (let i = 0; i < TURNS; i++) {
    for (const target of i % 2 ? targets.toReversed() : targets) found.get(target)!.push(await send(target, TURN_S));
  }
  return new Map(targets.map((target) => [target, figuresOf(found.get(target)!)]));
}

/** A table whose first two columns are words and whose others are figures. */
export function print(table: string[][]) {
  const widths = table[0]!.map((_, i) => Math.max(...table.map((row) => row[i]!.length)));
  const line = (row: string[]) =>
    row.map((cell, i) => (i < 2 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("  ");
  console.log(`\n${table.map(line).join("\n")}`);
}

/** The value below which a share of them lies. */
export function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}
const median = (values: number[]) => quantile(values, 0.5);

function figuresOf(turns: Measured[]): Figures {
  const all = turns.flatMap(({ latencies_ms }) => latencies_ms);
  const sum = (of: (turn: Measured) => number) => turns.reduce((total, turn) => total + of(turn), 0);
  const isKnown = turns.every(({ cpu_ms }) => cpu_ms !== null);
  return {
    rate: all.length / sum(({ seconds }) => seconds),
    p50: median(all),
    p99: quantile(all, 0.99),
    cpu_ms: isKnown ? sum(({ cpu_ms }) => cpu_ms!) / all.length : null,
    turns: turns.map(({ latencies_ms, seconds }) => ({
      rate: latencies_ms.length / seconds,
      p50: median(latencies_ms),
    })),
  };
}

/** How two targets compare: the median of what each turn says, since a single turn may have been disturbed. */
export const compare = (a: Figures, b: Figures, by: (a: Turn, b: Turn) => number) =>
  median(a.turns.map((turn, i) => by(turn, b.turns[i]!)));
