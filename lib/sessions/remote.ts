/** What a session's object does for the Workers: they hand it the row, which came through its tenant's door. */
import type { Row, SessionStatus } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { objectOf, type Place } from "../objects/stub.ts";
import type { InboxMessage, SessionFrame } from "./frames.ts";

export type SessionRow = Row<"agent_sessions">;

/** What only the object knows at once; Postgres hears of it a little later. `inbox`: see `message`. */
export type SessionView = {
  status: SessionStatus;
  started_at: string | null;
  completed_at: string | null;
  error: string | null;
  result: Record<string, unknown> | null;
  inbox: InboxMessage[];
};

export type Sender = { type: "user" | "agent" | "app"; id: string | null };

export type NewMessage = {
  role: "user" | "system";
  content: string;
  metadata: Record<string, unknown>;
  sender: Sender;
  on_busy: "enqueue" | "interrupt" | "reject";
  /** Under which it is one message, however often it is sent: whose key, the key, and a MAC of the request. */
  key: { subject: string; key: string; fingerprints: string[] } | null;
};

/** Why the object won't: a refusal of the wire, its status and its code. */
export type Refused = { refused: { status: 404 | 409 | 422 | 429; code: string; message: string } };

export type Resolution = { outcome: "happened"; result?: unknown } | { outcome: "retry" } | { outcome: "give_up" };

export interface SessionRemote extends Rpc.DurableObjectBranded {
  /** What it is now. One that nobody has taken up yet begins. */
  view(row: SessionRow): Promise<SessionView>;
  /** Takes it up, too, but no step: that is for `wake`, which ought to come before `HELD_MS` are over. */
  begin(row: SessionRow): Promise<void>;
  /** `inbox` holds what is in no prompt yet, oldest first, the first 100, and the message itself. */
  message(row: SessionRow, message: NewMessage): Promise<SessionView | Refused>;
  /** Ends it, whatever it does; once it has ended, nothing. */
  cancel(row: SessionRow): Promise<SessionView>;
  decide(
    row: SessionRow,
    call: string,
    decision: { approved: boolean; arguments_hash: string; note: string | null; by: Sender },
  ): Promise<SessionView | Refused>;
  resolve(row: SessionRow, call: string, resolution: Resolution & { by: Sender }): Promise<SessionView | Refused>;
  /**
   * The frames after a sequence, at most about a megabyte. Where there is none yet it waits for one, so long as asked.
   * `last` is the newest one's sequence.
   */
  frames(
    row: SessionRow,
    after: number,
    wait_ms: number,
  ): Promise<{ frames: SessionFrame[]; last: number; status: SessionStatus }>;
  /** What it is held to, as it was when it began, without a secret: for the tape. Null while it is pending. */
  pinned(row: SessionRow): Promise<({ instructions: string } & Record<string, unknown>) | null>;
  /**
   * Looks whether there is something to do. Answers until when the step that it is at may take, in milliseconds; null: it
   * waits for somebody, or is over.
   */
  wake(row: SessionRow): Promise<number | null>;
  /** Ends the object: nothing is left of it. */
  erase(): Promise<void>;
}

/** The run that a session works for, as far as it says whose it is. */
export type Employer = Pick<Row<"agent_routine_runs">, "agent_id" | "automation_id" | keyof Place>;
/** The object of a run, its automation's or its agent's, whichever agent's sessions work for it: what these tell it. */
export const employerOf = ({ RUNS }: Bindings, { agent_id, automation_id, app_id, sandbox_id, org_id }: Employer) =>
  objectOf(RUNS, { app_id, sandbox_id, org_id, id: (automation_id ?? agent_id)! }) as unknown as {
    hear(run: string): Promise<void>;
  };

/** As it is asked: all that passes is JSON, of which the types of RPC would make something else. */
type SessionAsked = Omit<SessionRemote, keyof Rpc.DurableObjectBranded>;

/** The object of a session. Its class is of another Worker, so that the binding has no type of its own. */
export const sessionOf = ({ SESSIONS }: Bindings, row: Pick<SessionRow, "id" | keyof Place>): SessionAsked =>
  objectOf(SESSIONS, row) as unknown as SessionAsked;
