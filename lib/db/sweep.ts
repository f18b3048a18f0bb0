import { CompiledQuery } from "kysely";
import { connect } from "./neon.ts";

/** A slice takes a tenth of a second. One that doesn't end is given up, whoever the role is that it runs as. */
const bounded = CompiledQuery.raw("select set_config('statement_timeout', '5s', true)");
/** Crons come every minute: a turn ends long before the next one begins. */
const TURN_MS = 20_000;

/**
 * Deletes, in every tenant, what is past its time, a slice a transaction, until nothing is left or the turn is over: the
 * next one goes on. Run by cron; of two at once, one waits for its next turn.
 */
export async function sweep(url: string, turnMs = TURN_MS): Promise<void> {
  const ask = connect(url);
  const ends = Date.now() + turnMs;
  let deleted: number;
  do {
    const [, slice] = await ask([bounded, CompiledQuery.raw("select app.sweep() as deleted")], "write");
    ({ deleted } = slice!.rows[0] as { deleted: number });
  } while (deleted > 0 && Date.now() < ends);
}
