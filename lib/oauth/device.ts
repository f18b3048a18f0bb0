/** Signing in on a device that has no browser (RFC 8628): somebody types its user code elsewhere, and says yes or no. */
import { sql } from "kysely";
import type { Asked, Credential } from "../auth/allow.ts";
import { type ApiKey, sha256 } from "../auth/keys.ts";
import { hex, mac } from "../auth/secrets.ts";
import { makeSigned } from "../auth/signed.ts";
import { refusal as databaseRefusal } from "../db/errors.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { listOf } from "../env.ts";
import { forbidden } from "../errors.ts";
import { base62 } from "../ids.ts";
import type { ClientName } from "../oauth-clients/schema.ts";
import { type Client, DEVICE, deviceText, openClient } from "./doors.ts";
import { DEVICE_S, INTERVAL_S, invalidScope } from "./schema.ts";
import { invalidGrant, refusal } from "./wire.ts";

/** Without vowels, so that no word comes of it, and without Y: 20 letters, 34 bits in eight of them. */
const LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const LENGTH = 8;
const NONCE_LENGTH = 22;

/** Eight letters, each as likely as any other. */
export function newUserCode(): string {
  let code = "";
  while (code.length < LENGTH) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte! < 240) code += LETTERS[byte! % LETTERS.length];
  }
  return code;
}

/** A user code as people type it, small or with spaces, as its letters. Null: it can't be one. */
export function readUserCode(text: string): string | null {
  const code = text.toUpperCase().replaceAll(/[\s-]/g, "");
  return code.length === LENGTH && [...code].every((letter) => LETTERS.includes(letter)) ? code : null;
}
export const showUserCode = (code: string) => `${code.slice(0, LENGTH / 2)}-${code.slice(LENGTH / 2)}`;

const hashOf = ({ app, sandbox }: Pick<ClientName, "app" | "sandbox">, code: string) =>
  sha256(["device", app, sandbox, code].join("."));

/** OAuth's refusal of a client that isn't there, or that its app doesn't let ask. */
export function mustAsk(client: Client | null): Client {
  if (!client) throw refusal("invalid_client", "There is no such client.");
  if (client.enabled) return client;
  throw refusal("third_party_oauth_not_enabled", "This app lets no OAuth client ask for access.", 403);
}

/** Makes what a device waits for, for a client. `scopes` null: all that the client may have. */
export async function startDevice(c: Asked, name: ClientName, scopes: string[] | null, beside: ApiKey | null) {
  const { env } = c;
  for (let attempt = 1; ; attempt++) {
    const code = newUserCode();
    const hash = await hashOf(name, code);
    const nonce = base62(crypto.getRandomValues(new Uint8Array(16)), NONCE_LENGTH);
    const { db, client } = await openClient(c, name, beside?.hash);
    const payload = JSON.stringify({ client: name.client, nonce, interval: INTERVAL_S });
    const asked = db.selectFrom("oauth_clients").where("id", "=", name.client);
    const within = scopes ? asked.where(sql<boolean>`scopes @> ${scopes}::text[]`) : asked;
    const waiting = db
      .insertUnder(within, "one_time_secrets", {
        ...{ kind: "device", hash, user_id: null },
        payload: sql<string>`${payload}::jsonb || jsonb_build_object('client_name', name,
          'scopes', coalesce(to_jsonb(${scopes}::text[]), to_jsonb(scopes)))`,
        expires_at: sql<string>`now() + make_interval(secs => ${DEVICE_S})`,
      })
      .returningAll();
    try {
      const [row] = await waiting.execute();
      mustAsk(client());
      if (!row) throw invalidScope();
    } catch (error) {
      // Another device has these letters.
      if (databaseRefusal(error)?.constraint === "one_time_secrets_pkey" && attempt < 3) continue;
      throw error;
    }
    // Whose app it is: who isn't signed in yet must know where to.
    const place = new URLSearchParams({ app: name.app, ...(name.sandbox !== "-" && { sandbox: name.sandbox }) });
    const verification_uri = `${listOf(env.ISSUERS)[0]}/device?${place}`;
    const user_code = showUserCode(code);
    return {
      device_code: await makeSigned(env.ROOT_SECRETS, DEVICE, deviceText(name, hash, nonce)),
      user_code,
      verification_uri,
      verification_uri_complete: `${verification_uri}&user_code=${user_code}`,
      ...{ expires_in: DEVICE_S, interval: INTERVAL_S },
    };
  }
}

type Waiting = { client_name: string; scopes: string[]; expires_at: string };
export type Decision = "approved" | "denied";

/**
 * What waits under a user code in the person's app, and with a decision, that it was made: once. Null: unknown, over or
 * decided.
 */
export async function readDevice(
  { env }: Asked,
  db: TenantDb,
  credential: Extract<Credential, { kind: "user" }>,
  text: string,
  decision: Decision | null = null,
): Promise<Waiting | null> {
  const { app, sandbox, org, user } = credential;
  // What can't be a code is looked for, too: the person's credential must live.
  const hash = await hashOf(credential, readUserCode(text) ?? "");
  const said = ["decide", app, sandbox, org, user, hex(hash), decision ?? ""].join(".");
  const tag = await mac(env.ROOT_SECRETS, said, "door");
  const { found } = await db.batch({
    found: db.call<{ decide_device: Waiting | null }>("decide_device", [user, hash, decision, tag], "decide_device"),
  });
  return found[0]!.decide_device;
}

/** As `readDevice`, for a program: 403 for a key, which is nobody, and 400 where nothing waits. */
export async function mustReadDevice(
  c: Asked,
  db: TenantDb,
  credential: Credential,
  text: string,
  decision: Decision | null = null,
): Promise<Waiting> {
  if (credential.kind === "key") {
    await db.enter();
    throw forbidden("no_user", "A secret key acts for no user. Ask with a user's access token.");
  }
  const waiting = await readDevice(c, db, credential, text, decision);
  if (!waiting) throw invalidGrant();
  return waiting;
}
