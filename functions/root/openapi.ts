import type { Hono } from "hono";
import * as v from "valibot";
import { listOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { describe } from "../../lib/http/openapi.ts";
import { type Env, router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { worker } from "../../lib/http/worker.ts";
import { groups } from "../groups.ts";

const document = v.looseObject({ openapi: v.string() });

/** The document of every router there is: root's own, this one, and those of all groups. */
export function openapi(own: Hono<Env>[]): Hono<Env> {
  const openapi = router();
  let described: ReturnType<typeof describe> | undefined;
  openapi.get("/openapi.json", named("Get this document"), gives(200, document), async (c) => {
    described ??= describe(worker(...own, openapi, ...Object.values(groups).flat()), listOf(c.env.ISSUERS)[0]!);
    c.header("Cache-Control", "public, max-age=300");
    return c.var.answer({ ...(await described) });
  });
  return openapi;
}
