/** Every group in one Worker. */
import { sweep } from "../lib/db/sweep.ts";
import type { Bindings } from "../lib/env.ts";
import { worker } from "../lib/http/worker.ts";
import { routers } from "./root/openapi.ts";

const all = worker(...routers);

export default {
  fetch: all.fetch,
  scheduled: (_controller, env) => sweep(env.DATABASE_URL),
} satisfies ExportedHandler<Bindings>;
