import * as v from "valibot";
import { allow } from "../../lib/auth/allow.ts";
import { wakeDispatcher } from "../../lib/events/remote.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import {
  createWebhook,
  deleteWebhook,
  getReceipt,
  getWebhook,
  listReceipts,
  listWebhooks,
  receiptToReplay,
  rotateSecret,
  updateWebhook,
} from "../../lib/inbound-webhooks/queries.ts";
import { receivedBody, replay } from "../../lib/inbound-webhooks/receive.ts";
import {
  createWebhookBody,
  inboundWebhook,
  type listed,
  listedReceipt,
  listReceiptsQuery,
  type ReceiptRow,
  rotateSecretBody,
  toInboundWebhook,
  toListedReceipt,
  toWebhookReceipt,
  updateWebhookBody,
  webhookReceipt,
  webhookReceiptPage,
} from "../../lib/inbound-webhooks/schema.ts";
import { listOf, listQuery, openCursor, openListCursor, paginateByCursor, paginateList } from "../../lib/paging.ts";

const webhooks = router();
const idOf = (text: string) => parseId("inbound_webhook", text);
const receiptOf = (text: string) => parseId("webhook_receipt", text);

webhooks.get(
  "/api/v1/inbound_webhooks",
  allow("webhooks:read"),
  valid("query", v.object(listQuery)),
  gives(200, listOf(inboundWebhook), 400),
  async (c) => {
    const page = await openListCursor(
      ...([c.env.ROOT_SECRETS, "inbound_webhooks", c.var.db.tenant, c.req.valid("query")] as const),
    );
    return c.var.answer(await paginateList(page, await listWebhooks(c.var.db, page), (row) => toInboundWebhook(row)));
  },
);

webhooks.post(
  "/api/v1/inbound_webhooks",
  allow("webhooks:write"),
  valid("json", createWebhookBody),
  once("inbound_webhook"),
  gives(201, inboundWebhook),
  async (c) => {
    const { row, shown } = await c.var.once(
      (db, id) => createWebhook(db, c.env, id, c.req.valid("json")),
      // Made before: its address and its secret aren't shown twice.
      async (db, id) => ({ row: await getWebhook(db, id), shown: undefined }),
    );
    return c.var.answer(toInboundWebhook(row, shown));
  },
);

webhooks.get("/api/v1/inbound_webhooks/:webhook", allow("webhooks:read"), gives(200, inboundWebhook), async (c) => {
  return c.var.answer(toInboundWebhook(await getWebhook(c.var.db, idOf(c.req.param("webhook")))));
});

webhooks.patch(
  "/api/v1/inbound_webhooks/:webhook",
  allow("webhooks:write"),
  valid("json", updateWebhookBody),
  gives(200, inboundWebhook),
  async (c) => {
    const row = await updateWebhook(c.var.db, idOf(c.req.param("webhook")), c.req.valid("json"));
    return c.var.answer(toInboundWebhook(row));
  },
);

webhooks.delete("/api/v1/inbound_webhooks/:webhook", allow("webhooks:write"), givesNothing(), async (c) => {
  await deleteWebhook(c.var.db, idOf(c.req.param("webhook")));
  return c.var.answer();
});

/** Once while both go on: sent again, it is a 409. */
webhooks.post(
  "/api/v1/inbound_webhooks/:webhook/rotate_secret",
  named("Rotate the secret and the address of an inbound webhook"),
  allow("webhooks:write"),
  valid("json", rotateSecretBody),
  gives(200, inboundWebhook, 409),
  async (c) => {
    const { row, shown } = await rotateSecret(
      ...([c.var.db, c.env, idOf(c.req.param("webhook")), c.req.valid("json")] as const),
    );
    return c.var.answer(toInboundWebhook(row, shown));
  },
);

webhooks.get(
  "/api/v1/inbound_webhooks/:webhook/receipts",
  named("List the receipts of an inbound webhook"),
  allow("webhooks:read"),
  valid("query", listReceiptsQuery),
  gives(200, webhookReceiptPage),
  async (c) => {
    const query = c.req.valid("query");
    const id = idOf(c.req.param("webhook"));
    const page = await openCursor(c.env.ROOT_SECRETS, `receipts of ${id}`, c.var.db.tenant, query);
    const rows = await listReceipts(c.var.db, id, query, page);
    const { has_more: _, ...answer } = await paginateByCursor(page, rows, toListedReceipt);
    return c.var.answer(answer);
  },
);

webhooks.get("/api/v1/webhook_receipts/:receipt", allow("webhooks:read"), gives(200, webhookReceipt), async (c) => {
  const row = await getReceipt(c.var.db, receiptOf(c.req.param("receipt")));
  return c.var.answer(toWebhookReceipt(row, receivedBody(row)));
});

/** Starts anew what its webhook starts now. Two round trips: what came, only the row knows. */
webhooks.post(
  "/api/v1/webhook_receipts/:receipt/replay",
  named("Replay a webhook receipt"),
  allow("webhooks:write"),
  once("webhook_receipt"),
  gives(201, listedReceipt),
  async (c) => {
    const { receipt, hook } = await receiptToReplay(c.var.db, receiptOf(c.req.param("receipt")));
    const row = await c.var.once<Pick<ReceiptRow, (typeof listed)[number]>>(
      (db, id) => replay(db, hook, id, receipt),
      (db, id) => getReceipt(db, id),
    );
    if (row.status === "started") c.executionCtx.waitUntil(wakeDispatcher(c.env, hook));
    return c.var.answer(toListedReceipt(row));
  },
);

export default webhooks;
