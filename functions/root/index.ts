import type { Bindings } from "../../lib/env.ts";
import { worker } from "../../lib/http/worker.ts";
import { sweep } from "../../lib/sweep.ts";
import health from "./health.ts";
import openapi from "./openapi.ts";
import status from "./status.ts";
import wellKnown from "./well-known.ts";

export const routers = [health, wellKnown, status, openapi];
const root = worker(...routers);

export default {
  fetch: root.fetch,
  scheduled: (_controller, env) => sweep(env),
} satisfies ExportedHandler<Bindings>;
