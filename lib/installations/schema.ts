import * as v from "valibot";
import { installationStates, type Row, sourceStates } from "../db/schema.ts";
import { list, map, metadata, nullable, rule, stamp, text } from "../http/valid.ts";
import { listOf, listQuery } from "../paging.ts";
import { installationKinds, type SourceType, sourceTypes } from "./kinds.ts";

const token = v.optional(v.nullable(v.pipe(text(8192), v.nonEmpty())));
const reference = v.optional(v.nullable(v.pipe(text(200), v.nonEmpty())));

/** What connects it: kept sealed, as a whole, and never answered. */
const integration = v.pipe(
  v.strictObject({
    access_token: token,
    refresh_token: token,
    installation_id: reference,
    workspace_key: reference,
    metadata: v.optional(v.nullable(metadata)),
  }),
  v.check(
    ({ access_token, installation_id }) => Boolean(access_token || installation_id),
    "needs an access_token or an installation_id",
  ),
);
export type Integration = v.InferOutput<typeof integration>;

export const createInstallationBody = v.pipe(
  v.strictObject({
    kind: v.pipe(
      text(100),
      v.check((kind) => Object.hasOwn(installationKinds, kind), "there is no such kind of installation"),
    ),
    lookup_key: v.optional(
      v.nullable(v.pipe(v.string(), v.regex(/^[a-z0-9_-]{1,100}$/, "must be 1 to 100 of a-z, 0-9, _ and -"))),
    ),
    config: v.optional(v.nullable(map)),
    integration: v.optional(v.nullable(integration)),
    shared_integration: v.optional(v.nullable(text(200))),
  }),
  rule(
    "shared_integration",
    ({ integration, shared_integration }) => !(integration && shared_integration),
    "excludes integration: an installation has one",
  ),
  rule("shared_integration", ({ shared_integration }) => !shared_integration, "there is no such integration"),
  rule(
    "integration",
    ({ kind, integration }) => !integration || Boolean(installationKinds[kind]?.provider),
    "is nothing that this kind of installation takes",
  ),
);
export type CreateInstallation = v.InferOutput<typeof createInstallationBody>;

export const suspendBody = v.strictObject({ reason: v.optional(v.nullable(text(500))) });

export const createSourceBody = v.strictObject({
  type: v.pipe(
    text(100),
    v.check((type) => Object.hasOwn(sourceTypes, type), "there is no such type of source"),
    v.transform((type) => type as SourceType),
  ),
  payload: map,
});
export type CreateSource = v.InferOutput<typeof createSourceBody>;

export const listInstallationsQuery = v.object({ agent: v.optional(list(text(255), 100)), ...listQuery });

export type InstallationRow = Row<"agent_installations">;
export type SourceRow = Row<"installation_sources">;

/** What there is to show of an installation: its integration isn't. */
export const shown = [
  ...(["id", "agent_id", "kind", "lookup_key", "state", "config", "status_payload"] as const),
  ...(["created_at", "updated_at"] as const),
];

export const installation = v.strictObject({
  id: v.string(),
  agent: v.string(),
  kind: v.string(),
  lookup_key: nullable,
  state: v.picklist(installationStates),
  config: v.record(v.string(), v.unknown()),
  shared_integration: v.null(),
  status_payload: v.nullable(v.record(v.string(), v.unknown())),
  created_at: stamp,
  updated_at: stamp,
});
export const installationList = v.strictObject({ data: v.array(installation) });
export const installationPage = listOf(installation);

export const toInstallation = (
  row: Pick<InstallationRow, (typeof shown)[number]>,
): v.InferOutput<typeof installation> => ({
  id: row.id,
  agent: row.agent_id,
  kind: row.kind,
  lookup_key: row.lookup_key,
  state: row.state,
  config: row.config,
  shared_integration: null,
  status_payload: row.status_payload,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export const installationKind = v.strictObject({
  kind: v.string(),
  label: v.string(),
  category: v.string(),
  description: v.string(),
  provider: nullable,
  requires_integration: v.boolean(),
  accepts_sources: v.boolean(),
  config_schema: v.record(v.string(), v.unknown()),
});
export const kindList = v.strictObject({ data: v.array(installationKind) });

export const source = v.strictObject({
  id: v.string(),
  agent: v.string(),
  context_installation: v.string(),
  parent_source: v.null(),
  team: v.null(),
  thread: v.null(),
  user: v.null(),
  type: v.string(),
  payload: v.record(v.string(), v.unknown()),
  metadata: v.record(v.string(), v.unknown()),
  state: v.picklist(sourceStates),
  created_at: stamp,
  updated_at: stamp,
});
export const sourceList = v.strictObject({ data: v.array(source) });

export const toSource = (row: SourceRow): v.InferOutput<typeof source> => ({
  id: row.id,
  agent: row.agent_id,
  context_installation: row.installation_id,
  ...{ parent_source: null, team: null, thread: null, user: null },
  type: row.type,
  payload: row.payload,
  metadata: row.metadata,
  state: row.state,
  created_at: row.created_at,
  updated_at: row.updated_at,
});
