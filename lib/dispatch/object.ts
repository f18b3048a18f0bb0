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
import { nextPage, number, PAGE, passed } from "./queries.ts";

export class Dispatcher extends TenantObject implements Omit<DispatcherRemote, keyof Rpc.DurableObjectBranded> {
  /** It has not looked yet: what another process has begun may be half done. */
  #isFresh = true;

  async wake(): Promise<void> {
    this.due("dispatch", Date.now());
    // By a name of its own: whoever was invoked waits for no page.
    this.due("admit", Date.now());
  }

  async number(): Promise<void> {
    while ((await number(this.db)) === MOST_NUMBERED);
    await this.wake();
  }

  protected override async whenDue(name: string): Promise<void> {
    if (name === "dispatch") {
      if (await this.#handOn()) this.due("admit", Date.now());
      return;
    }
    const again = await admitRuns(this.db, this.env, () => this.orgStatus !== "suspended", this.#isFresh);
    this.#isFresh = false;
    // By a name of its own, too: who was woken meanwhile doesn't wait that long.
    if (again !== null) this.due("admit again", again);
  }

  /**
   * Page by page: who reacts has each event before the cursor moves past it, so that after a crash a page comes again. A
   * run is made once for an event, and a queue takes one once. What is handed on while the org is suspended starts when
   * that is lifted. Answers whether it may have made runs.
   */
  async #handOn(): Promise<boolean> {
    let made = false;
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
        const starting = startRuns(this.db, events);
        const waiting = tellWaits(this.db, this.env, events, waits);
        await Promise.all([starting, waiting, ...deliveries, ...webhooks]);
        made = (await starting) || made;
        through = last.sequence!;
      }
      if (events.length < PAGE && numbered < MOST_NUMBERED) {
        // What is committed from here on wakes it anew.
        if (last) await passed(this.db, through).execute();
        return made;
      }
    }
  }
}
