import * as v from "valibot";
import { allow } from "../../lib/auth/allow.ts";
import type { Bindings } from "../../lib/env.ts";
import { ApiError, forbidden } from "../../lib/errors.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { listQuery, openListCursor, paginateList } from "../../lib/paging.ts";
import { reached } from "../../lib/sessions/reach.ts";
import {
  createEndpoint,
  deleteEndpoint,
  enableEndpoint,
  eventsToReplay,
  getEndpoint,
  listDeliveries,
  listEndpoints,
  MOST_REPLAYED,
  mustBeEnabled,
  mustBeReachable,
  namedEvents,
  REPLAY_PAGE,
  rotateSecret,
  tooManyWait,
  updateEndpoint,
} from "../../lib/webhooks/queries.ts";
import { endpointOf } from "../../lib/webhooks/remote.ts";
import {
  createEndpointBody,
  deliveryList,
  type EndpointRow,
  enabledEndpoint,
  endpoint,
  endpointList,
  listDeliveriesQuery,
  replayBody,
  replayed,
  rotateSecretBody,
  tested,
  toDelivery,
  toEndpoint,
  updateEndpointBody,
} from "../../lib/webhooks/schema.ts";

const endpoints = router();
const idOf = (text: string) => parseId("webhook_endpoint", text);
const canLoop = (env: Bindings) => env.ALLOW_LOOPBACK !== undefined;
/** Its object sends as the row says from now on. One that can't be reached finds that out by itself, within seconds. */
const woken = async (env: Bindings, row: EndpointRow): Promise<EndpointRow> => {
  await endpointOf(env, row)
    .wake()
    .catch((error) => console.error(JSON.stringify({ object_of: row.id, error: String(error) })));
  return row;
};

endpoints.get(
  "/api/v1/webhook_endpoints",
  allow("webhooks:read"),
  valid("query", v.object(listQuery)),
  gives(200, endpointList, 400),
  async (c) => {
    const page = await openListCursor(
      ...([c.env.ROOT_SECRETS, "webhook_endpoints", c.var.db.tenant, c.req.valid("query")] as const),
    );
    const rows = await listEndpoints(c.var.db, page);
    return c.var.answer(await paginateList(page, rows, (row) => toEndpoint(row)));
  },
);

endpoints.post(
  "/api/v1/webhook_endpoints",
  allow("webhooks:write"),
  valid("json", createEndpointBody),
  once("webhook_endpoint"),
  gives(201, endpoint),
  async (c) => {
    const body = c.req.valid("json");
    mustBeReachable(body.url, canLoop(c.env));
    const { row, secret } = await c.var.once(
      (db, id) => createEndpoint(db, c.env.ROOT_SECRETS, id, body),
      async (db, id) => ({ row: await getEndpoint(db, id), secret: null }),
    );
    return c.var.answer(toEndpoint(row, secret));
  },
);

endpoints.get("/api/v1/webhook_endpoints/:endpoint", allow("webhooks:read"), gives(200, endpoint), async (c) => {
  return c.var.answer(toEndpoint(await getEndpoint(c.var.db, idOf(c.req.param("endpoint")))));
});

endpoints.patch(
  "/api/v1/webhook_endpoints/:endpoint",
  allow("webhooks:write"),
  valid("json", updateEndpointBody),
  gives(200, endpoint),
  async (c) => {
    const body = c.req.valid("json");
    mustBeReachable(body.url, canLoop(c.env));
    const row = await updateEndpoint(c.var.db, idOf(c.req.param("endpoint")), body);
    return c.var.answer(toEndpoint(await woken(c.env, row)));
  },
);

endpoints.delete("/api/v1/webhook_endpoints/:endpoint", allow("webhooks:write"), givesNothing(), async (c) => {
  await deleteEndpoint(c.var.db, idOf(c.req.param("endpoint")));
  return c.var.answer();
});

endpoints.post(
  "/api/v1/webhook_endpoints/:endpoint/rotate_secret",
  named("Rotate the secret of a webhook endpoint"),
  allow("webhooks:write"),
  valid("json", rotateSecretBody),
  gives(200, endpoint, 409),
  async (c) => {
    const [id, { overlap_seconds }] = [idOf(c.req.param("endpoint")), c.req.valid("json")];
    const { row, secret } = await rotateSecret(c.var.db, c.env.ROOT_SECRETS, id, overlap_seconds);
    return c.var.answer(toEndpoint(await woken(c.env, row), secret));
  },
);

endpoints.post(
  "/api/v1/webhook_endpoints/:endpoint/test",
  named("Send a sample to a webhook endpoint"),
  allow("webhooks:write"),
  gives(200, tested, 429, 503),
  async (c) => {
    const row = await getEndpoint(c.var.db, idOf(c.req.param("endpoint")));
    const attempt = await reached(endpointOf(c.env, row).test());
    if (attempt === "suspended") throw forbidden("org_suspended", "This org is suspended: nothing is sent.");
    if (attempt === "busy")
      throw new ApiError(429, "too_many_requests", "As much is under way as may be. Try again soon.");
    return c.var.answer(attempt);
  },
);

endpoints.post(
  "/api/v1/webhook_endpoints/:endpoint/enable",
  named("Enable a webhook endpoint"),
  allow("webhooks:write"),
  gives(200, enabledEndpoint),
  async (c) => {
    const found = await getEndpoint(c.var.db, idOf(c.req.param("endpoint")));
    const { row, missed } = await enableEndpoint(c.var.db, found);
    return c.var.answer({ ...toEndpoint(await woken(c.env, row)), missed });
  },
);

endpoints.get(
  "/api/v1/webhook_endpoints/:endpoint/deliveries",
  named("List the deliveries to a webhook endpoint"),
  allow("webhooks:read"),
  valid("query", listDeliveriesQuery),
  gives(200, deliveryList, 400),
  async (c) => {
    const id = idOf(c.req.param("endpoint"));
    const query = c.req.valid("query");
    const page = await openListCursor(c.env.ROOT_SECRETS, `deliveries of ${id}`, c.var.db.tenant, query);
    return c.var.answer(await paginateList(page, await listDeliveries(c.var.db, id, query, page), toDelivery));
  },
);

/** Page by page: each is on its way before the next is looked for. Asked again, what is on its way isn't sent twice. */
endpoints.post(
  "/api/v1/webhook_endpoints/:endpoint/replay",
  named("Replay events to a webhook endpoint"),
  allow("webhooks:write"),
  valid("json", replayBody),
  gives(200, replayed, 409, 410, 503),
  async (c) => {
    const row = await getEndpoint(c.var.db, idOf(c.req.param("endpoint")));
    mustBeEnabled(row);
    const asked = c.req.valid("json");
    const events = await namedEvents(c.var.db, row, asked);
    let count = 0;
    while (count < Math.min(events.length, MOST_REPLAYED)) {
      const page = events.slice(count, Math.min(count + REPLAY_PAGE, MOST_REPLAYED));
      if (!(await reached(endpointOf(c.env, row).replay(await eventsToReplay(c.var.db, row, page))))) break;
      count += page.length;
    }
    if (!count && events.length) throw tooManyWait();
    const next = events[count];
    const isBySequence = asked.from_sequence !== undefined;
    return c.var.answer({
      count,
      next_from_sequence: (isBySequence && next?.sequence) || null,
      next_from: (!isBySequence && next?.created_at) || null,
    });
  },
);

export default endpoints;
