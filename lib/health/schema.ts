import * as v from "valibot";
import { healthKinds, healthSources, healthStatuses, type Row, real } from "../db/schema.ts";
import { list, nullable, stamp } from "../http/valid.ts";

/** Each filter is an OR of what it lists. */
export const listHealthActionsQuery = v.object({
  source: v.optional(list(v.picklist(healthSources), 10)),
  status: v.optional(list(v.picklist(healthStatuses), 10)),
  kind: v.optional(list(v.picklist(healthKinds), 10)),
});
export type ListHealthActions = v.InferOutput<typeof listHealthActionsQuery>;

export type HealthActionRow = Row<"agent_health_actions">;

const free = v.record(v.string(), v.unknown());
export const healthAction = v.strictObject({
  id: v.string(),
  app: v.string(),
  org: nullable,
  agent: v.string(),
  source: v.picklist(healthSources),
  kind: v.picklist(healthKinds),
  status: v.picklist(healthStatuses),
  title: v.string(),
  description: nullable,
  params: free,
  required: v.boolean(),
  sort_order: v.number(),
  depends_on: v.array(v.string()),
  verify_config: v.nullable(free),
  last_verified_at: v.nullable(stamp),
  last_verifier_message: nullable,
  created_at: stamp,
  updated_at: stamp,
});
export const healthActionList = v.strictObject({ data: v.array(healthAction) });

export const toHealthAction = (row: HealthActionRow): v.InferOutput<typeof healthAction> => ({
  id: row.id,
  app: row.app_id,
  org: real(row.org_id),
  agent: row.agent_id,
  source: row.source,
  kind: row.kind,
  status: row.status,
  title: row.title,
  description: row.description,
  params: row.params,
  required: row.required,
  sort_order: row.sort_order,
  depends_on: row.depends_on,
  verify_config: row.verify_config,
  last_verified_at: row.last_verified_at,
  last_verifier_message: row.last_verifier_message,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
