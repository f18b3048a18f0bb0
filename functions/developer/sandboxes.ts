import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { getKey } from "../../lib/keys/queries.ts";
import { createKeyBody, key, toKey } from "../../lib/keys/schema.ts";
import { listMails } from "../../lib/mail/queries.ts";
import { listMailsQuery, mailList, toMail } from "../../lib/mail/schema.ts";
import { openListCursor, paginate, paginateList } from "../../lib/paging.ts";
import {
  createSandbox,
  createSandboxKey,
  deleteSandbox,
  getSandbox,
  listSandboxes,
} from "../../lib/sandboxes/queries.ts";
import { createSandboxBody, listSandboxesQuery, sandbox, sandboxPage, toSandbox } from "../../lib/sandboxes/schema.ts";

const sandboxes = router();

sandboxes.get(
  "/api/v1/sandboxes",
  allow("developer:read"),
  valid("query", listSandboxesQuery),
  gives(200, sandboxPage),
  async (c) => {
    const page = c.req.valid("query");
    return c.var.answer(paginate(page, await listSandboxes(c.var.db, page), toSandbox));
  },
);

sandboxes.post(
  "/api/v1/sandboxes",
  allow("developer:write"),
  valid("json", createSandboxBody),
  once("sandbox"),
  gives(201, sandbox, 409),
  async (c) => {
    const body = c.req.valid("json");
    const made = await c.var.once((db, id) => createSandbox(db, id, body), getSandbox);
    return c.var.answer(toSandbox(made.sandbox, made.keys));
  },
);

sandboxes.get("/api/v1/sandboxes/:sandbox", allow("developer:read"), gives(200, sandbox), async (c) => {
  const found = await getSandbox(c.var.db, parseId("sandbox", c.req.param("sandbox")));
  return c.var.answer(toSandbox(found.sandbox, found.keys));
});

sandboxes.delete("/api/v1/sandboxes/:sandbox", allow("developer:write"), givesNothing(), async (c) => {
  await deleteSandbox(c.var.db, parseId("sandbox", c.req.param("sandbox")));
  return c.var.answer();
});

/** The contract answers 200 here, not 201. */
sandboxes.post(
  "/api/v1/sandboxes/:sandbox/keys",
  allow("developer:write"),
  valid("json", createKeyBody),
  once("key"),
  gives(200, key),
  async (c) => {
    const sandbox = parseId("sandbox", c.req.param("sandbox"));
    const { type } = c.req.valid("json");
    const { row, full_key } = await c.var.once(
      (db, id) => createSandboxKey(db, sandbox, id, type),
      (db, id) => getKey(db.inSandbox(sandbox), id),
    );
    return c.var.answer(toKey(row, full_key));
  },
);

/** What it would have mailed of late: codes and links are read here. */
sandboxes.get(
  "/protected/api/v2/developer/apps/:app_id/sandboxes/:sandbox/mails",
  named("List the mails of a sandbox"),
  allow("developer:read"),
  valid("query", listMailsQuery),
  gives(200, mailList),
  async (c) => {
    const { db } = c.var;
    const sandbox = parseId("sandbox", c.req.param("sandbox"));
    const page = await openListCursor(c.env.ROOT_SECRETS, `mails ${sandbox}`, db.tenant, c.req.valid("query"));
    return c.var.answer(await paginateList(page, await listMails(db, sandbox, page), toMail));
  },
);

export default sandboxes;
