/** A tenant's Dispatcher: numbers what happened there, hands it to all who react, and admits the runs that came of it. */
import { mac } from "../auth/secrets.ts";
import { queueOf } from "../event-subscriptions/remote.ts";
import { MOST_NUMBERED } from "../events/log.ts";
import type { DispatcherRemote } from "../events/remote.ts";
import { TenantObject } from "../objects/tenant-object.ts";
import { admitRuns, startRuns } from "../runs/start.ts";
import { tellWaits } from "../runs/waits.ts";
import { endpointOf } from "../webhooks/remote.ts";
import { isNamed } from "../webhooks/rules.ts";
import { nextPage, number } from "./queries.ts";

export class Dispatcher extends TenantObject implements Omit<DispatcherRemote, keyof Rpc.DurableObjectBranded> {
  async wake(): Promise<void> {
    this.due("dispatch", Date.now());
  }

  async number(): Promise<void> {
    while ((await number(this.db)) === MOST_NUMBERED);
    this.due("dispatch", Date.now());
  }

  /**
   * Page by page: who reacts has each event before the cursor moves past it, so that after a crash a page comes again. A
   * run is made once for an event, and a queue takes one once. What is numbered and handed on while the org is suspended
   * starts when that is lifted.
   */
  protected override async whenDue(): Promise<void> {
    const { app_id, sandbox_id, org_id } = this.place;
    const tag = await mac(this.env.ROOT_SECRETS, ["webhooks", app_id, sandbox_id, org_id].join("."), "door");
    for (let through = 0; ; ) {
      const { numbered, events, subscriptions, waits, endpoints } = await nextPage(this.db, through, tag);
      const last = events.at(-1);
      if (last) {
        const deliveries = subscriptions.flatMap(({ hears, ...row }) => {
          const heard = events.filter(({ sequence }) => hears.includes(sequence!));
          return heard.length ? [queueOf(this.env, row).deliver(row, heard)] : [];
        });
        const webhooks = endpoints.flatMap(({ event_names, heard_since, heard_after, ...row }) => {
          const heard = events.filter(
            ({ name, position, sequence }) =>
              position > heard_since && sequence! > heard_after && isNamed(event_names, name),
          );
          return heard.length ? [endpointOf(this.env, { ...this.place, ...row }).deliver(heard)] : [];
        });
        const runs = [startRuns(this.db, events), tellWaits(this.db, this.env, events, waits)];
        await Promise.all([...runs, ...deliveries, ...webhooks]);
        through = last.sequence!;
      } else if (numbered < MOST_NUMBERED) break;
    }
    if (this.orgStatus === "suspended") return;
    const again = await admitRuns(this.db, this.env);
    if (again !== null) this.due("dispatch", again);
  }
}
