import * as v from "valibot";
import { listOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";

const openapi = router();
const view = v.looseObject({ openapi: v.string() });

/** The document of every router there is. It was made of the routes when the Worker was built, but for the host. */
openapi.get("/openapi.json", named("Get this document"), gives(200, view), async (c) => {
  // Looked at when it is asked for, so that no other request of the Worker pays for it.
  const { default: document } = await import("../../dist/openapi.json");
  c.header("Cache-Control", "public, max-age=300");
  return c.var.answer({ ...document, servers: [{ url: listOf(c.env.ISSUERS)[0]! }] });
});

export default openapi;
