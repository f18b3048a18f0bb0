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

/** Who asks: a developer, by a key; a person of an org, by a token; or the org's own work, from a Durable Object. */
export type Viewer = { kind: "key" } | { kind: "token"; user: Id<"user">; org: Id<"org"> } | { kind: "object" };

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
export const orgStatuses = ["active", "suspended", "trialing"] as const;
export type OrgStatus = (typeof orgStatuses)[number];
export type Metadata = Record<string, unknown>;

export const principalTypes = ["everyone", "org_role", "user", "team", "org", "agent"] as const;
export type AclGrant = { principal_type: (typeof principalTypes)[number]; principal: string | null; actions: string[] };
export type Acl = { grants: AclGrant[] };

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
    id: Fixed<Id<"token_family">>;
    user_id: Fixed<Id<"user">>;
    scopes: Fixed<string[]>;
    access_lifetime_s: Fixed<number>;
    generation: Generated<number>;
    token_id: Id<"token">;
    rotated_at: Stamp;
    expires_at: string;
    revoked_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
  };
  tokens: Owner & {
    id: Fixed<Id<"token">>;
    user_id: Fixed<Id<"user">>;
    family_id: Fixed<Id<"token_family"> | null>;
    name: Fixed<string | null>;
    scopes: Fixed<string[]>;
    created_by_user: Fixed<Id<"user"> | null>;
    last_used_at: ColumnType<string | null, never, string>;
    expires_at: Fixed<string>;
    revoked_at: ColumnType<string | null, never, string>;
    created_at: Stamp;
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
    metadata: Json<Metadata>;
    acl: JsonOrNull<Acl>;
    readers: GeneratedAlways<string[] | null>;
    writers: GeneratedAlways<string[] | null>;
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
