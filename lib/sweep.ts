/** What the cron does every minute. */
import { makeComputers } from "./computers/sweep.ts";
import { destroy } from "./computers/use.ts";
import { sweep as deletePast } from "./db/sweep.ts";
import { wakeDispatchers } from "./dispatch/sweep.ts";
import type { Bindings } from "./env.ts";
import { queueOf } from "./event-subscriptions/remote.ts";
import { healthOf } from "./health/remote.ts";
import type { Id } from "./ids.ts";
import { forEach } from "./objects/each.ts";
import type { Place } from "./objects/stub.ts";
import { askSweep, inBatches } from "./objects/sweep.ts";
import { wakeSchedulers } from "./occurrences/sweep.ts";
import { runsOf } from "./runs/remote.ts";
import { wakeRuns } from "./runs/sweep.ts";
import { sessionOf } from "./sessions/remote.ts";
import { wakeSessions } from "./sessions/sweep.ts";
import { warnOfCertificates } from "./sso/sweep.ts";
import { endpointOf } from "./webhooks/remote.ts";
import { wakeEndpoints } from "./webhooks/sweep.ts";

/** Objects are woken first, within their minute, and erased when the rows are gone; neither waits for the other's fault. */
export async function sweep(env: Bindings): Promise<void> {
  const rows = deletePast(env.DATABASE_URL);
  const waking = [wakeSessions(env), wakeRuns(env), wakeDispatchers(env), wakeSchedulers(env), wakeEndpoints(env)];
  const turns = await Promise.allSettled([
    ...[...waking, makeComputers(env), warnOfCertificates(env)],
    ...[rows, rows.finally(() => eraseObjects(env))],
  ]);
  for (const turn of turns) if (turn.status === "rejected") throw turn.reason;
}

type Left = Place &
  (
    | { kind: "agent_session"; id: Id<"agent_session"> }
    | { kind: "event_subscription"; id: Id<"event_subscription"> }
    | { kind: "webhook_endpoint"; id: Id<"webhook_endpoint"> }
    | { kind: "agent"; id: Id<"agent"> }
    // The part is its provider.
    | { kind: "agent_computer"; id: Id<"agent_computer">; parts: [string] }
    // Of an automation, too: the id is its object's.
    | { kind: "agent_routine_run"; id: Id<"agent">; parts: string[] }
  ) & {
    n: number;
  };
async function eraseOne(env: Bindings, row: Left): Promise<void> {
  switch (row.kind) {
    case "agent_session":
      return sessionOf(env, row).erase();
    case "event_subscription":
      return queueOf(env, row).erase();
    case "webhook_endpoint":
      return endpointOf(env, row).erase();
    case "agent":
      await healthOf(env, row).erase();
      return runsOf(env, { ...row, agent_id: row.id, automation_id: null }).erase();
    case "agent_computer":
      return destroy(env, { id: row.id, provider: row.parts[0] });
    case "agent_routine_run":
      return runsOf(env, { ...row, agent_id: row.id, automation_id: null }).forget(row.parts);
  }
}

/** Erases the objects whose rows are gone. One that can't be erased now comes again. */
const eraseObjects = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const left = await askSweep<Left>(env, "select * from app.claim_erasures($1, $2)", most);
    const done = await forEach(left, (row) => eraseOne(env, row));
    if (done.length) await askSweep(env, "select app.erased($1, $2)", `{${done.map(({ n }) => n)}}`);
    return left.length;
  });
