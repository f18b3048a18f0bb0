/** What sessions and runs say of themselves to their agent's health, beside what Postgres hears. */
import type { Row } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { objectOf, type Place } from "../objects/stub.ts";

/** Of so many, so many failed. */
export type Share = { total: number; failed: number };

/** Told again, it changes nothing. */
export type Report = {
  id: Row<"agent_sessions" | "agent_routine_runs">["id"];
  /** How far the telling has come: sorts as it goes on. */
  upto: string;
  /** When somebody is to look whether it goes on, in milliseconds; null: it waits for somebody, or is over. Absent: as before. */
  due?: number | null;
  /** It is over, and whether it failed: of what counts as a run. */
  ended?: { failed: boolean };
  /** Tool calls that have ended since it last said so. */
  tools: Share;
};

/** What is told in this order has come so far with these, of which there is at least one. */
export const uptoOf = (owed: readonly { name: string; sequence: number }[]): string => {
  const { sequence, name } = owed.at(-1)!;
  return `${String(sequence).padStart(12, "0")} ${name}`;
};

/** Tells the object of an agent's health. Its class is of another Worker, so that the binding has no type of its own. */
export const reportTo = ({ HEALTH }: Pick<Bindings, "HEALTH">, place: Place, agent: string, report: Report) => {
  const { app_id, sandbox_id, org_id } = place;
  const health = objectOf(HEALTH, { app_id, sandbox_id, org_id, id: agent });
  return (health as unknown as { report(report: Report): Promise<void> }).report(report);
};
