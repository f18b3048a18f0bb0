/** Every group in one Worker. */
import { sweep } from "../lib/db/sweep.ts";
import type { Bindings } from "../lib/env.ts";
import { worker } from "../lib/http/worker.ts";
import { groups } from "./groups.ts";

export { SessionObject } from "../lib/sessions/object.ts";

const all = worker(...Object.values(groups).flat());

export default {
  fetch: all.fetch,
  scheduled: (_controller, env) => sweep(env.DATABASE_URL),
} satisfies ExportedHandler<Bindings>;
