/** What is done with a computer, between its row and its provider. */
import { type Allowed, type Asked, openPlace } from "../auth/allow.ts";
import type { Bindings } from "../env.ts";
import { ApiError, unprocessable } from "../errors.ts";
import { Gate, inTurn } from "../http/gate.ts";
import { watch } from "../http/watch.ts";
import { type Command, type Provider, type Ran, Refused } from "./provider.ts";
import { providerOf } from "./providers.ts";
import { findComputer, noteUse, setStatus, settle } from "./queries.ts";
import type { ComputerRow } from "./schema.ts";
import { linesOf } from "./screen.ts";

/** A provider that doesn't answer is asked again by the sweep, for so long. */
const MAKE_MS = 600_000;
const ASK_MS = 1_000;
/** A command's longest time, and what its provider may take besides. */
const LEASE_MS = 700_000;
/** Commands at once of an org, and of all, in an isolate: `npm start` has one. */
const ofOrg = new Gate({ most: 2, lease_ms: LEASE_MS });
const ofAll = new Gate({ most: 8, lease_ms: LEASE_MS });

/** What its provider answers; a no as the refusal `code`, silence as what nobody can tell. */
async function asking<T>(env: Bindings, row: ComputerRow, code: string, ask: (provider: Provider) => Promise<T>) {
  try {
    return await ask(providerOf(env, row.provider));
  } catch (error) {
    if (error instanceof Refused) throw unprocessable(code, error.message);
    if (error instanceof ApiError) throw error;
    console.error(JSON.stringify({ computer: row.id, error: String(error) }));
    const silent = "The computer's provider didn't answer. Whether it did what it was asked, nobody knows.";
    throw new ApiError(503, "outcome_unknown", silent);
  }
}

/** Has a computer made, and writes down what became of it. Asked twice it makes one. Never throws. */
export async function provision(env: Bindings, row: ComputerRow): Promise<void> {
  const waking: Promise<void>[] = [];
  try {
    const place = await openPlace(env, row, (one) => waking.push(one));
    const made = await making(env, row);
    if (!made) return;
    if (!(await settle(place, row.id, made.status, made.error))) await providerOf(env, row.provider).destroy(row.id);
    await Promise.all(waking);
  } catch (error) {
    console.error(JSON.stringify({ computer: row.id, error: String(error) }));
  }
}

/** Null: nobody can tell yet. */
async function making(env: Bindings, row: ComputerRow) {
  try {
    await providerOf(env, row.provider).create(row.id);
    return { status: "ready", error: null } as const;
  } catch (error) {
    if (error instanceof Refused) return { status: "error", error: error.message } as const;
    console.error(JSON.stringify({ computer: row.id, error: String(error) }));
    if (Date.now() - Date.parse(row.created_at) < MAKE_MS) return null;
    return { status: "error", error: "Its provider hasn't answered for ten minutes." } as const;
  }
}

/** Ends a computer whose row is gone. Throws while that can't be confirmed. */
export const destroy = (env: Bindings, { id, provider }: { id: string; provider: string }): Promise<void> =>
  providerOf(env, provider).destroy(id);

/** Asks its provider how it stands. 422 before it was made. */
export async function refresh(
  env: Bindings,
  db: Allowed["Variables"]["db"],
  id: ComputerRow["id"],
): Promise<ComputerRow> {
  const row = await findComputer(db, id);
  const exists = await asking(env, row, "no_provider", (provider) => provider.exists(id));
  if (exists) return setStatus(db, id, "ready", null);
  if (row.status === "provisioning") throw unprocessable("not_provisioned", "This computer hasn't been made yet.");
  return row.status === "error" ? row : setStatus(db, id, "terminated", null);
}

type Caller = Asked & { var: Pick<Allowed["Variables"], "credential" | "db"> };

/**
 * Runs a command there when it is the org's turn, to its end though the client hangs up; `begin` is called when nothing but
 * the command is left. A credential that dies meanwhile, or whose org is suspended, ends it within 5 s. 422 where the
 * computer isn't ready.
 */
export async function exec(
  c: Caller,
  id: ComputerRow["id"],
  command: Command,
  begin: () => Promise<void>,
): Promise<Ran> {
  const { env } = c;
  const { db } = c.var;
  const row = await findComputer(db, id);
  if (row.status !== "ready") throw unprocessable("not_ready", `This computer is ${row.status}: it runs no commands.`);
  const inOrg = () =>
    ofAll.pass("", async () => {
      const read = () => findComputer(db, id);
      const ran = await watched(c, read, async (signal) => {
        await begin();
        return asking(env, row, "not_ready", (provider) => provider.exec(id, command, signal));
      });
      const noted = openPlace(env, row).then((place) => noteUse(place, id, linesOf(command.command, ran.output)));
      // It has run, whatever becomes of the row.
      await noted.catch((error) => console.error(JSON.stringify({ computer: id, error: String(error) })));
      return ran;
    });
  // The computer's org: an app's backend works for all of its orgs.
  return inTurn(ofOrg, c, inOrg, row);
}

/** Ends what runs when the credential may go on no longer, and throws why. */
async function watched<T>(
  c: Caller,
  read: () => Promise<unknown>,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const watching = watch(c, "computers:write", read);
  const abort = new AbortController();
  const running = run(abort.signal);
  let dead: unknown;
  try {
    for (let ended = false; !ended && !dead; ) {
      ended = await Promise.race([running.then(() => true), scheduler.wait(ASK_MS).then(() => false)]);
      if (!ended) await watching.ask().catch((error) => (dead = error));
    }
    if (!dead) return await running;
    abort.abort();
    await running.catch(() => {});
    throw dead;
  } finally {
    watching.leave();
  }
}
