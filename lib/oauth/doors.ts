/** The doors of OAuth, whose credentials are no person's: a client's id, a code, a device's code. */
import { CompiledQuery } from "kysely";
import type { Asked } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { readPlaceToken } from "../auth/place-tokens.ts";
import { hex, mac } from "../auth/secrets.ts";
import { readSigned } from "../auth/signed.ts";
import { connect } from "../db/neon.ts";
import { NONE, type None, type Tenant } from "../db/schema.ts";
import type { Statement } from "../db/statements.ts";
import { type Door, TenantDb } from "../db/tenant-db.ts";
import { wakeDispatcher } from "../events/remote.ts";
import { type Id, isId, newId } from "../ids.ts";
import type { ClientName } from "../oauth-clients/schema.ts";

/** A client as whoever asks by it may know it: `enabled`, whether the app lets clients ask at all. */
export type Client = {
  id: Id<"oauth_client">;
  name: string;
  redirect_uris: string[];
  scopes: string[];
  app_name: string;
  enabled: boolean;
};

const open = (c: Asked, tenant: Tenant, enter: CompiledQuery, onEntered: Door["onEntered"]) =>
  new TenantDb(
    connect(c.env.DATABASE_URL, c.env.DATABASE),
    {
      ...{ enter, permission: "self", viewer: { kind: "object" }, onEntered },
      onTold: (place) => c.executionCtx.waitUntil(wakeDispatcher(c.env, place)),
    } as Door,
    tenant,
    "write",
  );

/**
 * The statement that opens the app's own place to who names one of its clients, and answers that. In a batch behind a
 * person's door it stands last. `beside`: the hash of a key that came along.
 */
export async function enteringClient(
  { env }: Asked,
  { app, sandbox, client }: ClientName,
  beside: Uint8Array | null = null,
): Promise<CompiledQuery<{ client: Client | null }> & Statement<{ client: Client | null }>> {
  const said = ["client", app, sandbox, client, beside ? hex(beside) : ""].join(".");
  const tag = await mac(env.ROOT_SECRETS, said, "door");
  const query = CompiledQuery.raw("select app.enter_client($1, $2, $3, $4, $5) as client", [
    ...[app, sandbox, client, beside, tag],
  ]) as CompiledQuery<{ client: Client | null }>;
  return { ...query, compile: () => query };
}

/** The door of a client. `client`, after the first trip: null, where there is none, and then nothing is open. */
export async function openClient(c: Asked, name: ClientName, beside: Uint8Array | null = null) {
  let client: Client | null = null;
  const tenant = { kind: "org", app: name.app, sandbox: name.sandbox, org: NONE } as const;
  const db = open(c, tenant, (await enteringClient(c, name, beside)).compile(), (row) => {
    client = row.client as Client | null;
  });
  return { db, client: () => client };
}

export const CODE = { kind: "oauth_code", prefix: "oac" } as const;
/** What a code is good for, besides itself. */
export type Bound = { client_id: string; redirect_uri: string; code_challenge: string };

/**
 * What is kept of a code: bound to the client, the address and the challenge, so that whoever brings it with anything else
 * has found nothing, and has not used it up.
 */
export const hashOfCode = (code: string, { client_id, redirect_uri, code_challenge }: Bound) =>
  sha256(JSON.stringify([code, client_id, redirect_uri, code_challenge]));

/** The door of an authorization code: the first trip uses it up; with one that was used before, what that gave ends. */
export async function openCode(c: Asked, code: string, bound: Bound) {
  const { app, sandbox, org } = await readPlaceToken(CODE.prefix, code);
  const hash = await hashOfCode(code, bound);
  const tag = await mac(c.env.ROOT_SECRETS, ["once", app, sandbox, org, CODE.kind, hex(hash)].join("."), "door");
  const enter = CompiledQuery.raw("select app.enter_code($1, $2, $3, $4, $5, $6)", [
    ...[app, sandbox, org, hash, newId("activity_feed_entry"), tag],
  ]);
  return { db: open(c, { kind: "org", app, sandbox, org }, enter, undefined), hash };
}

/** A device's code is nobody's secret but its MAC: it says what lies where, and the door takes that MAC. */
export const DEVICE = { prefix: "odc", purpose: "door", label: "device." } as const;
export const deviceText = ({ app, sandbox, client }: ClientName, hash: Uint8Array, nonce: string) =>
  [app, sandbox, client, hex(hash), nonce].join(".");

/** The door of a device's code. `why`, after the trip: OAuth's word where it opened nothing. Null: no code of ours. */
export async function openDevice(c: Asked, code: string) {
  const signed = await readSigned(c.env.ROOT_SECRETS, DEVICE, code);
  if (signed?.parts.length !== 5) return null;
  const [app, sandbox, client, hash, nonce] = signed.parts as [string, string, string, string, string];
  if (!isId("app", app) || !isId("oauth_client", client)) return null;
  let why: string | null = null;
  const enter = CompiledQuery.raw("select app.enter_device($1, $2, $3, decode($4, 'hex'), $5, $6) as why", [
    ...[app, sandbox, client, hash, nonce, signed.mac],
  ]);
  const tenant = { kind: "app", app, sandbox: sandbox as Id<"sandbox"> | None } as const;
  const db = open(c, tenant, enter, (row) => {
    why = row.why as string | null;
  });
  return { db, client, why: () => why };
}
