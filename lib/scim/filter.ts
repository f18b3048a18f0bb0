/**
 * The filters that identity providers send: `eq` and `and` (RFC 7644 §3.4.2.2), on what a provider knows its people and
 * groups by. Anything else is a 400, not a search that answers too much. Pure.
 */
import { badScim } from "../http/scim-error.ts";

const MAX_FILTER = 1000;
const MAX_CONDITIONS = 10;

export type Filtered = "id" | "userName" | "externalId" | "displayName" | "emails.value";
export type Condition = { attribute: Filtered; value: string };

/** Of names the case doesn't count (RFC 7643 §2.1). The last is how Entra spells an address. */
const names: Record<string, Filtered> = {
  id: "id",
  username: "userName",
  externalid: "externalId",
  displayname: "displayName",
  "emails.value": "emails.value",
  emails: "emails.value",
  'emails[type eq "work"].value': "emails.value",
};
const CONDITION = /([^\s"[]+(?:\[type eq "work"\]\.value)?)\s+eq\s+("(?:[^"\\]|\\.)*")(?:\s+(and)\s+|$)/iy;

/** All of its conditions must hold; without a filter there are none. 400 `invalidFilter`. */
export function readFilter(text: string | undefined): Condition[] {
  if (text === undefined) return [];
  const filter = text.trim();
  if (filter.length > MAX_FILTER) throw invalidFilter(`A filter has at most ${MAX_FILTER} characters.`);
  const pattern = new RegExp(CONDITION);
  const conditions: Condition[] = [];
  for (let more = true; more; ) {
    const found = pattern.exec(filter);
    const name = found && withoutSchema(found[1]!).toLowerCase();
    if (!found || !name || !Object.hasOwn(names, name) || conditions.length === MAX_CONDITIONS) throw invalidFilter();
    conditions.push({ attribute: names[name]!, value: textOf(found[2]!) });
    more = found[3] !== undefined;
  }
  return conditions;
}

/** A name without the schema of users or groups, which may stand before it. */
export const withoutSchema = (name: string) =>
  name.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(user|group):/i, "");

function textOf(literal: string): string {
  try {
    const text = JSON.parse(literal) as string;
    if (text.isWellFormed() && !text.includes("\0")) return text;
  } catch {
    // Told below.
  }
  throw invalidFilter();
}

const invalidFilter = (
  detail = `A filter compares with eq, and joins by and, at most ${MAX_CONDITIONS} of: id, userName, externalId, displayName, emails.value.`,
) => badScim("invalidFilter", detail);
