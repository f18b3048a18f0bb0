import * as v from "valibot";
import { listOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { describe } from "../../lib/http/openapi.ts";
import { router } from "../../lib/http/router.ts";
import { worker } from "../../lib/http/worker.ts";
import { routers as activity } from "../activity/index.ts";
import { routers as agents } from "../agents/index.ts";
import { routers as auth } from "../auth/index.ts";
import { routers as configs } from "../configs/index.ts";
import { routers as developer } from "../developer/index.ts";
import { routers as people } from "../people/index.ts";
import health from "./health.ts";
import status from "./status.ts";
import wellKnown from "./well-known.ts";

const openapi = router();
/** Every router there is: what the document tells of, and what functions/index.ts serves in one Worker. */
export const routers = [
  health,
  wellKnown,
  status,
  openapi,
  ...developer,
  ...auth,
  ...people,
  ...agents,
  ...activity,
  ...configs,
];

const document = v.looseObject({ openapi: v.string() });
let described: ReturnType<typeof describe> | undefined;

openapi.get("/openapi.json", gives(200, document), async (c) => {
  described ??= describe(worker(...routers), listOf(c.env.ISSUERS)[0]!);
  c.header("Cache-Control", "public, max-age=300");
  return c.var.answer({ ...(await described) });
});

export default openapi;
