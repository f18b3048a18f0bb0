/** Who may what: the vocabulary of scopes and what each role of an org holds. All rules on one page. */
import type { Role } from "../db/schema.ts";
import { roles } from "../db/schema.ts";

/** What scopes are about: the resource groups of the contract (CONTRACT.md §5). */
export const resources = [
  "activity_feed",
  "agents",
  "ai",
  "artifacts",
  "automations",
  "computers",
  "configs",
  "custom_objects",
  "entitlements",
  "env_vars",
  "event_subscriptions",
  "extractions",
  "files",
  "health_actions",
  "installations",
  "integrations",
  "invites",
  "knowledge",
  "kv",
  "messages",
  "notifications",
  "orgs",
  "private_services",
  "routines",
  "schedules",
  "scripts",
  "sessions",
  "skills",
  "slack",
  "solutions",
  "ssh_keys",
  "tasks",
  "teams",
  "threads",
  "tokens",
  "tools",
  "trajectories",
  "users",
  "work_items",
  "working_memory",
  "workflows",
  "billing",
] as const;
export type Resource = (typeof resources)[number];
type Action = "read" | "write";

/** A scope that a token can carry. */
export type Scope = `${Resource}:${Action}`;
/** Everything that the role holds, now and after a change of role. */
export const FULL_ACCESS = "full_access";

/**
 * What a route asks for. `developer:*` is held by secret keys alone: no scope spells it. `self` is what every live
 * token holds: to know whose it is. `session` is what a person's full-access token holds, and no restricted one: to
 * keep the person's own profile and tokens.
 */
export type Permission = Scope | "developer:read" | "developer:write" | "self" | "session";

const read = resources.map((resource) => `${resource}:read` as const);
const write = resources.map((resource) => `${resource}:write` as const);
const administration: Scope[] = ["billing:read", "billing:write"];
const guarded: Scope[] = ["orgs:write", "users:write", "tokens:write", "teams:write", "billing:write", "billing:read"];

/** owner: all. admin: all but billing. member: uses and makes. viewer: looks. billing: bills. */
export const roleScopes: Record<Role, readonly Scope[]> = {
  owner: [...read, ...write],
  admin: [...read, ...write].filter((scope) => !administration.includes(scope)),
  member: [...read, ...write].filter((scope) => !guarded.includes(scope)),
  viewer: read.filter((scope) => scope !== "billing:read"),
  billing: ["orgs:read", "users:read", "entitlements:read", ...administration],
};

const known = new Set<string>([...read, ...write, ...resources.map((resource) => `${resource}:*`), FULL_ACCESS]);

/** Whether the text is a scope: `resource:read`, `resource:write`, `resource:*` or `full_access`. */
export const isScope = (text: string) => known.has(text);

/** Scopes with their wildcards spelt out, so that what is granted can be intersected and echoed. */
export const spell = (scopes: readonly string[]): string[] => [
  ...new Set(
    scopes.flatMap((scope) =>
      scope.endsWith(":*") ? [scope.replace("*", "read"), scope.replace("*", "write")] : [scope],
    ),
  ),
];

/** Whether a token with these scopes may ask for the permission; its role is checked in the database. */
export function covers(scopes: readonly string[], permission: Permission): boolean {
  if (permission === "self") return true;
  if (permission.startsWith("developer:")) return false;
  return scopes.includes(FULL_ACCESS) || scopes.includes(permission);
}

/** The roles that hold the permission. */
export const rolesWith = (permission: Permission): Role[] =>
  roles.filter(
    (role) => permission === "self" || permission === "session" || roleScopes[role].includes(permission as Scope),
  );

/** What each role would be granted of the scopes that are asked for: requested ∩ role, wildcards spelt out. */
export function grants(requested: readonly string[]): Record<Role, string[]> {
  const spelt = spell(requested);
  const granted = (role: Role) =>
    spelt.filter((scope) => scope === FULL_ACCESS || roleScopes[role].includes(scope as Scope));
  return Object.fromEntries(roles.map((role) => [role, granted(role)])) as Record<Role, string[]>;
}
