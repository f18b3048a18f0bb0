/** A tenant's Scheduler: starts what is due there. */
import { TenantObject } from "../objects/tenant-object.ts";
import type { SchedulerRemote } from "./remote.ts";

export class Scheduler extends TenantObject implements Omit<SchedulerRemote, keyof Rpc.DurableObjectBranded> {
  async wake(): Promise<void> {
    this.due("look", Date.now());
  }

  protected override async whenDue(): Promise<void> {}
}
