/** What the object of an agent's runs, or of an automation's, does for the Workers: they hand it the row, which came through its tenant's door. */
import type { Row, RunStatus } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { type Employer, employerOf, type Refused, type Resolution, type Sender } from "../sessions/remote.ts";
import type { RunFrame } from "./frames.ts";

export type RunRow = Row<"agent_routine_runs">;

/** What only the object knows at once; Postgres hears of it a little later. */
export type RunView = Pick<
  RunRow,
  | "status"
  | "worker_status"
  | "attempt"
  | "result"
  | "structured_response"
  | "duration_ms"
  | "started_at"
  | "completed_at"
>;
/** Frames after a sequence. `last` is the newest one's; `status` of the journal, which is null where there is none. */
export type RunPage = { frames: RunFrame[]; last: number; status: RunStatus | "waiting" | null; view: RunView | null };

export interface RunsRemote extends Rpc.DurableObjectBranded {
  /**
   * Begins one that was admitted, once; looks whether there is something to do for one that has begun. Answers until when
   * what it does may take, in milliseconds; null: it waits for somebody, or is over.
   */
  start(row: RunRow): Promise<number | null>;
  /** What it is now; null where the object doesn't know it. */
  view(row: RunRow): Promise<RunView | null>;
  /** Ends it, whatever it does; once it is over, nothing. Null: the object doesn't know it. */
  cancel(row: RunRow): Promise<RunView | null>;
  decide(
    row: RunRow,
    command: string,
    decision: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): Promise<RunView | Refused>;
  resolve(row: RunRow, command: string, resolution: Resolution & { by: Sender }): Promise<RunView | Refused>;
  /** Where there is no frame yet it waits for one, so long as asked. */
  frames(row: RunRow, after: number, most: number, wait_ms: number): Promise<RunPage>;
  /** Something has come of what the run has handed to others, or may have. */
  hear(run: string): Promise<void>;
  /** Nothing is left of these runs. */
  forget(runs: string[]): Promise<void>;
  /** Ends the object: nothing is left of it. */
  erase(): Promise<void>;
}
/** As it is asked: all that passes is JSON, of which the types of RPC would make something else. */
type RunsAsked = Omit<RunsRemote, keyof Rpc.DurableObjectBranded>;

/** The object of a run: its automation's, or its agent's. Its class is of another Worker, so that the binding has no type of its own. */
export const runsOf = (env: Bindings, row: Employer): RunsAsked => employerOf(env, row) as unknown as RunsAsked;
