import { sweep } from "../../lib/db/sweep.ts";
import type { Bindings } from "../../lib/env.ts";
import { worker } from "../../lib/http/worker.ts";
import health from "./health.ts";
import openapi from "./openapi.ts";
import status from "./status.ts";
import wellKnown from "./well-known.ts";

export const routers = [health, wellKnown, status, openapi];
const root = worker(...routers);

export default {
  fetch: root.fetch,
  scheduled: (_controller, env) => sweep(env.DATABASE_URL),
} satisfies ExportedHandler<Bindings>;
