/** The one object of a tenant that starts what is due there. */
import type { Bindings } from "../env.ts";
import { objectOfTenant, type Place } from "../objects/stub.ts";

export interface SchedulerRemote extends Rpc.DurableObjectBranded {
  /** Something was planned or has ended there: looks what comes next. */
  wake(): Promise<void>;
}

export const schedulerOf = ({ SCHEDULER }: Bindings, place: Place) =>
  objectOfTenant(SCHEDULER, place) as unknown as Omit<SchedulerRemote, keyof Rpc.DurableObjectBranded>;
