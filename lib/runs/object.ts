/** The runs of an agent, or of an automation: the only writer of their journals. */
import { TenantObject } from "../objects/tenant-object.ts";

export class RunsObject extends TenantObject {
  protected override async whenDue(): Promise<void> {}
}
