import { getApp, updateApp } from "../../lib/apps/queries.ts";
import { app, appList, toApp, updateAppBody } from "../../lib/apps/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";

const apps = router();

/** A key's one app: the list that a client may start from. */
apps.get("/protected/api/v2/developer/apps", allow("developer:read"), gives(200, appList), async (c) => {
  return c.var.answer({ data: [toApp(await getApp(c.var.db))] });
});

apps.get("/protected/api/v2/developer/apps/:app_id", allow("developer:read"), gives(200, app), async (c) => {
  return c.var.answer(toApp(await getApp(c.var.db)));
});

apps.patch(
  "/protected/api/v2/developer/apps/:app_id",
  allow("developer:write"),
  valid("json", updateAppBody),
  gives(200, app),
  async (c) => {
    return c.var.answer(toApp(await updateApp(c.var.db, c.req.valid("json"))));
  },
);

export default apps;
