import { sql } from "kysely";
import { createChild, type Guard, reachChild, telling, updateChild } from "../agents/children.ts";
import { sealFor, tagged } from "../auth/vault.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { invalid, unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import { faultsOf, installationKinds, kindsTaking, needingIntegration, sourceTypes } from "./kinds.ts";
import type { CreateInstallation, CreateSource, InstallationRow, Integration, SourceRow } from "./schema.ts";

type InstallationId = Id<"agent_installation">;

/**
 * Installs something for an agent: pending or, with an integration, active. 422 on a config that its kind doesn't take,
 * 409 on a lookup_key that the org has.
 */
export async function createInstallation(
  db: TenantDb,
  roots: string,
  agent: string,
  id: InstallationId,
  { kind, lookup_key, config, integration }: CreateInstallation,
): Promise<InstallationRow> {
  const faults = faultsOf(installationKinds[kind]!.config, config ?? {}, "config");
  if (faults.length) throw invalid(faults);
  return createChild(db, "agent_installation", agent, id, {
    ...{ kind, lookup_key: lookup_key ?? null, config: JSON.stringify(config ?? {}) },
    state: integration ? "active" : "pending",
    ...(integration && (await bound(db, roots, id, kind, integration))),
  });
}

/** The integration as the row holds it. */
async function bound(db: TenantDb, roots: string, id: InstallationId, kind: string, integration: Integration) {
  const slot = { table: "agent_installations", app: db.tenant.app, sandbox: db.tenant.sandbox, id } as const;
  const secret = await sealFor(roots, slot, JSON.stringify(integration));
  const place = [sql`app_id`, sql`sandbox_id`, sql`org_id`, sql`agents.id`, sql`${id}::text`, sql`${kind}::text`];
  return { sealed: secret.sealed, tag: tagged(secret, place) };
}

/** A transition. Where the state is another than these, 422 `invalid_state`. */
const from = (states: string[], doing: string, and = sql<boolean>`true`, more = ""): Guard => ({
  where: sql<boolean>`(state = any (${states}) and ${and})`,
  otherwise: () =>
    unprocessable("invalid_state", `Only an installation that is ${states.join(" or ")} can be ${doing}.${more}`),
});

/** Activates one; again changes nothing. 422 where its kind requires an integration and it has none. */
export function activateInstallation(db: TenantDb, id: InstallationId) {
  const isBound = sql<boolean>`(sealed is not null or kind <> all (${needingIntegration}))`;
  const more = " It needs an integration first, where its kind requires one.";
  const guard = from(["pending", "paused", "active"], "activated", isBound, more);
  return updateChild(db, "agent_installation", id, { state: "active" }, guard);
}

export const pauseInstallation = (db: TenantDb, id: InstallationId) =>
  updateChild(db, "agent_installation", id, { state: "paused" }, from(["active"], "paused"));

/** Suspends one, whatever else it does, and keeps the reason. */
export function suspendInstallation(db: TenantDb, id: InstallationId, reason: string | null) {
  const status_payload = reason === null ? null : JSON.stringify({ reason });
  const guard = from(["pending", "active", "paused"], "suspended");
  return updateChild(db, "agent_installation", id, { state: "suspended", status_payload }, guard);
}

/** An installation's sources, newest first. */
export function listSources(db: TenantDb, id: InstallationId): Promise<SourceRow[]> {
  const above = reachChild(db, "agent_installation", id, "read");
  return above.db
    .selectFrom("installation_sources")
    .selectAll()
    .where("installation_id", "in", above.rows.select("id"))
    .orderBy(sql`id desc`)
    .execute();
}

/** Gives an installation something to read. 422 on a payload that its type doesn't take, and on a type that its kind doesn't. */
export async function createSource(
  db: TenantDb,
  installation: InstallationId,
  id: Id<"installation_source">,
  { type, payload }: CreateSource,
): Promise<SourceRow> {
  const faults = faultsOf(sourceTypes[type], payload, "payload");
  if (faults.length) throw invalid(faults);
  if (type === "file/document") throw invalid({ field: "payload.file", message: "there is no such file" });
  const above = reachChild(db, "agent_installation", installation, "write");
  const insert = above.db.insertUnder(above.rows.where("kind", "in", kindsTaking(type)), "installation_sources", {
    ...{ id, type, payload: JSON.stringify(payload) },
    agent_id: sql`agent_id`,
    installation_id: sql`agent_installations.id`,
  });
  return above.db
    .telling(insert, telling(db, "installation_source", "created"))
    .executeTakeFirstOrThrow(() => invalid({ field: "type", message: "is none that this kind of installation takes" }));
}
