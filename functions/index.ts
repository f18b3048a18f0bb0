/** Every group in one Worker. */

import type { Bindings } from "../lib/env.ts";
import { worker } from "../lib/http/worker.ts";
import { sweep } from "../lib/sweep.ts";
import { groups } from "./groups.ts";

export { Dispatcher } from "../lib/dispatch/object.ts";
export { EventQueue } from "../lib/event-subscriptions/object.ts";
export { AgentHealth } from "../lib/health/object.ts";
export { Scheduler } from "../lib/occurrences/scheduler.ts";
export { RunsObject } from "../lib/runs/object.ts";
export { ScriptComputer } from "../lib/scripts/computer.ts";
export { SessionObject } from "../lib/sessions/object.ts";
export { WebhookEndpoint } from "../lib/webhooks/object.ts";

const all = worker(...Object.values(groups).flat());

export default {
  fetch: all.fetch,
  scheduled: (_controller, env) => sweep(env),
} satisfies ExportedHandler<Bindings>;
