/**
 * A login by an org's provider: begun here, answered by the provider, finished here. What was begun is told by the hash of
 * the request's ID (of OIDC the state), and bound to the browser by a cookie, whose value is a secret that works once: what
 * the provider says is parked under it, and only the browser that began can take it.
 */
import { sql } from "kysely";
import type { SsoPlace } from "../auth/allow.ts";
import { sha256 } from "../auth/keys.ts";
import { newPlaceToken } from "../auth/place-tokens.ts";
import { hex, mac } from "../auth/secrets.ts";
import type { Session } from "../auth/sessions.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { domainOf, isPublicMail } from "../domains/public-mail.ts";
import type { Bindings } from "../env.ts";
import { ApiError } from "../errors.ts";
import { egressOf } from "../http/egress.ts";
import { newId } from "../ids.ts";
import { asRefusal, authorizationUrl, type Client, readCallback } from "./oidc.ts";
import { type Person, personOf } from "./person.ts";
import { secretOf } from "./queries.ts";
import { readCertificate } from "./saml/certificate.ts";
import type { SpKey } from "./saml/decrypt.ts";
import { authnRequest, newMessageId, redirectTo } from "./saml/message.ts";
import { Refused } from "./saml/refused.ts";
import { readResponse } from "./saml/response.ts";
import { addressesOf, type SsoRow } from "./schema.ts";

/** What the browser's cookie is, and what opens the parked result. */
export const FINISH = { kind: "sso_finish", prefix: "sso" };
const SECONDS = 600;

/** The SP's private keys: the first signs, all are published and open what is encrypted. 503 where none is set. */
export function spKeys({ SAML_KEYS }: Pick<Bindings, "SAML_KEYS">): SpKey[] {
  if (!SAML_KEYS) throw new ApiError(503, "saml_not_configured", "SAML needs SAML_KEYS: see `npm run keys`.");
  return (JSON.parse(SAML_KEYS) as { keys: SpKey[] }).keys;
}

/** What stands in the transaction; `browser` is the hash of the cookie. */
type Begun = To & { browser: string; nonce: string; verifier: string };
/** Where a login leads in the end: to a path of ours, signed in; or to an address of the app's, with a login token. */
export type To = { return_to: string | null; redirect_uri: string | null };

const random = () => hex(crypto.getRandomValues(new Uint8Array(32)));
const hashOf = async (text: string) => sha256(text);

export const connectionOf = (db: TenantDb) => db.selectFrom("sso_connections").selectAll();
export const readConnection = async (db: TenantDb): Promise<SsoRow> => (await connectionOf(db).executeTakeFirst())!;

const clientOf = async (env: Bindings, row: SsoRow): Promise<Client> => ({
  issuer_url: row.issuer_url!,
  client_id: row.client_id!,
  client_secret: (await secretOf(env.ROOT_SECRETS, row))!,
  redirect_uri: addressesOf(env, row).redirect_uri,
});

/**
 * Begins a login, in one round trip: where the browser goes, and the cookie that it takes along. `session` is the one that
 * the browser has here, if it has one: whoever is signed in as an owner may be linked. Throws `Refused`.
 */
export async function begin(
  db: TenantDb,
  env: Bindings,
  { place, to, session }: { place: SsoPlace; to: To; session: Session | null },
): Promise<{ location: string; cookie: string }> {
  const { token: cookie, hash: browser } = await newPlaceToken(FINISH.prefix, place);
  const asked = { state: newMessageId(), nonce: random(), verifier: random() };
  const payload: Begun = { browser: hex(browser), ...to, nonce: asked.nonce, verifier: asked.verifier };
  const live = db
    .selectFrom("token_families")
    .select("user_id")
    .where("id", "=", session?.sign_in ?? ("" as never))
    .where("user_id", "=", session?.user ?? ("" as never))
    .where("revoked_at", "is", null)
    .where("expires_at", ">", sql<string>`now()`);
  const ready = db.selectFrom("sso_connections").where("status", "!=", "incomplete");
  const { row, begun } = await db.batch({
    row: connectionOf(db),
    begun: db
      .insertUnder(ready.where(mayLeadTo(db, to.redirect_uri)), "one_time_secrets", {
        ...{ kind: "sso", hash: await hashOf(asked.state), payload: JSON.stringify(payload), user_id: sql`(${live})` },
        expires_at: sql`now() + make_interval(secs => ${SECONDS})`,
      } as never)
      .returningAll(),
  });
  const [connection] = row;
  if (!connection || connection.status === "incomplete") throw new Refused("The connection is not set up.");
  if (!begun.length) throw new Refused("The host of redirect_uri is not among the app's redirect_hosts.");
  return { location: await locationOf(env, connection, asked), cookie };
}

/** Whether an app lets its people be led to an address: where no link of a mail may lead, no login does. */
const mayLeadTo = (db: TenantDb, uri: string | null) =>
  uri === null
    ? sql<boolean>`true`
    : sql<boolean>`coalesce(${db.valueOf("apps", "settings", sql`${db.tenant.app}`)} #> '{auth,redirect_hosts}' ? ${new URL(uri).host}, false)`;

async function locationOf(env: Bindings, row: SsoRow, asked: { state: string; nonce: string; verifier: string }) {
  if (row.provider === "oidc") {
    const client = await clientOf(env, row);
    return asRefusal(() => authorizationUrl(client, asked, egressOf(env)));
  }
  const destination = row.sso_url ?? row.issuer_url!;
  const { sp_entity_id, acs_url } = addressesOf(env, row);
  const request = authnRequest({ id: asked.state, destination, sp_entity_id, acs_url, force: false, now: new Date() });
  return redirectTo(destination, "SAMLRequest", request, null, spKeys(env)[0]!);
}

/** What a provider's answer comes to: where the browser goes on, or the number of the try that was refused. */
export type Outcome = { location: string } | { refused: string };

/** Takes a SAML response in. Two round trips: what was asked, and what came of it. */
export async function takeResponse(db: TenantDb, env: Bindings, field: string): Promise<Outcome> {
  // Only to find what was asked; that it answers this is verified below, with all else.
  const request = /InResponseTo\s*=\s*["']([^"'<>]{1,200})["']/.exec(atobOrNothing(field))?.[1] ?? "";
  const { row, begun } = await asking(db, request);
  const addresses = addressesOf(env, row);
  if (!request && row.allow_idp_initiated) return { location: addresses.start_url };
  return taking(db, env, row, request, async () => {
    if (row.provider !== "saml") throw new Refused("The connection is not SAML's.");
    if (!begun) throw new Refused("The response answers no request that waits. Start the login here.");
    const signers = await Promise.all(row.certificates.map(readCertificate));
    const expected = { ...addresses, issuer: row.entity_id ?? row.issuer_url!, in_response_to: request, signers };
    const login = await readResponse(field, { ...expected, keys: spKeys(env) }, new Date());
    const { name_id } = login;
    const end = login.session_not_on_or_after;
    return {
      person: personOf(login.attributes, row, name_id.value, name_id.value.includes("@") ? name_id.value : null),
      email_verified: null,
      assertion: hex(await hashOf(`${row.id} ${login.id}`)),
      ends: login.not_on_or_after.toISOString(),
      session_ends: end?.toISOString() ?? null,
      details: { name_id, session_index: login.session_index },
    };
  });
}

/** Takes in what the browser brings back from an OIDC provider. */
export async function takeCallback(db: TenantDb, env: Bindings, url: URL): Promise<Outcome> {
  const state = url.searchParams.get("state") ?? "";
  const { row, begun } = await asking(db, state);
  return taking(db, env, row, state, async () => {
    if (row.provider !== "oidc") throw new Refused("The connection is not OIDC's.");
    if (!begun) throw new Refused("The provider answers no request that waits. Start the login here.");
    const client = await clientOf(env, row);
    const login = await asRefusal(() => readCallback(client, url, { ...begun, state }, egressOf(env)));
    return {
      person: personOf(login.attributes, row, login.subject, null),
      email_verified: login.email_verified,
      assertion: null,
      ends: null,
      session_ends: null,
      details: { sub: login.sub, sid: login.sid },
    };
  });
}

async function asking(db: TenantDb, request: string): Promise<{ row: SsoRow; begun: Begun | null }> {
  const { row, begun } = await db.batch({
    row: connectionOf(db),
    begun: db
      .selectFrom("one_time_secrets")
      .select("payload")
      .where("kind", "=", "sso")
      .where("hash", "=", await hashOf(request))
      .where("used_at", "is", null)
      .where("expires_at", ">", sql<string>`now()`),
  });
  return { row: row[0]!, begun: (begun[0]?.payload as Begun | undefined) ?? null };
}

type Said = {
  person: Person | null;
  email_verified: boolean | null;
  assertion: string | null;
  ends: string | null;
  session_ends: string | null;
  details: Record<string, unknown>;
};

/** Uses the request up and parks who it is, or writes down why not. */
async function taking(
  db: TenantDb,
  env: Bindings,
  row: SsoRow,
  request: string,
  read: () => Promise<Said>,
): Promise<Outcome> {
  const attempt = newId("sso_attempt");
  try {
    const { person, details, session_ends, ...said } = await read();
    if (!person) throw new Refused("The subject is not one value. See attribute_mapping.subject.");
    const bring = ["bring", row.app_id, row.sandbox_id, row.org_id, "sso", person.email].join(".");
    const { taken } = await db.batch({
      taken: db.call<{ refusal: string | null }>("take_sso", [
        JSON.stringify({
          ...{
            connection: row.id,
            request: hex(await hashOf(request)),
            ...said,
            ...person,
            attempt,
            public_mail: isPublicMail(domainOf(person.email ?? "")),
            bring: hex(await mac(env.ROOT_SECRETS, bring, "door")),
          },
          ...{ user: newId("user"), identity: newId("sso_identity"), entry: newId("activity_feed_entry") },
          events: [newId("event"), newId("event")],
          parked: { method: row.provider, session_ends, details: { connection: row.id, ...details } },
        }),
      ]),
    });
    return taken[0]!.refusal === null ? { location: "finish" } : { refused: attempt };
  } catch (error) {
    if (error instanceof Refused) return { refused: await note(db, row, error, attempt) };
    throw error;
  }
}

/** Writes down what a provider, or who came in its name, was refused for. Answers the number of the try. */
export async function note(db: TenantDb, { id }: SsoRow, { message }: Refused, attempt = newId("sso_attempt")) {
  await db.batch({
    noted: db.call("note_sso_attempt", [attempt, id, null, message, newId("activity_feed_entry")]),
  });
  return attempt;
}

/** What is parked for a browser. */
export type Parked = To & {
  user: Session["user"];
  method: string;
  details: Record<string, unknown>;
  max_s: number;
  session_ends: string | null;
};

/** Seconds until the session must end: as the org says, and not beyond what the provider has said. */
export const lifetimeOf = ({ max_s, session_ends }: Parked, now: Date): number =>
  session_ends === null
    ? max_s
    : Math.max(1, Math.min(max_s, Math.floor((Date.parse(session_ends) - now.getTime()) / 1000)));

function atobOrNothing(text: string): string {
  try {
    return atob(text.replace(/\s/g, ""));
  } catch {
    return "";
  }
}
