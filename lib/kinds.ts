/**
 * Every kind of row that has an id, and all that is the same for the kind wherever it turns up: the prefix of its ids,
 * its table, what a refusal calls it, and what the activity feed tells of it. A new kind is a line here.
 */
const kind = <
  const F extends {
    prefix: string;
    table: string | null;
    name: string;
    /** The column that people know a row by; without it, its id. */
    title?: string;
    /** Its rows have access lists of their own, which narrow their agent's. */
    acl?: true;
    tells?: readonly string[];
    /** The column that says what its rows are in: each change of it is an event. */
    state?: "status" | "state";
  },
>(
  facts: F,
) => facts;
const changes = ["created", "updated", "deleted"] as const;

export const kinds = {
  activity_feed_entry: kind({ prefix: "afe", table: "activity_feed_entries", name: "activity feed entry" }),
  agent: kind({ prefix: "agi", table: "agents", name: "agent", tells: changes }),
  agent_computer: kind({
    ...{ prefix: "cmp", state: "status", table: "agent_computers", name: "computer", title: "name", tells: changes },
  }),
  agent_health_action: kind({
    ...{
      prefix: "aha",
      state: "status",
      table: "agent_health_actions",
      name: "health action",
      title: "title",
      tells: changes,
    },
  }),
  agent_skill: kind({ prefix: "ask", state: "status", table: "agent_skills", name: "skill", tells: changes }),
  agent_tool: kind({
    prefix: "atl",
    state: "status",
    table: "agent_tools",
    name: "tool",
    title: "name",
    tells: changes,
  }),
  agent_env_var: kind({
    ...{ prefix: "anv", table: "agent_env_vars", name: "env var", title: "key", tells: changes },
  }),
  agent_routine: kind({
    ...{
      prefix: "arn",
      state: "status",
      table: "agent_routines",
      name: "routine",
      title: "name",
      acl: true,
      tells: changes,
    },
  }),
  agent_routine_run: kind({
    ...{
      prefix: "arr",
      state: "status",
      table: "agent_routine_runs",
      name: "routine run",
      acl: true,
      tells: ["created", "updated"],
    },
  }),
  agent_schedule: kind({ prefix: "asc", state: "status", table: "agent_schedules", name: "schedule", tells: changes }),
  agent_installation: kind({
    ...{
      prefix: "cin",
      state: "state",
      table: "agent_installations",
      name: "installation",
      title: "kind",
      tells: changes,
    },
  }),
  agent_session: kind({ prefix: "ase", state: "status", table: "agent_sessions", name: "session", tells: changes }),
  app: kind({ prefix: "dap", table: "apps", name: "app" }),
  // It lies beside the runs of routines.
  automation_run: kind({
    ...{
      prefix: "atr",
      state: "status",
      table: "agent_routine_runs",
      name: "automation run",
      tells: ["created", "updated"],
    },
  }),
  config: kind({ prefix: "cfg", table: "configs", name: "config", tells: changes }),
  config_version: kind({ prefix: "cfv", table: "config_versions", name: "config version" }),
  developer: kind({ prefix: "dva", table: "developers", name: "developer" }),
  developer_session: kind({ prefix: "dvs", table: "developer_sessions", name: "developer's sign-in" }),
  event: kind({ prefix: "evt", table: "events", name: "event" }),
  event_subscription: kind({
    ...{ prefix: "esub", state: "status", table: "event_subscriptions", name: "event subscription", tells: changes },
  }),
  // What a queue holds: its Durable Object has it.
  event_subscription_delivery: kind({ prefix: "esd", table: null, name: "delivery" }),
  // What a run waits for.
  event_wait: kind({ prefix: "ewt", table: "event_waits", name: "wait for an event" }),
  inbound_webhook: kind({
    ...{ prefix: "whi", table: "inbound_webhooks", name: "inbound webhook", title: "name", tells: changes },
  }),
  installation_source: kind({
    ...{
      prefix: "cso",
      state: "state",
      table: "installation_sources",
      name: "installation source",
      title: "type",
      tells: changes,
    },
  }),
  // Into an org.
  invitation: kind({
    ...{ prefix: "inv", table: "org_invitations", name: "invitation", title: "email" },
    tells: ["created", "resent", "revoked", "accepted"],
  }),
  key: kind({ prefix: "dsk", table: "keys", name: "key", tells: ["created", "revoked"] }),
  model_call: kind({ prefix: "mcl", table: "model_calls", name: "model call" }),
  oauth_client: kind({ prefix: "cli", table: "oauth_clients", name: "OAuth client", title: "name", tells: changes }),
  occurrence: kind({ prefix: "occ", table: "occurrences", name: "occurrence" }),
  org: kind({ prefix: "org", state: "status", table: "orgs", name: "org", tells: changes }),
  org_domain: kind({
    ...{ prefix: "dom", table: "org_domains", name: "domain", title: "domain" },
    tells: ["created", "verified", "deleted"],
  }),
  sandbox: kind({ prefix: "dsb", table: "sandboxes", name: "sandbox" }),
  sandbox_mail: kind({ prefix: "dsm", table: "sandbox_mails", name: "mail" }),
  // A user whom a provider keeps, which is one of `users`.
  scim: kind({
    ...{ prefix: "scm", table: null, name: "user of a provider" },
    tells: ["created", "updated", "deactivated", "deleted"],
  }),
  scim_group: kind({ prefix: "scg", table: "scim_groups", name: "SCIM group", title: "display_name", tells: changes }),
  scim_token: kind({ prefix: "sct", table: "scim_tokens", name: "SCIM token", tells: ["created", "deleted"] }),
  // Access lists may name one; there is no table of them yet.
  team: kind({ prefix: "tem", table: null, name: "team" }),
  sso: kind({ prefix: "sso", table: "sso_connections", name: "SSO connection", title: "provider", tells: changes }),
  sso_attempt: kind({ prefix: "ssa", table: "sso_attempts", name: "try to sign in" }),
  sso_identity: kind({ prefix: "ssi", table: "sso_identities", name: "SSO identity" }),
  sign_in: kind({ prefix: "saf", table: "token_families", name: "sign-in", tells: ["succeeded", "refused", "ended"] }),
  token: kind({ prefix: "sat", table: "tokens", name: "token", tells: ["created", "revoked", "reuse_detected"] }),
  tool_call: kind({ prefix: "tcl", table: "tool_calls", name: "tool call" }),
  // A session's own history: its row holds the id.
  trajectory: kind({ prefix: "trj", table: null, name: "trajectory" }),
  user: kind({ prefix: "usr", table: "users", name: "user", tells: changes }),
  // Of a user, to the others of its org.
  user_invite: kind({ prefix: "uin", table: "user_invites", name: "invite", tells: ["created", "accepted"] }),
  webhook_delivery: kind({ prefix: "whd", table: "webhook_deliveries", name: "webhook delivery" }),
  webhook_endpoint: kind({
    ...{ prefix: "whe", state: "status", table: "webhook_endpoints", name: "webhook endpoint", tells: changes },
  }),
  webhook_receipt: kind({ prefix: "whr", table: "webhook_receipts", name: "webhook receipt" }),
  work_item: kind({
    ...{ prefix: "wdi", table: "work_items", name: "work item", state: "status", tells: ["created", "updated"] },
  }),
  working_memory_entry: kind({
    ...{ prefix: "amm", table: "agent_working_memory", name: "working memory entry", title: "key", tells: changes },
  }),
};

type Kinds = typeof kinds;
export type Kind = keyof Kinds;
/** A kind whose rows lie in a table. */
export type StoredKind = { [K in Kind]: Kinds[K]["table"] extends string ? K : never }[Kind];
/** The table of a kind's rows. */
export type TableOf<K extends StoredKind> = Kinds[K]["table"];

type Tells<K extends Kind> = Kinds[K] extends { tells: readonly (infer E extends string)[] } ? `${K}.${E}` : never;
/** What the feed tells of a kind's rows: `agent.created`. */
export type Told = { [K in Kind]: Tells<K> }[Kind];
/** All of them. */
export const told = Object.entries(kinds).flatMap(([kind, facts]) =>
  "tells" in facts ? facts.tells.map((event) => `${kind}.${event}` as Told) : [],
);

/** What isn't an event, too. Credentials are made thousands of times a second: each is told of, and nobody is woken. */
const quiet = [
  "token.created",
  "token.reuse_detected",
  "sign_in.succeeded",
  "sign_in.refused",
  "sign_in.ended",
] as const satisfies Told[];
export type Published = Exclude<Told, (typeof quiet)[number]>;
export const published = told.filter((name): name is Published => !quiet.some((one) => one === name));
