/** Out by SAML: a provider that tells us, and we who tell it, always after the sign-in has ended here. */
import { sha256 } from "../auth/keys.ts";
import { hex } from "../auth/secrets.ts";
import type { Session } from "../auth/sessions.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { newId } from "../ids.ts";
import { endingSignIns } from "../sign-ins/queries.ts";
import { readConnection, spKeys } from "./login.ts";
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
import { addressesOf } from "./schema.ts";

/**
 * Takes a logout message in, from a form or a query: a request ends the sign-ins that it names, and is answered; a response is the end of
 * a logout of ours. Answers where the browser goes on, null where nowhere. Throws `Refused`.
 */
export async function takeLogout(db: TenantDb, env: Bindings, sent: { form: URLSearchParams } | { query: string }) {
  const row = await readConnection(db);
  const { sp_entity_id, slo_service_url } = addressesOf(env, row);
  if (row.provider !== "saml" || row.status === "incomplete") throw new Refused("The connection is not SAML's.");
  const signers = await Promise.all(row.certificates.map(readCertificate));
  const expected = { issuer: row.entity_id ?? row.issuer_url!, slo_service_url, signers };
  const now = new Date();
  const message =
    "form" in sent ? await readLogoutForm(sent.form, expected, now) : await readLogoutQuery(sent.query, expected, now);
  if (message.type === "response") return null;
  const { ended } = await db.batch({
    ended: db.call<{ first: boolean }>(
      "end_sso",
      [
        ...[row.id, hex(await sha256(`${row.id} ${message.id}`)), message.not_on_or_after.toISOString()],
        ...[message.name_id.value, message.session_indexes, newId("activity_feed_entry")],
      ],
      "end_sso as first",
    ),
  });
  if (!ended[0]!.first) throw new Refused("The logout request was taken before.");
  if (!row.slo_url) return null;
  const said = { id: newMessageId(), destination: row.slo_url, sp_entity_id, now, in_response_to: message.id };
  return redirectTo(row.slo_url, "SAMLResponse", logoutResponse(said), message.relay_state, spKeys(env)[0]!);
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
  const row = rows[0]!;
  const details = (own[0]?.details ?? {}) as { connection?: string; name_id?: NameId; session_index?: string | null };
  const { slug } = org[0]!;
  if (details.connection !== row.id || !details.name_id || !row.slo_url) return { location: null, slug };
  const { sp_entity_id } = addressesOf(env, row);
  const { name_id, session_index = null } = details;
  const said = { id: newMessageId(), destination: row.slo_url, sp_entity_id, now: new Date(), name_id, session_index };
  return { location: await redirectTo(row.slo_url, "SAMLRequest", logoutRequest(said), null, spKeys(env)[0]!), slug };
}
