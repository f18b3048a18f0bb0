import * as v from "valibot";
import { type Row, real, roles, ssoStatuses } from "../db/schema.ts";
import { type Bindings, listOf } from "../env.ts";
import { idOf, nullable, stamp, text } from "../http/valid.ts";
import { readCertificate } from "./saml/certificate.ts";
import { MAX_CERTIFICATES } from "./saml/metadata.ts";

export type SsoRow = Row<"sso_connections">;
export type AttemptRow = Row<"sso_attempts">;

/** Where a browser is sent, or what a Worker asks: never `javascript:`, and plain http on this machine alone. */
export const url = v.pipe(
  text(2000),
  v.check((url) => URL.canParse(url) && /^https?:\/\/[^\s"<>\\]+$/i.test(url), "must be an http or https address"),
);
const name = v.nullish(v.pipe(text(500), v.nonEmpty()), null);
const mappedRole = v.picklist(
  roles.filter((role) => role !== "owner"),
  "must be admin, member, billing or viewer: nobody becomes an owner by a mapping",
);

/** What a PUT says is all that holds afterwards; only the secret, not named, stays, and `enforced`. */
export const putSsoBody = v.strictObject({
  provider: v.picklist(["saml", "oidc"]),
  issuer_url: v.nullish(url, null),
  /** SAML: what the provider is called in what it signs; without it, `issuer_url`. */
  entity_id: v.nullish(v.pipe(text(2000), v.nonEmpty()), null),
  sso_url: v.nullish(url, null),
  slo_url: v.nullish(url, null),
  /** PEM, or bare base64. */
  certificate: v.nullish(text(12_000), null),
  certificates: v.optional(v.pipe(v.array(text(12_000)), v.maxLength(MAX_CERTIFICATES)), []),
  /** The provider's metadata: it stands for entity_id, sso_url, slo_url and certificates where these are not named. */
  metadata_xml: v.nullish(text(256 * 1024), null),
  /** Where it stands, in its place: it is fetched by each PUT. */
  idp_metadata_url: v.nullish(url, null),
  client_id: v.nullish(v.pipe(text(1000), v.nonEmpty()), null),
  client_secret: v.optional(v.nullable(v.pipe(text(4000), v.nonEmpty()))),
  auto_provision: v.optional(v.boolean(), false),
  jit_provisioning: v.optional(v.boolean(), false),
  attribute_mapping: v.optional(v.strictObject({ email: name, name, groups: name, subject: name }), {}),
  role_mapping: v.optional(
    v.pipe(v.array(v.strictObject({ group: v.pipe(text(500), v.nonEmpty()), role: mappedRole })), v.maxLength(100)),
    [],
  ),
  default_role: v.optional(mappedRole, "member"),
  session_max_s: v.optional(v.pipe(v.number(), v.integer(), v.minValue(300), v.maxValue(2_592_000)), 86_400),
  allow_idp_initiated: v.optional(v.boolean(), false),
  enforced: v.optional(v.boolean()),
  /** The owners who come in by other ways while it is enforced: one at least, so that nobody is locked out for good. */
  break_glass: v.optional(v.pipe(v.array(idOf("user")), v.maxLength(3)), []),
});
export type PutSso = v.InferOutput<typeof putSsoBody>;

/** What a login needs and is not set. */
export function missingOf(
  row: Pick<SsoRow, "provider" | "issuer_url" | "entity_id" | "sso_url" | "certificates" | "client_id"> & {
    has_secret: boolean;
  },
): string[] {
  const needed: [string, unknown][] =
    row.provider === "saml"
      ? [
          ["entity_id", row.entity_id ?? row.issuer_url],
          ["sso_url", row.sso_url ?? row.issuer_url],
          ["certificates", row.certificates.length],
        ]
      : [
          ["issuer_url", row.issuer_url],
          ["client_id", row.client_id],
          ["client_secret", row.has_secret],
        ];
  return needed.filter(([, value]) => !value).map(([field]) => field);
}

/** The addresses of an org's SSO, each of that org alone: what a provider says to one, no other org reads. */
export function addressesOf(
  { ISSUERS }: Pick<Bindings, "ISSUERS">,
  row: Pick<SsoRow, "app_id" | "sandbox_id" | "org_id">,
) {
  const base = `${listOf(ISSUERS)[0]}/sso/${row.app_id}/${row.sandbox_id}/${row.org_id}`;
  return {
    sp_entity_id: `${base}/metadata`,
    metadata_url: `${base}/metadata`,
    acs_url: `${base}/acs`,
    start_url: `${base}/start`,
    redirect_uri: `${base}/callback`,
    slo_service_url: `${base}/slo`,
    backchannel_logout_url: `${base}/backchannel`,
    post_logout_redirect_uri: `${base}/logout`,
  };
}
export type Addresses = ReturnType<typeof addressesOf>;

export const sso = v.strictObject({
  org: v.string(),
  provider: v.picklist(["saml", "oidc"]),
  status: v.picklist(ssoStatuses),
  missing: v.array(v.string()),
  issuer_url: nullable,
  entity_id: nullable,
  sso_url: nullable,
  slo_url: nullable,
  idp_metadata_url: nullable,
  certificate: nullable,
  certificates: v.array(v.string()),
  fingerprints: v.array(v.strictObject({ sha256: v.string(), not_after: stamp })),
  client_id: nullable,
  auto_provision: v.boolean(),
  jit_provisioning: v.boolean(),
  attribute_mapping: v.record(v.string(), nullable),
  role_mapping: v.array(v.strictObject({ group: v.string(), role: v.picklist(roles) })),
  default_role: v.picklist(roles),
  session_max_s: v.number(),
  allow_idp_initiated: v.boolean(),
  enforced: v.boolean(),
  break_glass: v.array(v.string()),
  sp_entity_id: v.string(),
  metadata_url: v.string(),
  acs_url: v.string(),
  start_url: v.string(),
  redirect_uri: v.string(),
  slo_service_url: v.string(),
  backchannel_logout_url: v.string(),
  post_logout_redirect_uri: v.string(),
  created_at: stamp,
  updated_at: stamp,
});

/** The connection as the API shows it: its secret never. */
export async function toSso(env: Pick<Bindings, "ISSUERS">, row: SsoRow): Promise<v.InferOutput<typeof sso>> {
  const certificates = await Promise.all(row.certificates.map(readCertificate));
  return {
    org: real(row.org_id)!,
    provider: row.provider,
    status: row.status,
    missing: missingOf({ ...row, has_secret: row.sealed !== null }),
    issuer_url: row.issuer_url,
    entity_id: row.entity_id,
    sso_url: row.sso_url,
    slo_url: row.slo_url,
    idp_metadata_url: row.idp_metadata_url,
    certificate: row.certificates[0] ?? null,
    certificates: row.certificates,
    fingerprints: certificates.map(({ fingerprint, not_after }) => ({
      sha256: fingerprint,
      not_after: not_after.toISOString(),
    })),
    client_id: row.client_id,
    auto_provision: row.auto_provision,
    jit_provisioning: row.jit_provisioning,
    attribute_mapping: row.attribute_mapping,
    role_mapping: row.role_mapping,
    default_role: row.default_role,
    session_max_s: row.session_max_s,
    allow_idp_initiated: row.allow_idp_initiated,
    enforced: row.status === "enforced",
    break_glass: row.break_glass,
    ...addressesOf(env, row),
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}

export const ssoTest = v.strictObject({ url: v.string() });
export const attempt = v.strictObject({
  id: v.string(),
  succeeded: v.boolean(),
  message: v.string(),
  subject: nullable,
  created_at: stamp,
});
export const attemptList = v.strictObject({ data: v.array(attempt) });

/** What the database refuses by a word, as an admin reads it. */
const REFUSALS: Record<string, string> = {
  not_set_up: "The connection is not set up. See what is missing of it.",
  request_used: "The login was begun too long ago, or was finished before. Start it again.",
  replayed: "The assertion was taken before. Start the login again.",
  no_email: "The provider gave no e-mail address. Let it send one, or name the attribute in attribute_mapping.email.",
  unverified_email: "The provider says that the e-mail address is not verified.",
  foreign_domain: "The e-mail address is in no verified domain of the org. Verify the domain.",
  unknown_person: "Nobody here has the e-mail address. Make the user, or set auto_provision or jit_provisioning.",
  deactivated: "The user is deactivated.",
  system_user: "A system user does not sign in.",
  other_identity: "The user with the e-mail address is another person of the provider's already.",
  owner_not_signed_in: "The e-mail address is an owner's, who has to be signed in here to be linked.",
  address_taken: "The e-mail address belongs to an account outside of this org.",
};
export const toAttempt = ({ id, refusal, subject, created_at }: AttemptRow): v.InferOutput<typeof attempt> => ({
  id,
  succeeded: refusal === null,
  message: refusal === null ? "Signed in." : (REFUSALS[refusal] ?? refusal),
  subject,
  created_at,
});
