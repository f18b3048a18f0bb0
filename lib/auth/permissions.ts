/** Who may what: the vocabulary of scopes and what each role of an org holds. All rules on one page. */
import type { Role } from "../db/schema.ts";
import { roles } from "../db/schema.ts";

type Held = Record<Role, "rw" | "r" | "">;
/** What a resource's line may be: who reads and who writes it. */
const work: Held = { owner: "rw", admin: "rw", member: "rw", billing: "", viewer: "r" };
const kept: Held = { owner: "rw", admin: "rw", member: "r", billing: "", viewer: "r" };
const administered: Held = { owner: "rw", admin: "rw", member: "r", billing: "r", viewer: "r" };
const shown: Held = { owner: "rw", admin: "rw", member: "rw", billing: "r", viewer: "r" };
/** Who may not change an agent has nothing to do with its secrets. */
const secret: Held = { owner: "rw", admin: "rw", member: "rw", billing: "", viewer: "" };
/** Who decides whom an org is made of. */
const governed: Held = { owner: "rw", admin: "rw", member: "", billing: "", viewer: "" };
/** Who can say who everybody is, is everybody. */
const owned: Held = { owner: "rw", admin: "", member: "", billing: "", viewer: "" };
const bills: Held = { owner: "rw", admin: "", member: "", billing: "rw", viewer: "" };

/**
 * What scopes are about (the resource groups of CONTRACT.md §5), and what each role of an org holds of it. What has no
 * line here is no scope, and nobody's. Spelt out, role by role, in tests/permissions.txt.
 */
const holds = {
  activity_feed: work,
  agents: work,
  ai: work,
  artifacts: work,
  automations: work,
  billing: bills,
  computers: work,
  configs: work,
  custom_objects: work,
  entitlements: shown,
  env_vars: secret,
  event_subscriptions: work,
  events: work,
  extractions: work,
  files: work,
  health_actions: work,
  installations: work,
  integrations: work,
  invites: governed,
  knowledge: work,
  kv: work,
  messages: work,
  notifications: work,
  orgs: administered,
  private_services: work,
  routines: work,
  schedules: work,
  scripts: work,
  sessions: work,
  skills: work,
  slack: work,
  solutions: work,
  ssh_keys: work,
  sso: owned,
  tasks: work,
  teams: kept,
  threads: work,
  tokens: kept,
  tools: work,
  trajectories: work,
  users: administered,
  webhooks: kept,
  work_items: work,
  workflows: work,
  working_memory: work,
} satisfies Record<string, Held>;
export type Resource = keyof typeof holds;
export const resources = Object.keys(holds) as Resource[];
type Action = "read" | "write";

/** A scope that a token can carry. */
export type Scope = `${Resource}:${Action}`;
/** Everything that the role holds, now and after a change of role. */
export const FULL_ACCESS = "full_access";

/**
 * What a route asks for. `developer:*` is held by secret keys and by developers who have signed in: no scope spells it.
 * `self` is what every live token holds: to know whose it is. `session` is what a person's full-access token holds, and no
 * restricted one: to keep the person's own profile and tokens.
 */
export type Permission = Scope | "developer:read" | "developer:write" | "self" | "session";

const scopesOf = (role: Role) =>
  resources.flatMap((resource): Scope[] => {
    const held = holds[resource][role];
    return [
      ...(held === "" ? [] : [`${resource}:read` as const]),
      ...(held === "rw" ? [`${resource}:write` as const] : []),
    ];
  });

/** All scopes of each role. */
export const roleScopes: Record<Role, readonly Scope[]> = {
  owner: scopesOf("owner"),
  admin: scopesOf("admin"),
  member: scopesOf("member"),
  billing: scopesOf("billing"),
  viewer: scopesOf("viewer"),
};

const known = new Set<string>([
  ...resources.flatMap((resource) => [`${resource}:read`, `${resource}:write`, `${resource}:*`]),
  FULL_ACCESS,
]);

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

/** Whether a permission is a developer's, which no token has. */
export const isDevelopers = (permission: Permission) => permission.startsWith("developer:");

/** Whether a token with these scopes may ask for the permission; its role is checked in the database. */
export function covers(scopes: readonly string[], permission: Permission): boolean {
  if (permission === "self") return true;
  if (isDevelopers(permission)) return false;
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
