/** An org's connection to a provider: one an org, named by the org. */
import { sql } from "kysely";
import { openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import { mustHold, type Statement } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { invalid, notFound, refused } from "../errors.ts";
import { type Egress, egressOf } from "../http/egress.ts";
import { type Id, newId } from "../ids.ts";
import type { Mail } from "../mail/send.ts";
import { fetchMetadata } from "./fetch.ts";
import { untestedMail } from "./mails.ts";
import { readCertificate } from "./saml/certificate.ts";
import { type IdpMetadata, readIdpMetadata } from "./saml/metadata.ts";
import { Refused } from "./saml/refused.ts";
import { type AttemptRow, missingOf, type PutSso, type SsoRow } from "./schema.ts";
import { nextStatus } from "./status.ts";

/** The database of an org that an address names: any of a developer's; of a person their own, and every other is absent. */
const placeOf = (db: TenantDb, org: Id<"org">) => (db.tenant.kind === "org" ? db : db.inOrg(org));
const connection = (db: TenantDb, org: Id<"org">) => db.selectFrom("sso_connections").where("org_id", "=", org);
const orgOf = (db: TenantDb, org: Id<"org">) => db.selectFrom("orgs").select("id").where("id", "=", org);

/** An org's connection. 404 where the org isn't there, or has none. */
export async function getSso(db: TenantDb, org: Id<"org">): Promise<SsoRow> {
  const place = placeOf(db, org);
  const { orgs, rows } = await place.batch({ orgs: orgOf(place, org), rows: connection(place, org).selectAll() });
  if (!rows[0]) throw notFound(orgs.length ? "sso" : "org");
  return rows[0];
}

/** A fault of what a field holds, where reading it was refused. */
const asFault =
  (field: string) =>
  (error: unknown): never => {
    throw error instanceof Refused ? invalid({ field, message: error.message }) : error;
  };

/** The provider's metadata, as it came or as it stands at its address; null where neither is said. */
async function metadataOf({ metadata_xml, idp_metadata_url }: PutSso, egress: Egress): Promise<IdpMetadata | null> {
  const now = new Date();
  if (metadata_xml && idp_metadata_url) {
    throw invalid({ field: "idp_metadata_url", message: "must not stand beside metadata_xml: name one of the two" });
  }
  if (metadata_xml) return readIdpMetadata(metadata_xml, now).catch(asFault("metadata_xml"));
  if (!idp_metadata_url) return null;
  return fetchMetadata(idp_metadata_url, egress)
    .then((xml) => readIdpMetadata(xml, now))
    .catch(asFault("idp_metadata_url"));
}

/** The fields that metadata stands for; what is named beside it counts. */
async function withMetadata(body: PutSso, egress: Egress): Promise<PutSso & { certificate_ends: string[] }> {
  const { certificate, ...said } = body;
  const told = await metadataOf(body, egress);
  const certificates = said.certificates.length ? said.certificates : certificate ? [certificate] : told?.certificates;
  const read = await Promise.all((certificates ?? []).map(readCertificate)).catch(asFault("certificates"));
  return {
    ...body,
    certificate_ends: read.map(({ not_after }) => not_after.toISOString()),
    entity_id: said.entity_id ?? told?.entity_id ?? null,
    sso_url: said.sso_url ?? told?.sso_url ?? null,
    slo_url: said.slo_url ?? told?.slo_url ?? null,
    // One spelling, so that a key is known again: bare base64.
    certificates: (certificates ?? []).map((text) => text.replace(/-----(BEGIN|END) CERTIFICATE-----|\s/g, "")),
  };
}

/** A connection as it was set, and what its owners are mailed of that. */
export type Set = { row: SsoRow; mails: Mail[] };

/**
 * Sets an org's connection. Two round trips: what becomes of it hangs on what it was, and where another PUT comes between
 * the two, this one is a 409. To enforce it ends every sign-in that another method has made, in the statement's batch.
 */
export async function putSso(db: TenantDb, env: Bindings, org: Id<"org">, body: PutSso): Promise<Set> {
  const place = placeOf(db, org);
  const { before, orgs } = await place.batch({
    before: connection(place, org).selectAll(),
    orgs: orgOf(place, org),
  });
  if (!orgs.length) throw notFound("org");
  const [was = null] = before;
  // Nothing is fetched for whom the database has not let in.
  const said = await withMetadata(body, egressOf(env));
  const has_secret = said.client_secret === undefined ? was?.sealed != null : said.client_secret !== null;
  const complete = missingOf({ ...said, has_secret }).length === 0;
  const next = nextStatus(was, said, { complete, enforced: body.enforced });
  if ("refused" in next) throw refused(next.refused, WHY[next.refused]);
  if (next.status === "enforced" && !said.break_glass.length) {
    throw invalid({ field: "break_glass", message: "must name 1 to 3 owners, who come in if the provider is out" });
  }

  const id = was?.id ?? newId("sso");
  const values = {
    ...{ provider: said.provider, status: next.status, issuer_url: said.issuer_url, entity_id: said.entity_id },
    ...{ sso_url: said.sso_url, slo_url: said.slo_url, certificates: said.certificates, client_id: said.client_id },
    ...{ auto_provision: said.auto_provision, jit_provisioning: said.jit_provisioning },
    attribute_mapping: JSON.stringify(said.attribute_mapping),
    role_mapping: JSON.stringify(said.role_mapping),
    ...{ default_role: said.default_role, session_max_s: said.session_max_s },
    ...{ allow_idp_initiated: said.allow_idp_initiated, break_glass: said.break_glass },
    ...{ idp_metadata_url: said.idp_metadata_url, certificate_ends: said.certificate_ends },
    warn_at: sql<string | null>`app.next_warning(${said.certificate_ends}::timestamptz[])`,
    ...(await sealing(place, env.ROOT_SECRETS, id, org, said.client_secret)),
  };
  const behind = place.behind(ownersAlone(place, said.break_glass));
  const title = sql<string>`'SSO: ' || status`;
  const change = was
    ? behind.telling(
        behind
          .patch("sso_connections", { ...values, revision: was.revision + 1 })
          .where("id", "=", id)
          .where("revision", "=", was.revision),
        { kind: "sso.updated", title, metadata: { fields: Object.keys(body) } },
      )
    : behind.telling(
        behind.insertUnder(behind.selectFrom("orgs").where("orgs.id", "=", org), "sso_connections", {
          id,
          ...values,
        } as never),
        { kind: "sso.created", title },
      );
  const { row, owners } = await behind.batch({
    row: change,
    owners: ownersOf(behind, org),
    ...(next.status === "enforced" && { ended: endingOthers(behind, said.break_glass) }),
  });
  if (!row[0])
    throw refused("changed_meanwhile", "Somebody else has just set this connection. Read it, and set it again.");
  const tells = next.status === "untested" && next.renewed;
  return {
    row: row[0],
    mails: tells ? owners.map((owner) => untestedMail(owner.email, owner, issuerOf(row[0]!))) : [],
  };
}

/** Who the provider is, as a mail says it: its host, or whatever else it is called. */
function issuerOf({ provider, entity_id, issuer_url }: SsoRow): string {
  const name = (provider === "saml" && entity_id) || issuer_url!;
  return (URL.canParse(name) && new URL(name).host) || name;
}

/** Whom an org's owners are mailed at, with the names that a mail says. */
const ownersOf = (db: TenantDb, org: Id<"org">) =>
  db
    .selectFrom("users")
    .where("org_id", "=", org)
    .where("role", "=", "owner")
    .where("email", "is not", null)
    .where("deactivated_at", "is", null)
    .orderBy("id")
    .limit(20)
    .select("email")
    .select(db.valueOf("orgs", "name", sql.ref("users.org_id")).as("org"))
    .select(db.valueOf("apps", "name", sql.ref("users.app_id")).as("app")) as unknown as Statement<
    Parameters<typeof untestedMail>[1] & { email: string }
  >;

const WHY = {
  sso_enforced:
    "This connection is enforced: what would let nobody in, or somebody whom another provider names, needs `enforced: false` first.",
  sso_untested: "Nobody has signed in by this connection yet. Sign in by its start_url, then enforce it.",
};

/** What stands in the row of a client secret; nothing where it is not named. */
async function sealing(db: TenantDb, roots: string, id: Id<"sso">, org: Id<"org">, secret: string | null | undefined) {
  if (secret === undefined) return {};
  if (secret === null) return { sealed: null, tag: null };
  const { app, sandbox } = db.tenant;
  const sealed = await sealFor(roots, { table: "sso_connections", app, sandbox, id }, secret);
  return {
    sealed: sealed.sealed,
    tag: tagged(
      sealed,
      [app, sandbox, org, id].map((part) => sql`${part}::text`),
    ),
  };
}

/** The client secret of a connection; null where it has none. */
export async function secretOf(roots: string, row: SsoRow): Promise<string | null> {
  if (!row.sealed || !row.tag) return null;
  const slot = { table: "sso_connections", app: row.app_id, sandbox: row.sandbox_id, id: row.id } as const;
  const place = sealedTables.sso_connections.map((column) => row[column]);
  return openFor(roots, { slot, place, sealed: row.sealed as Uint8Array<ArrayBuffer>, tag: row.tag });
}

const ownersAlone = (db: TenantDb, users: readonly string[]) =>
  mustHold(
    sql`(select count(*) = ${new Set(users).size} from (${db.selectFrom("users").selectAll()}) u
      where u.id = any (${[...users]}::text[]) and u.role = 'owner' and u.deactivated_at is null)`,
    "break_glass",
    "must be owners of the org",
  );

/** Ends what other methods have signed in. What the app's key has minted is no way to come in, and stays. */
const endingOthers = (db: TenantDb, break_glass: readonly string[]) =>
  db
    .updateTable("token_families")
    .set({ revoked_at: sql`now()` })
    .where("revoked_at", "is", null)
    .where("method", "not in", ["saml", "oidc", "token"])
    .where(sql<boolean>`user_id <> all (${[...break_glass]}::text[])`);

/** Takes the connection away, with who was whom by it and all sign-ins that it made. 409 while it is enforced. */
export async function deleteSso(db: TenantDb, org: Id<"org">): Promise<void> {
  const place = placeOf(db, org);
  const open = place.deleteFrom("sso_connections").where("org_id", "=", org).where("status", "!=", "enforced");
  const { orgs, there, deleted } = await place.batch({
    orgs: orgOf(place, org),
    there: connection(place, org).select("status"),
    ended: place
      .updateTable("token_families")
      .set({ revoked_at: sql`now()` })
      .where("revoked_at", "is", null)
      .where("method", "in", ["saml", "oidc"])
      .where(
        sql<boolean>`exists (${connection(place, org).select(sql`1`.as("one")).where("status", "!=", "enforced")})`,
      ),
    deleted: place.telling(open, { kind: "sso.deleted", title: sql`'SSO taken away'` }),
  });
  if (!there.length) throw notFound(orgs.length ? "sso" : "org");
  if (!deleted.length) throw refused("sso_enforced", WHY.sso_enforced);
}

/** The last fifty tries to sign in, newest first. */
export async function listAttempts(db: TenantDb, org: Id<"org">): Promise<AttemptRow[]> {
  const place = placeOf(db, org);
  const { orgs, there, attempts } = await place.batch({
    orgs: orgOf(place, org),
    there: connection(place, org).select("id"),
    attempts: place.selectFrom("sso_attempts").selectAll().where("org_id", "=", org).orderBy("id", "desc").limit(50),
  });
  if (!there.length) throw notFound(orgs.length ? "sso" : "org");
  return attempts;
}
