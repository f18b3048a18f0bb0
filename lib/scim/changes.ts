/**
 * What a provider says of a user or a group, as the change that it means: whole (POST, PUT), or by operations (PATCH,
 * RFC 7644 §3.5.2) in the dialects of Okta and Entra, which know `"Replace"`, `"False"`, operations without a path, dotted
 * names, `emails[type eq "work"].value` and members removed by value. Only what is named here is ever written, each thing
 * to its own place: no name of a request becomes a key of an object. What we don't keep is passed over. Pure.
 */
import * as v from "valibot";
import { badScim } from "../http/scim-error.ts";
import { isMap } from "../http/valid.ts";
import { type Id, isId } from "../ids.ts";
import { email } from "../users/schema.ts";
import { withoutSchema } from "./filter.ts";

const MAX_TEXT = 254;
const MAX_PATH = 500;
const MAX_OPERATIONS = 1000;

/** What is kept of a user beside the address and whether it is active. */
export const userAttributes = [
  "userName",
  "externalId",
  "displayName",
  "formatted",
  "givenName",
  "familyName",
] as const;
export type UserAttribute = (typeof userAttributes)[number];
/** `set` and `unset` have no name in common. */
export type UserChange = {
  set: Partial<Record<UserAttribute, string>>;
  unset: UserAttribute[];
  email?: string;
  active?: boolean;
};
/** A user as a provider wants it made. */
export type WholeUser = UserChange & { email: string; active: boolean };

export type GroupChange = {
  displayName?: string;
  /** Null: it has none from here on. */
  externalId?: string | null;
  /** All who are not in `added` go. */
  cleared: boolean;
  added: Id<"user">[];
  removed: Id<"user">[];
};
export type WholeGroup = GroupChange & { displayName: string };

type Op = "add" | "replace" | "remove";
/** One place to be written; `filter` is what stands in brackets. */
type Path = { attribute: string; filter: string | null; sub: string | null };

/** A member of a JSON object by its name, of which the case doesn't count. Only its own. */
function member(map: Record<string, unknown>, name: string): unknown {
  const key = Object.keys(map).find((key) => key.toLowerCase() === name);
  return key === undefined ? undefined : map[key];
}

/** The operations of a PATCH, in their order. A value without a path is one operation for each of its names. */
function* operationsOf(body: Record<string, unknown>): Generator<{ op: Op; path: Path | null; value: unknown }> {
  const operations = member(body, "operations");
  if (!Array.isArray(operations) || !operations.length || operations.length > MAX_OPERATIONS) {
    throw badScim("invalidSyntax", `Operations is a list of 1 to ${MAX_OPERATIONS}.`);
  }
  for (const operation of operations as unknown[]) {
    if (!isMap(operation)) throw badScim("invalidSyntax", "An operation is an object.");
    const op = wordOf(member(operation, "op"));
    if (op !== "add" && op !== "replace" && op !== "remove") {
      throw badScim("invalidSyntax", "op is add, replace or remove.");
    }
    const path = member(operation, "path");
    const value = member(operation, "value") ?? null;
    if (path !== undefined && path !== null) {
      if (typeof path !== "string") throw badScim("invalidPath", "A path is a text.");
      yield { op, path: readPath(path), value };
    } else if (op === "remove") {
      throw badScim("noTarget", "remove needs a path.");
    } else if (isMap(value)) {
      for (const [name, inner] of Object.entries(value)) yield { op, path: readPath(name), value: inner };
    } else {
      throw badScim("invalidSyntax", "Without a path, the value is an object.");
    }
  }
}

const PATH = /^([a-z$][\w$-]*)(?:\[([^\]]*)\])?(?:\.([a-z$][\w$-]*))?$/i;

/** Null: it leads to what we don't keep, such as an extension's. */
function readPath(text: string): Path | null {
  const path = withoutSchema(text.slice(0, MAX_PATH + 1));
  if (path.length > MAX_PATH) throw badScim("invalidPath", `A path has at most ${MAX_PATH} characters.`);
  if (/^urn:/i.test(path)) return null;
  const [, attribute, filter = null, sub = null] = path.match(PATH) ?? [];
  if (attribute === undefined) {
    throw badScim("invalidPath", "A path is a name, with a filter in brackets and a name below it at most.");
  }
  return { attribute: attribute.toLowerCase(), filter, sub: sub?.toLowerCase() ?? null };
}

const invalidValue = (name: string, must: string) => badScim("invalidValue", `${name} must be ${must}.`);

/** Null and an empty text are the absence of a value. */
function readText(name: string, value: unknown): string | null {
  if (value === null || value === "") return null;
  if (typeof value !== "string" || value.length > MAX_TEXT || /[\p{Cc}\p{Cs}]/u.test(value)) {
    throw invalidValue(name, `a text of at most ${MAX_TEXT} characters`);
  }
  return value;
}

function readEmail(value: unknown): string {
  if (!v.is(email, value)) throw invalidValue("emails", "an e-mail address");
  return value;
}

/** A text or a boolean as a word; of what else may have a `toString` of its own, nothing. */
const wordOf = (value: unknown) =>
  typeof value === "string" || typeof value === "boolean" ? String(value).toLowerCase() : "";
const isFlag = (value: unknown) => /^(true|false)$/.test(wordOf(value));
const flagOf = (value: unknown) => wordOf(value) === "true";

/** The one address that is kept of a list: the primary one, else that for work, else the first. */
function addressOf(value: unknown): string {
  const all = (Array.isArray(value) ? (value as unknown[]) : [value]).filter(isMap);
  const primary = all.find((one) => flagOf(member(one, "primary")));
  const work = all.find((one) => wordOf(member(one, "type")) === "work");
  const chosen = primary ?? work ?? all[0];
  return readEmail(chosen && member(chosen, "value"));
}

const subs: Record<string, UserAttribute> = {
  formatted: "formatted",
  givenname: "givenName",
  familyname: "familyName",
};
const tops: Record<string, UserAttribute> = {
  username: "userName",
  externalid: "externalId",
  displayname: "displayName",
};

/** Writes a user's attribute down; a remove is a value of null. */
function changeUser(change: UserChange, { attribute, filter, sub }: Path, value: unknown) {
  const write = (name: UserAttribute, text: string | null) => {
    if (text === null && name === "userName") throw invalidValue("userName", "there");
    change.unset = change.unset.filter((other) => other !== name);
    delete change.set[name];
    if (text === null) change.unset.push(name);
    else change.set[name] = text;
  };
  if (Object.hasOwn(tops, attribute) && !sub && !filter) {
    write(tops[attribute]!, readText(tops[attribute]!, value));
  } else if (attribute === "name" && !filter) {
    if (sub !== null) {
      if (Object.hasOwn(subs, sub)) write(subs[sub]!, readText(`name.${subs[sub]!}`, value));
    } else if (value === null) {
      for (const name of Object.values(subs)) write(name, null);
    } else if (isMap(value)) {
      for (const [key, name] of Object.entries(subs)) {
        const text = member(value, key);
        if (text !== undefined) write(name, readText(`name.${name}`, text));
      }
    } else {
      throw invalidValue("name", "an object");
    }
  } else if (attribute === "active" && !sub && !filter) {
    if (!isFlag(value)) throw invalidValue("active", "true or false");
    change.active = flagOf(value);
  } else if (attribute === "emails") {
    // Of an address that isn't the one we keep, we keep nothing.
    if (filter !== null && !/^\s*(type\s+eq\s+"work"|primary\s+eq\s+"?true"?)\s*$/i.test(filter)) return;
    if (sub !== null && sub !== "value") return;
    change.email = sub === "value" ? readEmail(value) : addressOf(value);
  }
}

/** A user, whole. Without a list of addresses, `userName` is the address. 400 without one, or without `userName`. */
export function readUser(body: unknown): WholeUser {
  const change: UserChange = { set: {}, unset: [] };
  for (const [name, value] of Object.entries(mapOf(body))) {
    const attribute = withoutSchema(name).toLowerCase();
    const isEmpty = attribute === "emails" && (value === null || (Array.isArray(value) && !value.length));
    if (/^[a-z]+$/.test(attribute) && !isEmpty) changeUser(change, { attribute, filter: null, sub: null }, value);
  }
  const { userName } = change.set;
  if (userName === undefined) throw invalidValue("userName", "there");
  const unset = userAttributes.filter((name) => change.set[name] === undefined);
  return { set: change.set, unset, email: change.email ?? readEmail(userName), active: change.active ?? true };
}

/** What the operations of a PATCH come to for a user. */
export function readUserPatch(body: unknown): UserChange {
  const change: UserChange = { set: {}, unset: [] };
  for (const { op, path, value } of operationsOf(mapOf(body))) {
    if (path) changeUser(change, path, op === "remove" ? null : value);
  }
  return change;
}

/** Who a list of members names. */
function membersOf(value: unknown): Id<"user">[] {
  const all = Array.isArray(value) ? (value as unknown[]) : [value];
  return all.map((one) => {
    const id = isMap(one) ? member(one, "value") : one;
    if (typeof id !== "string" || !isId("user", id)) throw invalidValue("members", "users, each by the id given here");
    return id;
  });
}

const MEMBER = /^\s*value\s+eq\s+"([^"\\]*)"\s*$/i;

function changeGroup(change: GroupChange, op: Op, { attribute, filter, sub }: Path, value: unknown) {
  if (attribute === "displayname" && !sub && !filter) {
    const name = op === "remove" ? null : readText("displayName", value);
    if (name === null) throw invalidValue("displayName", "there");
    change.displayName = name;
  } else if (attribute === "externalid" && !sub && !filter) {
    change.externalId = op === "remove" ? null : readText("externalId", value);
  } else if (attribute === "members" && !sub) {
    const [, named] = filter?.match(MEMBER) ?? [];
    if (filter !== null && (named === undefined || op !== "remove")) {
      throw badScim("invalidPath", 'Members are told apart by members[value eq "…"], to remove one.');
    }
    // Entra names in the value whom it removes; without anybody named, all go.
    const all = op === "replace" || (op === "remove" && filter === null && value === null);
    const users = filter !== null ? membersOf(named) : value === null ? [] : membersOf(value);
    if (all) Object.assign(change, { cleared: true, added: [], removed: [] });
    const [to, from] = op === "remove" ? (["removed", "added"] as const) : (["added", "removed"] as const);
    const moved = new Set(users);
    change[from] = change[from].filter((user) => !moved.has(user));
    change[to] = [...new Set([...change[to], ...users])];
  }
}

/** A group, whole. 400 without `displayName`. */
export function readGroup(body: unknown): WholeGroup {
  const change: GroupChange = { externalId: null, cleared: true, added: [], removed: [] };
  for (const [name, value] of Object.entries(mapOf(body))) {
    const attribute = withoutSchema(name).toLowerCase();
    if (/^[a-z]+$/.test(attribute)) changeGroup(change, "add", { attribute, filter: null, sub: null }, value);
  }
  if (change.displayName === undefined) throw invalidValue("displayName", "there");
  return { ...change, displayName: change.displayName };
}

/** What the operations of a PATCH come to for a group. */
export function readGroupPatch(body: unknown): GroupChange {
  const change: GroupChange = { cleared: false, added: [], removed: [] };
  for (const { op, path, value } of operationsOf(mapOf(body))) {
    if (path) changeGroup(change, op, path, value);
  }
  return change;
}

function mapOf(body: unknown): Record<string, unknown> {
  if (!isMap(body)) throw badScim("invalidSyntax", "The body must be an object.");
  return body;
}
