import { sql } from "kysely";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { Page } from "../paging.ts";
import type { ClientRow, CreateClient, UpdateClient } from "./schema.ts";

type ClientId = Id<"oauth_client">;
const telling = (event: "created" | "updated" | "deleted"): Telling => ({
  kind: `oauth_client.${event}`,
  title: sql`${`OAuth client ${event}: `} || name`,
});

/** The clients of the app in the credential's own partition, newest first. */
export const listClients = (db: TenantDb, page: Page) => db.page(db.selectFrom("oauth_clients").selectAll(), page);

export const getClient = (db: TenantDb, id: ClientId): Promise<ClientRow> =>
  db
    .selectFrom("oauth_clients")
    .selectAll()
    .where("id", "=", id)
    .executeTakeFirstOrThrow(() => notFound("oauth_client"));

export const createClient = (db: TenantDb, id: ClientId, client: CreateClient): Promise<ClientRow> =>
  db
    .telling(db.insertInto("oauth_clients", { id, ...client }), telling("created"))
    .executeTakeFirstOrThrow(() => notFound("oauth_client"));

/** What it was granted before stays as it was. */
export const updateClient = (db: TenantDb, id: ClientId, values: UpdateClient): Promise<ClientRow> =>
  db
    .telling(db.patch("oauth_clients", values).where("id", "=", id), telling("updated"))
    .executeTakeFirstOrThrow(() => notFound("oauth_client"));

/** Deletes it, and with it what it was granted: the very next request with a token of it is refused. */
export async function deleteClient(db: TenantDb, id: ClientId): Promise<void> {
  await db
    .telling(db.deleteFrom("oauth_clients").where("id", "=", id), telling("deleted"))
    .executeTakeFirstOrThrow(() => notFound("oauth_client"));
}
