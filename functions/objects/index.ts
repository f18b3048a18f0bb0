/** Every Durable Object's class, and no route: whoever reaches an object binds this Worker, so it needs none of them. */
import { worker } from "../../lib/http/worker.ts";

export { Dispatcher } from "../../lib/dispatch/object.ts";
export { EventQueue } from "../../lib/event-subscriptions/object.ts";
export { AgentHealth } from "../../lib/health/object.ts";
export { Scheduler } from "../../lib/occurrences/scheduler.ts";
export { RunsObject } from "../../lib/runs/object.ts";
export { SessionObject } from "../../lib/sessions/object.ts";
export { WebhookEndpoint } from "../../lib/webhooks/object.ts";
export const routers = [];
export default worker(...routers);
