/** What the operator's commands have in common: an end that undoes what was begun, and sentences in place of stacks. */
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { lockDataDir } from "./lock.ts";
import type { Database } from "./neon.ts";

/** Something that only the operator can put right, said in a sentence. */
export class Refusal extends Error {}

export const DATA_DIR = resolve(process.env.AGENTRY_DATA ?? ".agentry");

const undo: (() => unknown)[] = [];

/** Has `step` run when the command ends, however it ends; the last one first. */
export const onEnd = (step: () => unknown) => undo.push(step);

let ending: Promise<never> | undefined;

/** Ends the command when all that was begun is undone. A terminal sends its signal to npm and to us, and npm passes it on. */
export function end(code: number): Promise<never> {
  ending ??= undoAll().then(() => process.exit(code));
  return ending;
}

async function undoAll() {
  for (let step = undo.pop(); step; step = undo.pop()) {
    try {
      await step();
    } catch (error) {
      console.error((error as Error).message);
    }
  }
}

/** A bug keeps its stack, but not its other properties: those of a malformed connection string hold the password. */
export async function fail(error: unknown): Promise<never> {
  const { name, message, stack } = error as Error;
  const isTold = error instanceof Refusal || ["Unavailable", "DatabaseError"].includes(name);
  console.error(isTold ? message : stack);
  return end(1);
}

/** Runs a command to its end. */
export const command = (run: () => Promise<void>): Promise<never> => run().then(() => end(0), fail);

/** The data directory of this machine, for its owner's eyes alone, and nobody else's while this process uses it. */
export function openDataDir(): string {
  const dir = DATA_DIR;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const { uid } = statSync(dir);
  if (process.getuid && uid !== process.getuid()) {
    throw new Refusal(
      `The data directory ${dir} belongs to another user. Choose one of your own: AGENTRY_DATA=<directory>`,
    );
  }
  // The embedded Postgres makes its files readable for all: nobody else comes this far.
  chmodSync(dir, 0o700);
  try {
    onEnd(lockDataDir(dir));
  } catch (error) {
    throw new Refusal((error as Error).message);
  }
  return dir;
}

/** The embedded database of a data directory. */
export async function openEmbedded(dir: string): Promise<Database> {
  const [{ openPglite }, { readSchema }] = await Promise.all([import("./pglite.ts"), import("./schema.ts")]);
  const database = await openPglite(join(dir, "pg"), readSchema());
  onEnd(() => database.close());
  return database;
}

/** The database that a variable names. No refusal repeats the connection string: it holds a password. */
export async function openNamed(variable: string, url: string): Promise<Database> {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Refusal(
      `${variable} is no connection string. One looks like postgres://user:password@host:5432/database, ` +
        "with what is no letter or digit of the password percent-encoded.",
    );
  }
  const { openPostgres } = await import("./postgres.ts");
  const database = await openPostgres(url).catch((error: Error) => {
    if (error.name !== "Unavailable") throw error;
    const { code, message } = (error.cause ?? error) as Error & { code?: string };
    throw new Refusal(`The database of ${variable} can't be reached: ${message || code}`);
  });
  onEnd(() => database.close());
  return database;
}
