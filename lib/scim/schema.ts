/** SCIM's resources (RFC 7643), from our rows. Field by field, so that a new column is nobody's until it is named here. */
import type { Selectable } from "kysely";
import * as v from "valibot";
import type { Database, Row } from "../db/schema.ts";
import { stamp } from "../http/valid.ts";
import { positive } from "../paging.ts";
import type { UserAttribute } from "./changes.ts";

const CORE = "urn:ietf:params:scim:schemas:core:2.0";
const USER = `${CORE}:User`;
const GROUP = `${CORE}:Group`;
const LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/** Of a list: so many at once, and without a word of it. */
export const MAX_COUNT = 200;
const COUNT = 100;

const meta = v.strictObject({
  resourceType: v.string(),
  created: stamp,
  lastModified: stamp,
  location: v.string(),
});
const some = v.optional(v.string());
const ref = v.strictObject({ value: v.string(), $ref: v.string(), display: some });

/** `schemas` and `id` are always there; whoever names the attributes that it wants gets no other. */
export const scimUser = v.strictObject({
  schemas: v.array(v.string()),
  id: v.string(),
  externalId: some,
  userName: some,
  displayName: some,
  name: v.optional(v.strictObject({ formatted: some, givenName: some, familyName: some })),
  emails: v.optional(v.array(v.strictObject({ value: v.string(), type: v.string(), primary: v.boolean() }))),
  active: v.optional(v.boolean()),
  groups: v.optional(v.array(ref)),
  meta: v.optional(meta),
});
export const scimGroup = v.strictObject({
  schemas: v.array(v.string()),
  id: v.string(),
  externalId: some,
  displayName: some,
  members: v.optional(v.array(ref)),
  meta: v.optional(meta),
});
export type ScimUser = v.InferOutput<typeof scimUser>;
export type ScimGroup = v.InferOutput<typeof scimGroup>;

export const listOf = <V extends v.GenericSchema>(view: V) =>
  v.strictObject({
    schemas: v.array(v.literal(LIST)),
    totalResults: v.number(),
    startIndex: v.number(),
    itemsPerPage: v.number(),
    Resources: v.array(view),
  });

const names = v.pipe(
  v.string(),
  v.maxLength(1000),
  v.transform((text) => text.split(",").map((name) => name.trim().toLowerCase())),
);
export const oneQuery = v.object({ attributes: v.optional(names), excludedAttributes: v.optional(names) });
export const listQuery = v.object({
  ...oneQuery.entries,
  filter: v.optional(v.pipe(v.string(), v.maxLength(10_000))),
  startIndex: v.optional(positive, "1"),
  count: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^\d{1,9}$/, "must be a whole number"),
      v.transform((text) => Math.min(Number(text), MAX_COUNT)),
    ),
    String(COUNT),
  ),
});
export type OneQuery = v.InferOutput<typeof oneQuery>;
export type ListQuery = v.InferOutput<typeof listQuery>;

/** Whether the members of groups are asked for: there may be thousands. */
export const wantsMembers = ({ attributes, excludedAttributes }: OneQuery) =>
  attributes ? isNamed(attributes, "members") : !isNamed(excludedAttributes ?? [], "members");

/** Who is in what, by id and name. */
export type Named = { id: string; name: string | null };
/** A user whom a provider keeps: `scim` is what it said, by SCIM's names. */
export type ScimUserRow = Row<"users"> & { scim: Partial<Record<UserAttribute, string>>; groups: Named[] };
export type ScimGroupRow = Selectable<Database["scim_groups"]> & { members?: Named[] };

const place = (base: string, kind: "Users" | "Groups", id: string) => `${base}/scim/v2/${kind}/${id}`;
const toRef = (base: string, kind: "Users" | "Groups") => (one: Named) => ({
  value: one.id,
  $ref: place(base, kind, one.id),
  ...(one.name !== null && { display: one.name }),
});
const metaOf = (base: string, kind: "User" | "Group", row: { id: string; created_at: string; updated_at: string }) => ({
  resourceType: kind,
  created: row.created_at,
  lastModified: row.updated_at,
  location: place(base, `${kind}s`, row.id),
});

/** The user as SCIM shows it; what was never said is absent. */
export function toScimUser(base: string, row: ScimUserRow): ScimUser {
  const { userName, externalId, displayName, formatted, givenName, familyName } = row.scim;
  const name = { formatted, givenName, familyName };
  return given({
    schemas: [USER],
    id: row.id,
    externalId,
    userName,
    displayName,
    name: Object.values(name).some(Boolean) ? given(name) : undefined,
    emails: row.email === null ? undefined : [{ value: row.email, type: "work", primary: true }],
    active: row.deactivated_at === null,
    groups: row.groups.length ? row.groups.map(toRef(base, "Groups")) : undefined,
    meta: metaOf(base, "User", row),
  }) as ScimUser;
}

export function toScimGroup(base: string, row: ScimGroupRow): ScimGroup {
  return given({
    schemas: [GROUP],
    id: row.id,
    externalId: row.external_id ?? undefined,
    displayName: row.display_name,
    members: row.members?.map(toRef(base, "Users")),
    meta: metaOf(base, "Group", row),
  }) as ScimGroup;
}

const given = (map: object) => Object.fromEntries(Object.entries(map).filter(([, value]) => value !== undefined));

function isNamed(list: string[], name: string): boolean {
  const wanted = name.toLowerCase();
  return list.some((asked) => {
    const attribute = asked.replace(/^urn:.*:/, "");
    return attribute === wanted || attribute.startsWith(`${wanted}.`);
  });
}

/** What is left of a resource by the attributes that are asked for, or not asked for (RFC 7644 §3.9). */
export function only<R extends ScimUser | ScimGroup>(resource: R, { attributes, excludedAttributes }: OneQuery): R {
  const entries = Object.entries(resource).filter(([name]) => {
    if (name === "schemas" || name === "id") return true;
    if (attributes) return isNamed(attributes, name);
    return !excludedAttributes || !isNamed(excludedAttributes, name);
  });
  return Object.fromEntries(entries) as R;
}

/** The envelope of a list (RFC 7644 §3.4.2). */
export const toList = <R>(startIndex: number, totalResults: number, Resources: R[]) => ({
  schemas: [LIST] as (typeof LIST)[],
  totalResults,
  startIndex,
  itemsPerPage: Resources.length,
  Resources,
});

// ---------------------------------------------------------------------------------------------------------
// Discovery (RFC 7643 §5 to 7): what a provider may expect here.

/** What is told here is the same for everybody, and in the terms of RFC 7643. */
export const discovered = v.looseObject({ schemas: v.array(v.string()) });
const supported = (is: boolean) => ({ supported: is });

export const serviceProviderConfig = {
  schemas: [`${CORE}:ServiceProviderConfig`],
  patch: supported(true),
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: MAX_COUNT },
  changePassword: supported(false),
  sort: supported(false),
  etag: supported(false),
  authenticationSchemes: [
    {
      type: "oauthbearertoken",
      name: "SCIM token",
      description: "A token of the org, as `Authorization: Bearer scim_…`",
      primary: true,
    },
  ],
};

const text = (name: string, description: string, more: object = {}) => ({
  ...{ name, type: "string", description, multiValued: false, required: false, caseExact: false },
  ...{ mutability: "readWrite", returned: "default", uniqueness: "none" },
  ...more,
});
const people = [
  text("value", "The id of the user", { caseExact: true, mutability: "immutable" }),
  text("$ref", "Where the user is", { type: "reference", referenceTypes: ["User"], mutability: "readOnly" }),
  text("display", "The user's name", { mutability: "readOnly" }),
];

/** What is kept of a user and a group, and so all that a provider can change. */
export const schemas = [
  {
    schemas: [`${CORE}:Schema`],
    id: USER,
    name: "User",
    description: "A user of the org",
    attributes: [
      text("userName", "What the provider knows the user by", { required: true, uniqueness: "server" }),
      text("externalId", "The provider's own id", { caseExact: true }),
      text("displayName", "The name that is shown"),
      text("name", "The parts of the name", {
        type: "complex",
        subAttributes: [text("formatted", "All of it"), text("givenName", "First"), text("familyName", "Last")],
      }),
      text("emails", "The address, of a domain that is verified for the org; one is kept", {
        type: "complex",
        multiValued: true,
        required: true,
        subAttributes: [
          text("value", "The address", { required: true, uniqueness: "server" }),
          text("type", "What it is for", { canonicalValues: ["work"] }),
          text("primary", "Whether it is the first", { type: "boolean" }),
        ],
      }),
      text("active", "Whether the user may do anything here", { type: "boolean" }),
      text("groups", "The groups that the user is in", {
        type: "complex",
        multiValued: true,
        mutability: "readOnly",
        subAttributes: [text("value", "The id of the group"), text("display", "Its name")],
      }),
    ],
  },
  {
    schemas: [`${CORE}:Schema`],
    id: GROUP,
    name: "Group",
    description: "A group of users of the org, which may give them a role",
    attributes: [
      text("displayName", "The name of the group", { required: true, uniqueness: "server" }),
      text("externalId", "The provider's own id", { caseExact: true }),
      text("members", "Who is in it", { type: "complex", multiValued: true, subAttributes: people }),
    ],
  },
];

export const resourceTypes = (["User", "Group"] as const).map((name) => ({
  schemas: [`${CORE}:ResourceType`],
  id: name,
  name,
  endpoint: `/${name}s`,
  description: schemas.find((schema) => schema.name === name)!.description,
  schema: `${CORE}:${name}`,
}));
