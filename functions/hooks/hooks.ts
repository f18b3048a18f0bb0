import { openHook } from "../../lib/auth/allow.ts";
import { wakeDispatcher } from "../../lib/events/remote.ts";
import { isShort, readDelivery } from "../../lib/http/body.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { receive } from "../../lib/inbound-webhooks/receive.ts";
import { accepted, challenge } from "../../lib/inbound-webhooks/schema.ts";

const hooks = router();

/**
 * Where the world tells. The token in the address is the credential, and with it the signature over the body as it came;
 * of what is long the one is looked at before a byte of the other. 202 says that it was committed. Slack's challenge comes back as 200.
 */
hooks.post(
  "/hooks/:token",
  named("Send to an inbound webhook"),
  gives(200, challenge),
  gives(202, accepted, 401, 403, 413, 429, 503),
  async (c) => {
    const { db, hash } = await openHook(c, c.req.param("token"));
    const delivery = { headers: c.req.raw.headers, isShort: isShort(c), read: () => readDelivery(c) };
    const { hook, receipt, challenge } = await receive(db, c.env.ROOT_SECRETS, hash, delivery);
    if (receipt.status === "started") c.executionCtx.waitUntil(wakeDispatcher(c.env, hook));
    if (challenge !== null) return c.json({ challenge });
    return c.var.answer({ receipt: receipt.id });
  },
);

export default hooks;
