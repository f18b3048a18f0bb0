import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { createKey, getKey, listKeys, revokeKey } from "../../lib/keys/queries.ts";
import { createKeyBody, key, keyList, toKey } from "../../lib/keys/schema.ts";

const keys = router();

keys.get("/protected/api/v2/developer/apps/:app_id/keys", allow("developer:read"), gives(200, keyList), async (c) => {
  const rows = await listKeys(c.var.db);
  return c.var.answer({ data: rows.map((row) => toKey(row)) });
});

keys.post(
  "/protected/api/v2/developer/apps/:app_id/keys",
  allow("developer:write"),
  valid("json", createKeyBody),
  once("key"),
  gives(201, key),
  async (c) => {
    const { type } = c.req.valid("json");
    const { row, full_key } = await c.var.once((db, id) => createKey(db, id, type), getKey);
    return c.var.answer(toKey(row, full_key));
  },
);

keys.delete(
  "/protected/api/v2/developer/apps/:app_id/keys/:key",
  allow("developer:write"),
  gives(200, key),
  async (c) => {
    return c.var.answer(toKey(await revokeKey(c.var.db, parseId("key", c.req.param("key")))));
  },
);

export default keys;
