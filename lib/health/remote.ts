/** What the object of an agent's health does for the Workers, and for those that work for the agent. */
import type { Row } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import type { Report, Share } from "../motion/report.ts";
import { objectOf, type Place } from "../objects/stub.ts";
import type { Checked, Known, Verdict } from "./queries.ts";
import type { HealthActionRow } from "./schema.ts";
import type { Score, Status } from "./score.ts";

/** A session, or a run (null), that doesn't go on; `since` is when it was asked first, ISO 8601. */
export type Stuck = { id: string | null; since: string };

/** How an agent is. `actions` are all that there is to do, as they are now. */
export type Judged = Score & {
  actions: HealthActionRow[];
  runs: Share;
  tools: Share;
  in_motion: number;
  stuck: Stuck[];
};

/** What the event of a change says. */
export type HealthChange = {
  agent: string;
  status: Status;
  score: number;
  previous_status: Status;
  previous_score: number;
  /** It is told because something is stuck. */
  stuck: boolean;
};

export interface HealthRemote extends Rpc.DurableObjectBranded {
  report(report: Report): Promise<void>;
  /** How the agent is, by what the database knows of it and by what the object does. What has changed it tells. */
  judge(known: Known): Promise<Judged>;
  /** Has an action's script, its server of tools, or the agent's own health say whether it is done. */
  verify(action: Checked): Promise<Verdict>;
  /** Ends the object: nothing is left of it. */
  erase(): Promise<void>;
}

/** The object of an agent's health. Its class is of another Worker, so that the binding has no type of its own. */
export const healthOf = ({ HEALTH }: Pick<Bindings, "HEALTH">, row: Place & { id: string }) =>
  objectOf(HEALTH, row) as unknown as Omit<HealthRemote, keyof Rpc.DurableObjectBranded>;

/** The same, of the agent that a row hangs on. */
export const healthOfAgent = (env: Pick<Bindings, "HEALTH">, row: Place & Pick<Row<"agent_sessions">, "agent_id">) =>
  healthOf(env, { ...row, id: row.agent_id });
