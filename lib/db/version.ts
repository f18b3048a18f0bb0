/**
 * The migrations that this code wants, in the order of their names; their count is the version of the schema. The
 * first is the schema as it began, each other a file of lib/db/migrations/. Listed, since a Worker can't look there.
 */
export const MIGRATIONS: readonly string[] = [
  "2026-11-21-first",
  "2026-11-21-names-and-walls",
  "2026-11-21-proven-tenants",
  "2026-11-21-row-sizes",
  "2026-11-21-timeouts",
  "2026-11-22-acting-users",
  "2026-11-22-computers",
  "2026-11-22-configs",
  "2026-11-22-env-vars",
  "2026-11-22-health-actions",
  "2026-11-22-installations",
  "2026-11-22-mint",
  "2026-11-22-routines",
  "2026-11-22-schedules",
  "2026-11-22-skills",
  "2026-11-22-slices",
  "2026-11-22-slicing-agents",
  "2026-11-22-slicing-nothing",
  "2026-11-22-tools",
  "2026-11-22-uncompiled",
  "2026-11-22-usage",
  "2026-11-22-working-memory",
  "2026-11-22-written-together",
  "2026-11-23-named-configs",
  "2026-11-24-sessions",
  "2026-11-25-events",
  "2026-11-25-schedules",
];
