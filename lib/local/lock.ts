import { randomUUID } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Holder {
  pid: number;
  /** When the process began, in ticks since the machine's start; null where the system does not tell. */
  started: string | null;
  /** Tells this lock from all that were and will be. */
  id: string;
}

const hasCode = (error: unknown, code: string) => error instanceof Error && "code" in error && error.code === code;

/** The state and start of a process, from what follows its name: that may hold spaces and parentheses itself. */
function statOf(pid: number): { state: string | undefined; started: string | undefined } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0], started: fields[19] };
  } catch {
    return null;
  }
}

const startOf = (pid: number): string | null => statOf(pid)?.started ?? null;

/** A process that nobody has buried yet holds nothing, and neither does one that merely got the same number. */
function isAlive({ pid, started }: Holder): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, "EPERM");
  }
  const stat = statOf(pid);
  if (stat && /[ZX]/.test(stat.state ?? "")) return false;
  return started === null || stat === null || stat.started === started;
}

/** A lock is written whole, so one that cannot be read is left from a crash of the machine: nobody holds it. */
const damaged: Holder = { pid: 0, started: null, id: "damaged" };

const isHolder = (value: unknown): value is Holder =>
  typeof value === "object" &&
  value !== null &&
  ["pid", "started", "id"].every((field) => field in value) &&
  /^[\da-f-]{36}$/.test(String((value as Holder).id));

function readHolder(path: string): Holder | null {
  try {
    const holder: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isHolder(holder) ? holder : damaged;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return null;
    if (error instanceof SyntaxError) return damaged;
    throw error;
  }
}

/** Puts the file in its place, whole from its first moment on, unless there is one. */
function create(path: string, draft: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    throw error;
  }
}

function remove(path: string, id: string) {
  if (readHolder(path)?.id === id) rmSync(path, { force: true });
}

/**
 * Takes the lock for `mine`, or answers who has it. A stale lock is replaced only by the holder of a second lock, whose
 * name is the stale one's id: so of all who found it stale only one acts, and never on the lock of its successor.
 */
function take(path: string, mine: Holder): Holder | null {
  const draft = `${path}.${randomUUID()}`;
  writeFileSync(draft, JSON.stringify(mine), { flag: "wx" });
  try {
    while (!create(path, draft)) {
      const holder = readHolder(path);
      if (!holder) continue;
      if (isAlive(holder)) return holder;
      const right = `${path}.${holder.id}`;
      const rival = take(right, mine);
      if (rival) return rival;
      try {
        if (readHolder(path)?.id !== holder.id) continue;
        renameSync(draft, path);
        return null;
      } finally {
        remove(right, mine.id);
      }
    }
    return null;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Locks a data directory for this process; answers what releases it. The embedded Postgres has no lock of its own, and
 * two processes in one directory lose rows without a word. What a killed process left behind is taken over.
 */
export function lockDataDir(dir: string): () => void {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, "lock");
  const mine: Holder = { pid: process.pid, started: startOf(process.pid), id: randomUUID() };
  const holder = take(path, mine);
  if (holder) {
    const who = holder.pid === process.pid ? `this process (${holder.pid})` : `the process ${holder.pid}`;
    throw new Error(
      `The data directory ${dir} is in use by ${who}. Stop that one first, or choose another directory.` +
        ` If no such process uses it, delete ${path}.`,
    );
  }
  return () => remove(path, mine.id);
}
