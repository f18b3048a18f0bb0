/** The queue of an event subscription. */
import { TenantObject } from "../objects/tenant-object.ts";

export class EventQueue extends TenantObject {
  protected override async whenDue(): Promise<void> {}
}
