/** Out: a provider that tells us, and we who tell it, always after the sign-in has ended here. */
import { sha256 } from "../auth/keys.ts";
import { hex } from "../auth/secrets.ts";
import type { Session } from "../auth/sessions.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { egressOf } from "../http/egress.ts";
import { newId } from "../ids.ts";
import { endingSignIns } from "../sign-ins/queries.ts";
import { spKeys } from "./login.ts";
import { asRefusal, endSessionUrl, readLogoutToken } from "./oidc.ts";
import { readCertificate } from "./saml/certificate.ts";
import {
  logoutRequest,
  logoutResponse,
  newMessageId,
  readLogoutForm,
  readLogoutQuery,
  redirectTo,
} from "./saml/message.ts";
import { Refused } from "./saml/refused.ts";
import type { NameId } from "./saml/response.ts";
import { addressesOf, type SsoRow } from "./schema.ts";

/**
 * Takes a logout message in, from a form or a query: a request ends the sign-ins that it names, and is answered; a response is the end of
 * a logout of ours. Answers where the browser goes on, null where nowhere. Throws `Refused`.
 */
export async function takeLogout(
  db: TenantDb,
  env: Bindings,
  row: SsoRow,
  sent: { form: URLSearchParams } | { query: string },
): Promise<string | null> {
  const { sp_entity_id, slo_service_url } = addressesOf(env, row);
  if (row.provider !== "saml" || row.status === "incomplete") throw new Refused("The connection is not SAML's.");
  const signers = await Promise.all(row.certificates.map(readCertificate));
  const expected = { issuer: row.entity_id ?? row.issuer_url!, slo_service_url, signers };
  const now = new Date();
  const message =
    "form" in sent ? await readLogoutForm(sent.form, expected, now) : await readLogoutQuery(sent.query, expected, now);
  if (message.type === "response") return null;
  await endAtProvider(db, row, { ...message, person: message.name_id.value, sessions: message.session_indexes });
  if (!row.slo_url) return null;
  const said = { id: newMessageId(), destination: row.slo_url, sp_entity_id, now, in_response_to: message.id };
  return redirectTo(row.slo_url, "SAMLResponse", logoutResponse(said), message.relay_state, spKeys(env)[0]!);
}

/** What a provider says has ended: all of a person, or of these sessions; `id` is the message's own. */
type Over = { id: string; not_on_or_after: Date; person: string | null; sessions: readonly string[] };

/** Ends the sign-ins that a provider says are over, once a message. */
async function endAtProvider(db: TenantDb, row: SsoRow, { id, not_on_or_after, person, sessions }: Over) {
  const { ended } = await db.batch({
    ended: db.call<{ first: boolean }>(
      "end_sso",
      [
        ...[row.id, hex(await sha256(`${row.id} ${id}`)), not_on_or_after.toISOString()],
        ...[person, sessions, newId("activity_feed_entry")],
      ],
      "end_sso as first",
    ),
  });
  if (!ended[0]!.first) throw new Refused("The logout request was taken before.");
}

/** Takes a logout token that an OIDC provider has sent, past the browser. Throws `Refused`. */
export async function takeBackchannel(db: TenantDb, env: Bindings, row: SsoRow, token: string): Promise<void> {
  if (row.provider !== "oidc" || row.status === "incomplete") throw new Refused("The connection is not OIDC's.");
  const client = { issuer_url: row.issuer_url!, client_id: row.client_id! };
  const { sub, sid, ...said } = await asRefusal(() => readLogoutToken(client, token, egressOf(env)));
  await endAtProvider(db, row, { ...said, person: sub, sessions: sid === null ? [] : [sid] });
}

/** Ends a browser's own sign-in, and answers where its provider is told of it; null where there is nobody to tell. */
export async function leave(
  db: TenantDb,
  env: Bindings,
  { user, sign_in }: Session,
): Promise<{ location: string | null; slug: string }> {
  const { rows, own, org } = await db.batch({
    org: db.selectFrom("orgs").select("slug"),
    rows: db.selectFrom("sso_connections").selectAll(),
    own: db.selectFrom("token_families").select("details").where("id", "=", sign_in).where("user_id", "=", user),
    ended: endingSignIns(db, user, { one: sign_in }),
  });
  const details = (own[0]?.details ?? {}) as Details;
  const told = details.connection === rows[0]!.id ? await tellProvider(env, rows[0]!, details) : null;
  return { location: told, slug: org[0]!.slug };
}

type Details = { connection?: string; name_id?: NameId; session_index?: string | null };

/** Where the browser tells the provider that it has signed out; null where that hears of none, or can't be asked. */
async function tellProvider(env: Bindings, row: SsoRow, { name_id, session_index = null }: Details) {
  const { sp_entity_id, post_logout_redirect_uri } = addressesOf(env, row);
  if (row.provider === "oidc") {
    const client = { issuer_url: row.issuer_url!, client_id: row.client_id! };
    return asRefusal(() => endSessionUrl(client, post_logout_redirect_uri, egressOf(env))).catch((error) => {
      // It has ended here, whatever the provider says.
      if (error instanceof Refused) return null;
      throw error;
    });
  }
  if (!name_id || !row.slo_url) return null;
  const said = { id: newMessageId(), destination: row.slo_url, sp_entity_id, now: new Date(), name_id, session_index };
  return redirectTo(row.slo_url, "SAMLRequest", logoutRequest(said), null, spKeys(env)[0]!);
}
