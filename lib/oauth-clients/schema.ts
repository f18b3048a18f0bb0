import * as v from "valibot";
import { FULL_ACCESS, isScope, spell } from "../auth/permissions.ts";
import { NONE, type None, type Row, real } from "../db/schema.ts";
import { list, nullable, stamp, text } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { isRedirect } from "./redirects.ts";

const name = v.pipe(text(200), v.nonEmpty());
const redirect_uris = list(
  v.pipe(
    text(500),
    v.check(
      isRedirect,
      "must be https://…, http:// on 127.0.0.1, [::1] or localhost, or of a scheme such as com.example.app:/…",
    ),
  ),
  20,
);
const scopes = v.pipe(
  list(
    v.pipe(
      v.string(),
      v.check(
        (scope) => isScope(scope) && scope !== FULL_ACCESS,
        "is not a scope of a client: use resource:read, resource:write or resource:*",
      ),
    ),
    200,
    1,
  ),
  v.transform((scopes) => spell(scopes)),
);

export const createClientBody = v.strictObject({
  name,
  /** Where a browser is sent back to; a client that only asks by device needs none. */
  redirect_uris: v.optional(redirect_uris, []),
  /** The most that it may be granted. */
  scopes,
});
export type CreateClient = v.InferOutput<typeof createClientBody>;
export const updateClientBody = v.strictObject({
  name: v.optional(name),
  redirect_uris: v.optional(redirect_uris),
  scopes: v.optional(scopes),
});
export type UpdateClient = v.InferOutput<typeof updateClientBody>;
export const listClientsQuery = v.object(pageQuery);

export type ClientRow = Row<"oauth_clients">;

export const oauthClient = v.strictObject({
  id: v.string(),
  /** What the client calls itself at `/oauth/…`: it names the app, and the sandbox. */
  client_id: v.string(),
  sandbox: nullable,
  name: v.string(),
  redirect_uris: v.array(v.string()),
  scopes: v.array(v.string()),
  created_at: stamp,
  updated_at: stamp,
});
export const oauthClientPage = pageOf(oauthClient);

export const toOauthClient = (row: ClientRow): v.InferOutput<typeof oauthClient> => ({
  id: row.id,
  client_id: clientId({ app: row.app_id, sandbox: row.sandbox_id, client: row.id }),
  sandbox: real(row.sandbox_id),
  name: row.name,
  redirect_uris: row.redirect_uris,
  scopes: row.scopes,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

/** A client and where it lives. */
export type ClientName = { app: Id<"app">; sandbox: Id<"sandbox"> | None; client: Id<"oauth_client"> };

const ID = "[0-9A-Za-z]{22}";
const shape = new RegExp(`^cli_(${ID})_(${ID})?_(${ID})$`);

const clientId = ({ app, sandbox, client }: ClientName) =>
  ["cli", app.slice(4), sandbox === NONE ? "" : sandbox.slice(4), client.slice(4)].join("_");

/** The client that a `client_id` names: it says its app, so that it is found without a look-up. Null: it is malformed. */
export function parseClientId(text: string): ClientName | null {
  const [, app, sandbox, client] = text.match(shape) ?? [];
  if (!client) return null;
  return {
    app: `dap_${app}` as ClientName["app"],
    sandbox: sandbox ? (`dsb_${sandbox}` as Id<"sandbox">) : NONE,
    client: `cli_${client}` as ClientName["client"],
  };
}
