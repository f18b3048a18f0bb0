/** What the object of a webhook endpoint does for the Workers and the Dispatchers. */
import type { WebhookAttempt } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import type { EventRow } from "../events/schema.ts";
import type { Id } from "../ids.ts";
import { objectOf, type Place } from "../objects/stub.ts";
import type { DeliveryRow } from "./schema.ts";

/** An event that is to be sent again, with the delivery that there is of it. */
export type Again = {
  event: EventRow;
  delivery: Pick<DeliveryRow, "id" | "attempts" | "attempt_count" | "revision" | "created_at"> | null;
};

export interface WebhookRemote extends Rpc.DurableObjectBranded {
  /** Takes numbered events of one place in, each once, in their order; they are sent soon, those beyond what may wait not at all. */
  deliver(events: EventRow[]): Promise<void>;
  /** Sends these again: their attempts begin anew. False, and none of them, where so many can't wait. */
  replay(events: Again[]): Promise<boolean>;
  /** Its row is another one: the next attempt is made as that says. */
  wake(): Promise<void>;
  /** Sends a sample, now and once. */
  test(): Promise<WebhookAttempt | "suspended" | "busy">;
  /** Ends the object: nothing is left of it. */
  erase(): Promise<void>;
}

/** As it is asked: all that passes is JSON, of which the types of RPC would make something else. */
type WebhookAsked = Omit<WebhookRemote, keyof Rpc.DurableObjectBranded>;

/** The object of an endpoint. Its class is of another Worker, so that the binding has no type of its own. */
export const endpointOf = ({ WEBHOOKS }: Bindings, row: Place & { id: Id<"webhook_endpoint"> }): WebhookAsked =>
  objectOf(WEBHOOKS, row) as unknown as WebhookAsked;
