import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { parseId } from "../../lib/ids.ts";
import { reached } from "../../lib/sessions/reach.ts";
import { deliveryToReplay, getDelivery, tooManyWait } from "../../lib/webhooks/queries.ts";
import { endpointOf } from "../../lib/webhooks/remote.ts";
import { toWholeDelivery, wholeDelivery } from "../../lib/webhooks/schema.ts";

const deliveries = router();
const idOf = (text: string) => parseId("webhook_delivery", text);

deliveries.get(
  "/api/v1/webhook_deliveries/:delivery",
  named("Get a delivery"),
  allow("webhooks:read"),
  gives(200, wholeDelivery),
  async (c) => c.var.answer(toWholeDelivery(await getDelivery(c.var.db, idOf(c.req.param("delivery"))))),
);

deliveries.post(
  "/api/v1/webhook_deliveries/:delivery/replay",
  named("Replay a delivery"),
  allow("webhooks:write"),
  gives(200, wholeDelivery, 409, 410, 422, 503),
  async (c) => {
    const { delivery, endpoint, event } = await deliveryToReplay(c.var.db, idOf(c.req.param("delivery")));
    if (!(await reached(endpointOf(c.env, endpoint).replay([{ event, delivery }])))) throw tooManyWait();
    return c.var.answer(toWholeDelivery({ ...delivery, status: "pending" }));
  },
);

export default deliveries;
