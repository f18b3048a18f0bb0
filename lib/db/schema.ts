/**
 * The tables as the driver gives them: timestamps are ISO strings, jsonb is parsed. Owner columns are written by
 * TenantDb alone, so their insert and update types are `never`.
 */
import type { ColumnType, Generated, GeneratedAlways, Selectable } from "kysely";
import type { Id } from "../ids.ts";

/** Production, where a sandbox would be named; no org, where an org would be. */
export const NONE = "-";
export type None = typeof NONE;
/** The wire's null for a sentinel. */
export const real = <T extends string>(id: T | None): T | null => (id === NONE ? null : id);

/** What bounds a database: a developer's app (in one partition), or one org of it. Never a nullable org. */
export type Tenant =
  | { kind: "app"; app: Id<"app">; sandbox: Id<"sandbox"> | None }
  | { kind: "org"; app: Id<"app">; sandbox: Id<"sandbox"> | None; org: Id<"org"> | None };

/**
 * Who asks: a developer, by a key; a person of an org, by a token or a cookie; the org's own work, from a Durable Object; or an agent
 * in that work, with the user that it works for, where there is one. An automation may work for a user alone, or nobody.
 */
export type Viewer =
  | { kind: "key" }
  | { kind: "user"; user: Id<"user">; org: Id<"org"> }
  | { kind: "object" }
  | { kind: "agent"; agent: Id<"agent"> | null; user: Id<"user"> | null };

type Owned<T> = ColumnType<T, never, never>;
type Stamp = ColumnType<string, never, string>;
type Json<T> = ColumnType<T, string | undefined, string>;
type JsonOrNull<T> = ColumnType<T | null, string | null | undefined, string | null>;
type Fixed<T> = ColumnType<T, T, never>;

export type Owner = {
  app_id: Owned<Id<"app">>;
  sandbox_id: Owned<Id<"sandbox"> | None>;
  org_id: Owned<Id<"org"> | None>;
};

export const roles = ["owner", "admin", "member", "billing", "viewer"] as const;
export type Role = (typeof roles)[number];
/** What a group of a provider's may give: an owner is made by a person. */
export const groupRoles = ["admin", "member", "billing", "viewer"] as const;
export type GroupRole = (typeof groupRoles)[number];
/** Whose word a role is. */
export type RoleSource = "manual" | "sso" | "scim";
/** A company, or one person's own. */
export const orgKinds = ["company", "personal"] as const;
export const orgStatuses = ["active", "suspended", "trialing"] as const;
export type OrgStatus = (typeof orgStatuses)[number];
export type Metadata = Record<string, unknown>;

/** `incomplete` lets nobody in; `enforced` nobody by another way. */
export const ssoStatuses = ["incomplete", "untested", "active", "enforced"] as const;
export type SsoStatus = (typeof ssoStatuses)[number];
/** Which attributes or claims say who somebody is: null tries the usual names. */
export type SsoMapping = { email: string | null; name: string | null; groups: string | null; subject: string | null };

export const principalTypes = ["everyone", "org_role", "user", "team", "org", "agent"] as const;
export type AclGrant = { principal_type: (typeof principalTypes)[number]; principal: string | null; actions: string[] };
export type Acl = { grants: AclGrant[] };

/** The columns of what hangs on an agent. It stays there. */
export type OnAgent = Owner & { agent_id: Fixed<Id<"agent">> };
/** Of a run: a routine's, or an automation's. */
export type RunId = Id<"agent_routine_run"> | Id<"automation_run">;
/** The same of what may be an automation's, which acts as an agent or as none. */
type ActsAsAgent = Owner & { agent_id: Fixed<Id<"agent"> | null> };
export const computerStatuses = ["provisioning", "ready", "error", "terminated"] as const;
export type ComputerStatus = (typeof computerStatuses)[number];
export const handlerTypes = ["workflow_graph", "script", "preset", "chain"] as const;
export const triggerContexts = ["event", "chat_session"] as const;
export const routineStatuses = ["draft", "active", "paused"] as const;
export const runStatuses = ["pending", "running", "completed", "failed", "skipped", "cancelled"] as const;
export type RunStatus = (typeof runStatuses)[number];
export const automationTypes = ["trigger", "scheduled", "invoked"] as const;
export type AutomationType = (typeof automationTypes)[number];
export const automationStatuses = ["draft", "active", "paused", "archived"] as const;
export const workerStatuses = ["queued", "executing", "retrying", "completed", "discarded", "cancelled"] as const;
export const workItemStatuses = ["queued", "claimed", "running", "succeeded", "failed"] as const;
export type WorkItemStatus = (typeof workItemStatuses)[number];
export const scheduleTypes = ["once", "recurring"] as const;
export const scheduleStatuses = ["active", "paused", "completed", "cancelled", "expired"] as const;
export type ScheduleStatus = (typeof scheduleStatuses)[number];
/** What an occurrence does where another of its own is under way. */
export const overlaps = ["skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"] as const;
export type Overlap = (typeof overlaps)[number];
/** Which of those that nobody was there for come late. */
export const catchups = ["none", "one", "all"] as const;
export type Catchup = (typeof catchups)[number];
export const occurrenceOutcomes = [
  ...(["fired", "buffered", "skipped_overlap", "missed", "suspended", "cancelled", "backfilled"] as const),
] as const;
export type OccurrenceOutcome = (typeof occurrenceOutcomes)[number];

export const toolKinds = ["builtin", "custom", "mcp"] as const;
export type ToolKind = (typeof toolKinds)[number];
export const toolStatuses = ["active", "disabled"] as const;
export type ToolStatus = (typeof toolStatuses)[number];
export const toolHandlers = ["http", "script", "builtin", "workflow_graph"] as const;
export type ToolHandler = (typeof toolHandlers)[number];
/** What a call does to the world, and so whether it may be made again when nobody knows whether it was made. */
export const effects = ["read", "idempotent", "once"] as const;
export type Effect = (typeof effects)[number];
export const approvals = ["none", "required"] as const;
export type Approval = (typeof approvals)[number];
export const skillStatuses = ["active", "inactive"] as const;
export type SkillStatus = (typeof skillStatuses)[number];
export const healthSources = ["setup", "health"] as const;
export type HealthSource = (typeof healthSources)[number];
export const healthKinds = ["env_var", "install", "custom", "integration"] as const;
export type HealthKind = (typeof healthKinds)[number];
export const healthStatuses = ["pending", "completed", "skipped", "degraded"] as const;
export type HealthStatus = (typeof healthStatuses)[number];

export const modelOperations = ["chat", "image", "embedding", "evaluation"] as const;
export type ModelOperation = (typeof modelOperations)[number];
export const modelCallStatuses = ["unknown", "completed", "failed", "cancelled"] as const;
export type ModelCallStatus = (typeof modelCallStatuses)[number];

export const sessionStatuses = ["pending", "running", "waiting", "completed", "failed", "cancelled"] as const;
export type SessionStatus = (typeof sessionStatuses)[number];
export const callOutcomes = [
  "pending",
  "awaiting_approval",
  "running",
  /** An async tool was called: its result joins later. */
  "accepted",
  "succeeded",
  "failed",
  "denied",
  "unknown",
] as const;
export type CallOutcome = (typeof callOutcomes)[number];

export const installationStates = ["pending", "active", "paused", "suspended"] as const;
export type InstallationState = (typeof installationStates)[number];
export const sourceStates = ["pending", "active", "paused"] as const;
export const webhookProviders = ["standard", "github", "stripe", "slack", "hmac", "url"] as const;
export type WebhookProvider = (typeof webhookProviders)[number];
/** How what a webhook is sent was signed, where no known provider did. */
export type HmacScheme = {
  header: string;
  algorithm: "sha256" | "sha512" | "sha1";
  encoding: "hex" | "base64";
  prefix: string;
  timestamp_header: string | null;
  signed: "body" | "timestamp.body" | "v0:timestamp:body";
  id_header: string;
};
export const receiptStatuses = ["received", "started", "inactive", "answered"] as const;
export type ReceiptStatus = (typeof receiptStatuses)[number];
export const subscriptionStatuses = ["active", "paused"] as const;
export const webhookOrderings = ["none", "strict"] as const;
export const webhookStatuses = ["enabled", "disabled"] as const;
/** Why one is disabled: somebody asked for it, nothing has succeeded for days, or its receiver says that it is gone. */
export const disabledReasons = ["asked", "failing", "gone"] as const;
export type DisabledReason = (typeof disabledReasons)[number];
export const deliveryStatuses = ["pending", "delivered", "dead"] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];
export type SourceState = (typeof sourceStates)[number];

/** What came of one try to deliver: a `status` where anything answered, the beginning of that, an `error` where nothing did. */
export type WebhookAttempt = {
  sent_at: string;
  status: number | null;
  latency_ms: number;
  answered: string | null;
  error: string | null;
};

export interface Database {
  apps: { id: Fixed<Id<"app">>; name: string; settings: Json<Metadata>; created_at: Stamp; updated_at: Stamp };
  tenants: Owner;
  sandboxes: Owner & {
    id: GeneratedAlways<Id<"sandbox">>;
    name: string;
    slug: string;
    for_org_id: Id<"org"> | null;
    purpose: string | null;
    expires_at: string | null;
    created_at: Stamp;
    updated_at: Stamp;
  };
  orgs: Owner & {
    id: Fixed<Id<"org">>;
    name: string;
    slug: string;
    domain: string;
    website: string | null;
    industry: string | null;
    description: string | null;
    status: OrgStatus;
    created_at: Stamp;
    updated_at: Stamp;
    kind: Generated<(typeof orgKinds)[number]>;
    owner_user_id: Fixed<Id<"user"> | null>;
  };
  users: Owner & {
    id: Fixed<Id<"user">>;
    email: string | null;
    email_key: GeneratedAlways<string | null>;
    name: string | null;
    alias: string | null;
    role: Role | null;
    is_system_user: boolean;
    metadata: Json<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
    ended_at: ColumnType<string | null, never, string>;
    deactivated_at: ColumnType<string | null, string | null | undefined, string | null>;
    role_source: Generated<RoleSource>;
    scim: JsonOrNull<Record<string, string>>;
    scim_user_name: GeneratedAlways<string | null>;
    scim_external_id: GeneratedAlways<string | null>;
  };
  org_domains: Owner & {
    id: Fixed<Id<"org_domain">>;
    domain: Fixed<string>;
    challenge: Fixed<string | null>;
    verified_by: "developer" | "dns" | null;
    verified_at: string | null;
    created_at: Stamp;
    updated_at: Stamp;
  };
  org_invitations: Owner & {
    id: Fixed<Id<"invitation">>;
    email: Fixed<string>;
    email_key: GeneratedAlways<string>;
    role: Fixed<Role>;
    invited_by: Fixed<Id<"user"> | null>;
    sent_at: Stamp;
    expires_at: string;
    created_at: Stamp;
    updated_at: Stamp;
  };
  user_invites: Owner & {
    id: Fixed<Id<"user_invite">>;
    user_id: Fixed<Id<"user">>;
    hash: Fixed<Uint8Array>;
    metadata: Json<Metadata>;
    accepted_by: ColumnType<Id<"user"> | null, never, Id<"user">>;
    expires_at: Fixed<string>;
    created_at: Stamp;
  };
  scim_tokens: Owner & {
    id: Fixed<Id<"scim_token">>;
    hash: Fixed<Uint8Array>;
    hint: Fixed<string>;
    last_used_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
  };
  scim_groups: Owner & {
    id: Fixed<Id<"scim_group">>;
    display_name: string;
    name_key: GeneratedAlways<string>;
    external_id: string | null;
    role: ColumnType<GroupRole | null, never, GroupRole | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  scim_members: Owner & {
    group_id: Fixed<Id<"scim_group">>;
    user_id: Fixed<Id<"user">>;
  };
  keys: Owner & {
    id: Fixed<Id<"key">>;
    type: Fixed<"publishable" | "secret">;
    hash: Fixed<Uint8Array>;
    hint: Fixed<string>;
    value: Fixed<string | null>;
    last_used_at: ColumnType<string | null, never, string>;
    expires_at: Fixed<string | null>;
    revoked_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
  };
  token_families: Owner & {
    id: Fixed<Id<"sign_in">>;
    user_id: Fixed<Id<"user">>;
    scopes: Fixed<string[]>;
    access_lifetime_s: Fixed<number>;
    generation: Generated<number>;
    token_id: Id<"token"> | null;
    rotated_at: Stamp;
    expires_at: string;
    revoked_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
    method: Fixed<string>;
    carrier: Fixed<"api" | "browser">;
    auth_time: Fixed<string | null>;
    actor: Fixed<string | null>;
    idle_s: Fixed<number>;
    ends_at: Fixed<string>;
    last_used_at: ColumnType<string | null, never, string>;
    user_agent: Fixed<string | null>;
    details: Json<Metadata>;
  };
  tokens: Owner & {
    id: Fixed<Id<"token">>;
    user_id: Fixed<Id<"user">>;
    family_id: Fixed<Id<"sign_in"> | null>;
    name: Fixed<string | null>;
    scopes: Fixed<string[]>;
    created_by_user: Fixed<Id<"user"> | null>;
    last_used_at: ColumnType<string | null, never, string>;
    expires_at: Fixed<string>;
    revoked_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
    auth_time: Fixed<string | null>;
    actor: Fixed<string | null>;
  };
  passwords: Owner & {
    user_id: Fixed<Id<"user">>;
    salt: Fixed<Uint8Array>;
    rounds: Fixed<number>;
    hash: Fixed<Uint8Array>;
    changed_at: Stamp;
    proven: Generated<boolean>;
  };
  one_time_secrets: Owner & {
    kind: Fixed<string>;
    hash: Fixed<Uint8Array>;
    user_id: Fixed<Id<"user"> | null>;
    payload: Json<Metadata>;
    attempts: Generated<number>;
    used_at: ColumnType<string | null, never, string>;
    expires_at: string;
    created_at: Stamp;
  };
  developers: Owner & {
    id: Fixed<Id<"developer">>;
    email: Fixed<string>;
    email_key: GeneratedAlways<string>;
    created_at: Stamp;
  };
  developer_sessions: Owner & {
    id: Fixed<Id<"developer_session">>;
    developer_id: Fixed<Id<"developer">>;
    idle_s: Fixed<number>;
    last_used_at: string | null;
    expires_at: string;
    ends_at: Fixed<string>;
    created_at: Stamp;
  };
  sandbox_mails: Owner & {
    id: Fixed<Id<"sandbox_mail">>;
    to: Fixed<string>;
    subject: Fixed<string>;
    text: Fixed<string>;
    created_at: Stamp;
  };
  oauth_clients: Owner & {
    id: Fixed<Id<"oauth_client">>;
    name: string;
    redirect_uris: string[];
    scopes: string[];
    created_at: Stamp;
    updated_at: Stamp;
  };
  sso_connections: Owner & {
    id: Fixed<Id<"sso">>;
    provider: "saml" | "oidc";
    status: SsoStatus;
    issuer_url: string | null;
    entity_id: string | null;
    sso_url: string | null;
    slo_url: string | null;
    certificates: string[];
    client_id: string | null;
    sealed: Uint8Array | null;
    tag: Uint8Array | null;
    auto_provision: boolean;
    jit_provisioning: boolean;
    attribute_mapping: Json<SsoMapping>;
    role_mapping: Json<{ group: string; role: Role }[]>;
    default_role: Role;
    session_max_s: number;
    allow_idp_initiated: boolean;
    break_glass: string[];
    revision: Generated<number>;
    created_at: Stamp;
    updated_at: Stamp;
    idp_metadata_url: string | null;
    certificate_ends: Generated<string[]>;
    warn_at: string | null;
  };
  sso_identities: Owner & {
    id: Fixed<Id<"sso_identity">>;
    connection_id: Fixed<Id<"sso">>;
    subject: Fixed<string>;
    user_id: Fixed<Id<"user">>;
    created_at: Stamp;
  };
  sso_attempts: Owner & {
    id: Fixed<Id<"sso_attempt">>;
    connection_id: Fixed<Id<"sso">>;
    refusal: Fixed<string | null>;
    subject: Fixed<string | null>;
    created_at: Stamp;
    refusals: Generated<number>;
    told_at: string | null;
  };
  agents: Owner & {
    id: Fixed<Id<"agent">>;
    user_id: Id<"user"> | null;
    name: string | null;
    description: string | null;
    identity: string | null;
    default_model: string | null;
    originator: string | null;
    lookup_key: string | null;
    template_config_id: Fixed<Id<"config"> | null>;
    metadata: Json<Metadata>;
    acl: JsonOrNull<Acl>;
    readers: GeneratedAlways<string[] | null>;
    writers: GeneratedAlways<string[] | null>;
    created_at: Stamp;
    updated_at: Stamp;
    ended_at: ColumnType<string | null, never, string>;
  };
  configs: Owner & {
    id: Fixed<Id<"config">>;
    kind: Fixed<string>;
    user_id: Id<"user"> | null;
    agent_id: Id<"agent"> | null;
    lookup_key: string | null;
    virtual_path: string | null;
    parent_id: Fixed<Id<"config"> | null>;
    relative_path: string | null;
    solution_id: Id<"config"> | null;
    mime_type: string;
    version_number: Generated<number>;
    content_hash: string;
    archived_at: ColumnType<string | null, never, string | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  config_versions: Owner & {
    id: Fixed<Id<"config_version">>;
    config_id: Fixed<Id<"config">>;
    version_number: Fixed<number>;
    content_hash: Fixed<string>;
    mime_type: Fixed<string>;
    encoding: Fixed<"raw" | "base64">;
    content: Fixed<string>;
    data: ColumnType<Metadata | null, string | null | undefined, never>;
    change_description: Fixed<string | null>;
    created_at: Stamp;
  };
  secret_keys: Owner & {
    id: GeneratedAlways<string>;
    sealed: Fixed<Uint8Array>;
    tag: Fixed<Uint8Array>;
    created_at: Stamp;
  };
  agent_computers: OnAgent & {
    id: Fixed<Id<"agent_computer">>;
    name: Fixed<string>;
    lookup_key: Fixed<string | null>;
    provider: Fixed<string>;
    region: Fixed<string>;
    config: Json<Metadata>;
    status: Generated<ComputerStatus>;
    error_message: string | null;
    last_active_at: ColumnType<string | null, never, string>;
    asked_at: string | null;
    screen: ColumnType<string | null, never, string>;
    metadata: Json<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_tools: OnAgent & {
    id: Fixed<Id<"agent_tool">>;
    kind: Fixed<ToolKind>;
    status: Generated<ToolStatus>;
    name: string | null;
    name_prefix: string | null;
    function_name: GeneratedAlways<string | null>;
    description: string | null;
    instruction: string | null;
    handler_type: ToolHandler | null;
    builtin_tool_key: Fixed<string | null>;
    builtin_tool_config: JsonOrNull<Metadata>;
    parameters: JsonOrNull<Metadata>;
    parameters_config_id: Id<"config"> | null;
    config_id: Id<"config"> | null;
    config_kind: GeneratedAlways<string | null>;
    effect: Effect | null;
    approval: Generated<Approval>;
    async: Generated<boolean>;
    lookup_key: string | null;
    template_config_id: Id<"config"> | null;
    metadata: Json<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_routines: OnAgent & {
    id: Fixed<Id<"agent_routine">>;
    user_id: Id<"user"> | null;
    name: string;
    description: string | null;
    lookup_key: string | null;
    status: Generated<(typeof routineStatuses)[number]>;
    trigger_context: Generated<(typeof triggerContexts)[number]>;
    event_type: string | null;
    event_config: JsonOrNull<Metadata>;
    schedule: string | null;
    interval_s: number | null;
    /** The Scheduler says it; null until it has. */
    next_run_at: ColumnType<string | null, never, string | null>;
    due_at: GeneratedAlways<string | null>;
    heard_since: GeneratedAlways<Record<string, number> | null>;
    handler_type: (typeof handlerTypes)[number];
    config_id: Id<"config"> | null;
    config_kind: GeneratedAlways<string | null>;
    script: string | null;
    preset_name: string | null;
    preset_config: JsonOrNull<Metadata>;
    steps: Json<Metadata[]>;
    message_policy: JsonOrNull<Metadata>;
    template_config_id: Id<"config"> | null;
    metadata: Json<Metadata>;
    acl: JsonOrNull<Acl>;
    readers: GeneratedAlways<string[] | null>;
    writers: GeneratedAlways<string[] | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_routine_configs: OnAgent & {
    routine_id: Fixed<Id<"agent_routine">>;
    config_id: Fixed<Id<"config">>;
    config_kind: Fixed<string>;
  };
  /** What starts an automation: a row beside each config of that kind, with the same id. */
  automations: Owner & {
    id: Fixed<Id<"config">>;
    status: (typeof automationStatuses)[number];
    automation_type: AutomationType;
    agent_id: Id<"agent"> | null;
    user_id: Id<"user"> | null;
    config_id: Id<"config"> | null;
    event_type: string | null;
    event_config: JsonOrNull<Metadata>;
    schedule: string | null;
    said: Json<Metadata>;
    /** The Scheduler says it; null until it has. */
    next_run_at: ColumnType<string | null, never, string | null>;
    due_at: GeneratedAlways<string | null>;
    heard_since: GeneratedAlways<Record<string, number> | null>;
    updated_at: Stamp;
  };
  /** Runs, of routines and of automations. */
  agent_routine_runs: ActsAsAgent & {
    id: Fixed<RunId>;
    routine_id: Fixed<Id<"agent_routine"> | null>;
    automation_id: Fixed<Id<"config"> | null>;
    user_id: Fixed<Id<"user"> | null>;
    status: ColumnType<RunStatus, never, RunStatus>;
    event_id: Fixed<string | null>;
    idempotency_key: Fixed<string | null>;
    payload: Json<Metadata>;
    participants: JsonOrNull<Metadata>;
    delivery: Json<Metadata>;
    worker_status: ColumnType<(typeof workerStatuses)[number], never, (typeof workerStatuses)[number]>;
    attempt: ColumnType<number, never, number>;
    max_attempts: ColumnType<number, never, number>;
    duration_ms: ColumnType<number | null, never, number>;
    result: JsonOrNull<Metadata>;
    structured_response: JsonOrNull<Metadata>;
    event_name: ColumnType<string, string | undefined, never>;
    planned_at: Fixed<string | null>;
    causes: ColumnType<string[], string[] | undefined, never>;
    dedupe_key: Fixed<string | null>;
    admitted_at: ColumnType<string | null, never, string>;
    sequence: ColumnType<number, never, number>;
    started_at: ColumnType<string | null, never, string>;
    completed_at: ColumnType<string | null, never, string>;
    look_at: ColumnType<string | null, never, string | null>;
    metadata: Json<Metadata>;
    acl: JsonOrNull<Acl>;
    readers: GeneratedAlways<string[] | null>;
    writers: GeneratedAlways<string[] | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  work_items: OnAgent & {
    id: Fixed<Id<"work_item">>;
    run_id: Fixed<string>;
    command_id: Fixed<string>;
    node_id: Fixed<string>;
    payload: Json<Metadata>;
    status: ColumnType<WorkItemStatus, never, WorkItemStatus>;
    attempt_count: ColumnType<number, never, number>;
    lease_hash: ColumnType<Uint8Array | null, never, Uint8Array>;
    lease_expires_at: ColumnType<string | null, never, string | null>;
    result: JsonOrNull<Metadata>;
    error: JsonOrNull<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_schedules: OnAgent & {
    id: Fixed<Id<"agent_schedule">>;
    schedule_type: Fixed<(typeof scheduleTypes)[number]>;
    cron_expression: string | null;
    scheduled_at: string | null;
    timezone: string;
    instructions: string;
    max_runs: number | null;
    run_count: ColumnType<number, never, number>;
    status: ColumnType<ScheduleStatus, never, ScheduleStatus>;
    next_run_at: string | null;
    last_run_at: ColumnType<string | null, never, string>;
    overlap: Generated<Overlap>;
    catchup: Generated<Catchup>;
    catchup_window_seconds: Generated<number>;
    jitter_seconds: Generated<number>;
    /** When it is to be fired: `next_run_at`, and its jitter. */
    due_at: GeneratedAlways<string | null>;
    metadata: Json<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  occurrences: ActsAsAgent & {
    id: Fixed<Id<"occurrence">>;
    schedule_id: Fixed<Id<"agent_schedule"> | null>;
    routine_id: Fixed<Id<"agent_routine"> | null>;
    automation_id: Fixed<Id<"config"> | null>;
    planned_at: Fixed<string>;
    /** Null: it hasn't begun. It waits, where its outcome is buffered or backfilled. */
    fired_at: ColumnType<string | null, never, string>;
    outcome: OccurrenceOutcome;
    overlap: Overlap;
    session_id: ColumnType<Id<"agent_session"> | null, never, Id<"agent_session">>;
    run_id: ColumnType<RunId | null, never, RunId>;
    created_at: Stamp;
  };
  agent_skills: OnAgent & {
    id: Fixed<Id<"agent_skill">>;
    config_id: Id<"config">;
    config_kind: GeneratedAlways<string>;
    instruction: string | null;
    status: Generated<SkillStatus>;
    template_config_id: Id<"config"> | null;
    metadata: Json<Metadata>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_health_actions: OnAgent & {
    id: Fixed<Id<"agent_health_action">>;
    source: Fixed<HealthSource>;
    kind: Fixed<HealthKind>;
    status: Generated<HealthStatus>;
    title: Fixed<string>;
    description: Fixed<string | null>;
    params: Json<Metadata>;
    required: Generated<boolean>;
    sort_order: Generated<number>;
    depends_on: Generated<string[]>;
    verify_config: JsonOrNull<Metadata>;
    script_id: GeneratedAlways<Id<"config"> | null>;
    script_kind: GeneratedAlways<string>;
    dedupe_key: Fixed<string | null>;
    last_verified_at: ColumnType<string | null, never, string>;
    last_verifier_message: ColumnType<string | null, never, string | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_env_vars: OnAgent & {
    id: Fixed<Id<"agent_env_var">>;
    key: Fixed<string>;
    description: string | null;
    sealed: Uint8Array;
    tag: Uint8Array;
    hint: string | null;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_installations: OnAgent & {
    id: Fixed<Id<"agent_installation">>;
    kind: Fixed<string>;
    lookup_key: Fixed<string | null>;
    state: Generated<InstallationState>;
    config: Json<Metadata>;
    status_payload: JsonOrNull<Metadata>;
    sealed: Fixed<Uint8Array | null>;
    tag: Fixed<Uint8Array | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  installation_sources: OnAgent & {
    id: Fixed<Id<"installation_source">>;
    installation_id: Fixed<Id<"agent_installation">>;
    type: Fixed<string>;
    payload: Json<Metadata>;
    metadata: Json<Metadata>;
    state: ColumnType<SourceState, never, SourceState>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  agent_working_memory: OnAgent & {
    id: Fixed<Id<"working_memory_entry">>;
    key: Fixed<string>;
    value: string;
    expires_at: string | null;
    created_at: Stamp;
    updated_at: Stamp;
  };
  activity_feed_entries: Owner & {
    id: Fixed<Id<"activity_feed_entry">>;
    kind: Fixed<string>;
    level: Fixed<"info" | "warning" | "error">;
    title: Fixed<string | null>;
    content: Fixed<string | null>;
    correlation_id: Fixed<string | null>;
    agent_id: Fixed<Id<"agent"> | null>;
    user_id: Fixed<Id<"user"> | null>;
    readers: Fixed<string[] | null>;
    metadata: Json<Metadata>;
    created_at: Stamp;
  };
  agent_sessions: OnAgent & {
    id: Fixed<Id<"agent_session">>;
    user_id: Fixed<Id<"user"> | null>;
    trajectory_id: Fixed<Id<"trajectory">>;
    name: Fixed<string | null>;
    instructions: Fixed<string>;
    max_turns: Fixed<number>;
    max_tokens: Fixed<number>;
    max_runs_per_turn: Fixed<number>;
    start_idle: Fixed<boolean>;
    on_idle: Fixed<"wait" | "complete">;
    result_schema: JsonOrNull<Metadata>;
    is_system_session: Generated<boolean>;
    routine_run_id: ColumnType<RunId | null, RunId | null | undefined, never>;
    schedule_id: ColumnType<Id<"agent_schedule"> | null, Id<"agent_schedule"> | null | undefined, never>;
    /** Null: its agent's. */
    model: ColumnType<string | null, string | null | undefined, never>;
    /** The routines whose runs led to it, oldest first. */
    causes: ColumnType<string[], string[] | undefined, never>;
    metadata: Json<Metadata>;
    status: Generated<SessionStatus>;
    error: ColumnType<string | null, never, string | null>;
    result: JsonOrNull<Metadata>;
    /** Of the newest frame that the columns above and below tell of. */
    sequence: ColumnType<number, never, number>;
    started_at: ColumnType<string | null, never, string>;
    completed_at: ColumnType<string | null, never, string>;
    /** When its object is to be looked after, if nobody has heard of it by then. Null: it waits for somebody. */
    look_at: Generated<string | null>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  tool_calls: ActsAsAgent & {
    id: Fixed<Id<"tool_call">>;
    /** One of the two. */
    session_id: Fixed<Id<"agent_session"> | null>;
    routine_run_id: Fixed<RunId | null>;
    name: Fixed<string>;
    turn: Fixed<number>;
    arguments: ColumnType<Metadata, string, never>;
    arguments_hash: Fixed<string>;
    effect: Effect | null;
    outcome: CallOutcome;
    error: string | null;
    attempts: number;
    sequence: number;
    requested_at: Fixed<string>;
    started_at: string | null;
    completed_at: string | null;
  };
  events: Owner & {
    id: Fixed<Id<"event">>;
    position: GeneratedAlways<number>;
    /** Null until it is given. */
    sequence: ColumnType<number | null, never, number>;
    name: Fixed<string>;
    payload: ColumnType<Metadata, string, never>;
    agent_id: Fixed<Id<"agent"> | null>;
    user_id: Fixed<Id<"user"> | null>;
    readers: Fixed<string[] | null>;
    causes: Fixed<string[]>;
    idempotency_key: ColumnType<string | null, string | null | undefined, never>;
    created_at: Stamp;
  };
  event_heads: Owner & {
    id: GeneratedAlways<Id<"org"> | None>;
    sequence: ColumnType<number, never, number>;
    delivered: ColumnType<number, never, number>;
    expired: ColumnType<number, never, never>;
    woken_at: ColumnType<string | null, never, never>;
  };
  event_waits: Owner & {
    id: Fixed<Id<"event_wait">>;
    run_id: Fixed<RunId>;
    name: Fixed<string>;
    filters: Json<Metadata>;
    since: Fixed<number>;
    event_id: ColumnType<Id<"event"> | null, never, Id<"event">>;
    created_at: Stamp;
  };
  event_subscriptions: Owner & {
    id: Fixed<Id<"event_subscription">>;
    user_id: Fixed<Id<"user"> | null>;
    name: string;
    event_names: string[];
    status: Generated<(typeof subscriptionStatuses)[number]>;
    heard_since: GeneratedAlways<Record<string, number> | null>;
    max_pending_events: number;
    retention_seconds: number;
    visibility_timeout_seconds: number;
    tag: GeneratedAlways<string>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  webhook_endpoints: Owner & {
    id: Fixed<Id<"webhook_endpoint">>;
    url: string;
    event_names: string[];
    ordering: Generated<(typeof webhookOrderings)[number]>;
    status: Generated<(typeof webhookStatuses)[number]>;
    heard_since: GeneratedAlways<number>;
    heard_after: ColumnType<number, never, number>;
    disabled_reason: ColumnType<DisabledReason | null, never, DisabledReason | null>;
    disabled_at: ColumnType<string | null, never, string | null>;
    disabled_after: ColumnType<number | null, never, number | null>;
    failing_since: ColumnType<string | null, never, string | null>;
    failing_told: ColumnType<number, never, number>;
    sealed: Uint8Array;
    tag: Uint8Array;
    overlap_expires_at: ColumnType<string | null, never, string | null>;
    created_at: Stamp;
    updated_at: Stamp;
    looked_at: ColumnType<string | null, never, never>;
  };
  webhook_deliveries: Owner & {
    id: Fixed<Id<"webhook_delivery">>;
    endpoint_id: Fixed<Id<"webhook_endpoint">>;
    event_id: Fixed<Id<"event">>;
    event_org_id: Fixed<Id<"org"> | None>;
    event_name: Fixed<string>;
    sequence: Fixed<number>;
    status: DeliveryStatus;
    attempts: Json<WebhookAttempt[]>;
    attempt_count: number;
    next_attempt_at: string | null;
    revision: number;
    created_at: Stamp;
    updated_at: Stamp;
  };
  inbound_webhooks: Owner & {
    id: Fixed<Id<"inbound_webhook">>;
    name: string;
    provider: Fixed<WebhookProvider>;
    routine_id: Id<"agent_routine"> | null;
    automation_id: Id<"config"> | null;
    hmac: JsonOrNull<HmacScheme>;
    token_hash: Uint8Array;
    previous_token_hash: Uint8Array | null;
    overlap_expires_at: string | null;
    sealed: Uint8Array | null;
    tag: Uint8Array | null;
    counted_since: Stamp;
    counted: Generated<number>;
    last_received_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
    updated_at: Stamp;
  };
  webhook_receipts: Owner & {
    id: Fixed<Id<"webhook_receipt">>;
    webhook_id: Fixed<Id<"inbound_webhook">>;
    delivery_id: Fixed<string | null>;
    status: Fixed<ReceiptStatus>;
    event_id: Fixed<Id<"event"> | null>;
    run_id: Fixed<RunId | null>;
    replay_of: Fixed<Id<"webhook_receipt"> | null>;
    payload: Json<Metadata>;
    body: Fixed<Uint8Array | null>;
    created_at: Stamp;
  };
  model_calls: Owner & {
    id: Fixed<Id<"model_call">>;
    user_id: Fixed<Id<"user"> | null>;
    session_id: Fixed<string | null>;
    operation: Fixed<ModelOperation>;
    model: Fixed<string>;
    status: ColumnType<ModelCallStatus, never, ModelCallStatus>;
    input_tokens: ColumnType<number | null, never, number | null>;
    output_tokens: ColumnType<number | null, never, number | null>;
    cached_tokens: ColumnType<number | null, never, number | null>;
    reasoning_tokens: ColumnType<number | null, never, number | null>;
    created_at: Stamp;
    completed_at: ColumnType<string | null, never, string>;
  };
  idempotency_keys: Owner & {
    subject: Fixed<string>;
    key: Fixed<string>;
    fingerprint: Fixed<Uint8Array>;
    row_id: Fixed<string>;
    created_at: Stamp;
  };
}

export type TenantTable = keyof Database;
/** A row as it is read. */
export type Row<T extends TenantTable> = Selectable<Database[T]>;
