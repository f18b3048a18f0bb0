/** A tenant's Dispatcher: numbers what happened there, hands it to all who react, and admits the runs that came of it. */

import type { DispatcherRemote } from "../events/remote.ts";
import { TenantObject } from "../objects/tenant-object.ts";

export class Dispatcher extends TenantObject implements Omit<DispatcherRemote, keyof Rpc.DurableObjectBranded> {
  async wake(): Promise<void> {
    this.due("dispatch", Date.now());
  }

  protected override async whenDue(): Promise<void> {}
}
