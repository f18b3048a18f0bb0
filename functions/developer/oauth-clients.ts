import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { createClient, deleteClient, getClient, listClients, updateClient } from "../../lib/oauth-clients/queries.ts";
import {
  createClientBody,
  listClientsQuery,
  oauthClient,
  oauthClientPage,
  toOauthClient,
  updateClientBody,
} from "../../lib/oauth-clients/schema.ts";
import { paginate } from "../../lib/paging.ts";

const clients = router();
const idOf = (text: string) => parseId("oauth_client", text);

clients.get(
  "/protected/api/v2/developer/apps/:app_id/oauth_clients",
  allow("developer:read"),
  valid("query", listClientsQuery),
  gives(200, oauthClientPage),
  async (c) => {
    const page = c.req.valid("query");
    return c.var.answer(paginate(page, await listClients(c.var.db, page), toOauthClient));
  },
);

clients.post(
  "/protected/api/v2/developer/apps/:app_id/oauth_clients",
  allow("developer:write"),
  valid("json", createClientBody),
  once("oauth_client"),
  gives(201, oauthClient),
  async (c) => {
    const row = await c.var.once((db, id) => createClient(db, id, c.req.valid("json")), getClient);
    return c.var.answer(toOauthClient(row));
  },
);

clients.get(
  "/protected/api/v2/developer/apps/:app_id/oauth_clients/:client",
  allow("developer:read"),
  gives(200, oauthClient),
  async (c) => {
    return c.var.answer(toOauthClient(await getClient(c.var.db, idOf(c.req.param("client")))));
  },
);

clients.patch(
  "/protected/api/v2/developer/apps/:app_id/oauth_clients/:client",
  allow("developer:write"),
  valid("json", updateClientBody),
  gives(200, oauthClient),
  async (c) => {
    const row = await updateClient(c.var.db, idOf(c.req.param("client")), c.req.valid("json"));
    return c.var.answer(toOauthClient(row));
  },
);

clients.delete(
  "/protected/api/v2/developer/apps/:app_id/oauth_clients/:client",
  allow("developer:write"),
  givesNothing(),
  async (c) => {
    await deleteClient(c.var.db, idOf(c.req.param("client")));
    return c.var.answer();
  },
);

export default clients;
