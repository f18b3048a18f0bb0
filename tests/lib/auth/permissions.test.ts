/** Who may what, as a table for people: a change of it is a change of tests/permissions.txt, line by line. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { grants, type Permission, resources, roleScopes, rolesWith } from "../../../lib/auth/permissions.ts";
import { roles } from "../../../lib/db/schema.ts";

const checkedIn = readFileSync(resolve(import.meta.dirname, "../../permissions.txt"), "utf8");

/** A line a resource, a column a role; `cell` says r, w, rw or -. */
function matrixOf(cell: (role: (typeof roles)[number], resource: string) => string): string {
  const line = (name: string, cells: string[]) =>
    [name.padEnd(22), ...cells.map((text) => text.padEnd(8))].join("").trimEnd();
  const rows = [...resources].sort().map((resource) =>
    line(
      resource,
      roles.map((role) => cell(role, resource)),
    ),
  );
  return `${[line("resource", [...roles]), ...rows].join("\n")}\n`;
}
const cellOf = (holds: (action: string) => boolean) =>
  ["read", "write"]
    .filter(holds)
    .map((action) => action[0])
    .join("") || "-";

it("gives each role what tests/permissions.txt says, and nothing else", () => {
  const scopes = matrixOf((role, resource) =>
    cellOf((action) => roleScopes[role].includes(`${resource}:${action}` as never)),
  );
  expect(scopes, "if this is meant, put the new table into tests/permissions.txt").toBe(checkedIn);
});

it("asks the database for the same roles, and grants a token the same scopes", () => {
  const asked = matrixOf((role, resource) =>
    cellOf((action) => rolesWith(`${resource}:${action}` as Permission).includes(role)),
  );
  const granted = matrixOf((role, resource) =>
    cellOf((action) => grants([`${resource}:*`])[role].includes(`${resource}:${action}`)),
  );
  expect(asked).toBe(checkedIn);
  expect(granted).toBe(checkedIn);
});

it("gives nobody a resource that has no line", () => {
  expect(rolesWith("no_such_resource:read" as Permission)).toEqual([]);
  expect(grants(["no_such_resource:*"])).toEqual({ owner: [], admin: [], member: [], billing: [], viewer: [] });
});
