import { type RawBuilder, type SqlBool, sql } from "kysely";
import { agentNamed, mayOwnFor } from "../agents/queries.ts";
import { passes } from "../auth/acl.ts";
import { newTextKey, openFor, sealedTables, sealFor, tagged } from "../auth/vault.ts";
import { NONE, type Row } from "../db/schema.ts";
import { mustHold, type Rows, type Statement } from "../db/statements.ts";
import type { Telling, TenantDb } from "../db/tenant-db.ts";
import { ApiError, invalid, noSuch, notFound, preconditionFailed, refused } from "../errors.ts";
import { type Id, isId, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import { mayConfig, readersOfConfig } from "./access.ts";
import {
  type Automation,
  archiving,
  automating,
  mayAutomate,
  RUN_BY_AUTOMATIONS,
  readAutomation,
} from "./automation.ts";
import {
  type Content,
  type Judged,
  judge,
  MAX_CONTENT_BYTES,
  MAX_VALUES,
  MAX_WORDS,
  parseTogether,
  spoken,
  valueIn,
} from "./content.ts";
import { configKindNames, isStructured } from "./kinds.ts";
import {
  type ConfigRow,
  type CreateConfig,
  type ListConfigs,
  type Owner,
  pathShape,
  type Shown,
  type UpdateConfig,
  type Version,
} from "./schema.ts";
import { inUse, type Use, usesOf } from "./uses.ts";

type Condition = RawBuilder<SqlBool>;
type Configs = Rows<"configs">;

/** Which of the four owners a request names. */
const namesOf = ({ team, user, agent, system }: Owner) =>
  Object.entries({ team, user, agent, system })
    .filter(([, value]) => value)
    .map(([name]) => name);

/** The configs of whom a request names; of anybody, where it names nobody. Who isn't there has none. */
function ownedBy(db: TenantDb, { team, user, agent, system, org }: Owner): Configs {
  let configs = db.selectFrom("configs");
  if (team) configs = configs.where(sql.lit(false));
  if (user) configs = configs.where("configs.user_id", "=", user as Id<"user">);
  if (agent) configs = configs.where("configs.agent_id", "in", agentNamed(db, agent).select("agents.id"));
  if (system) configs = configs.where("configs.user_id", "is", null).where("configs.agent_id", "is", null);
  if (org) configs = configs.where("configs.org_id", "=", org as Id<"org">);
  return configs;
}

/**
 * The config that an address names: by its id alone, or by its lookup_key or virtual_path and exactly one owner, else
 * 422. Where the address could not be told an owner (`orOwn`), it is the viewer's own or, to a key, the app's.
 */
export async function addressed(db: TenantDb, name: string, asked: Owner, orOwn = false): Promise<Configs> {
  const names = namesOf(asked);
  const refuse = async (field: string, message: string) => {
    await db.enter();
    throw invalid({ field, message });
  };
  if (isId("config", name)) {
    const [given] = [...names, ...(asked.org ? ["org"] : [])];
    if (given) await refuse(given, "goes with a lookup_key or a virtual_path: an id says it all");
    return db.selectFrom("configs").where("configs.id", "=", name);
  }
  if (names.length > 1 || (!names.length && !orOwn)) {
    await refuse("config", "is no id, and so goes with exactly one of team, user, agent and system");
  }
  const { viewer } = db;
  const owner = names.length ? asked : viewer.kind === "user" ? { user: viewer.user } : { system: true };
  let configs = ownedBy(db, owner);
  // Each org has its own; without one, the app's are meant.
  if (owner.system && viewer.kind !== "user" && !asked.org) configs = configs.where("configs.org_id", "=", NONE);
  if (!pathShape.test(name)) return configs.where(sql.lit(false));
  return configs
    .where(sql<boolean>`(configs.lookup_key = ${name} or configs.virtual_path = ${name})`)
    .orderBy(sql`configs.lookup_key is not distinct from ${name} desc`)
    .limit(1);
}

/** Columns of a version. Not its content: that is read where it is given, and nowhere else. */
const VERSION = ["id", "config_id", "version_number", "data", "change_description", "created_at"] as const;

/** Configs with what is shown of their newest versions; `version` has these columns besides, for who selects them. */
export function shown(db: TenantDb, configs: Configs, more: ("encoding" | "content")[] = []) {
  const newest = db
    .selectFrom("config_versions")
    .select([...VERSION, ...more])
    .as("version");
  return configs
    .innerJoin(newest, (join) =>
      join.onRef("version.config_id", "=", "configs.id").onRef("version.version_number", "=", "configs.version_number"),
    )
    .selectAll("configs")
    .select([
      "version.id as version_id",
      "version.data as version_data",
      "version.change_description as version_change_description",
      "version.created_at as version_created_at",
    ]);
}

/** 404 also where the viewer may not read it. */
export const getConfig = (db: TenantDb, rows: Configs): Promise<Shown> =>
  shown(db, rows.where(mayConfig(db, "read"))).executeTakeFirstOrThrow(() => notFound("config")) as Promise<Shown>;

/** Those that the viewer may read and that aren't archived, newest first; one more than asked for, if there is one. */
export function listConfigs(db: TenantDb, query: ListConfigs, { limit, from }: CursorPage): Promise<Shown[]> {
  const { kind, lookup_key, path_prefix, parents, parent_solutions, ...owner } = query;
  let configs = ownedBy(db, owner).where("configs.archived_at", "is", null).where(mayConfig(db, "read"));
  if (kind !== undefined) configs = configs.where("configs.kind", "=", kind);
  if (lookup_key !== undefined) configs = configs.where("configs.lookup_key", "=", lookup_key);
  if (path_prefix) configs = configs.where(sql<boolean>`starts_with(configs.virtual_path, ${path_prefix})`);
  if (parents) configs = configs.where(sql<boolean>`configs.parent_id = any (${parents}::text[])`);
  if (parent_solutions) configs = configs.where(sql<boolean>`configs.solution_id = any (${parent_solutions}::text[])`);
  if (from !== null) configs = configs.where("configs.id", "<", from as Id<"config">);
  return shown(db, configs)
    .orderBy("configs.id", "desc")
    .limit(limit + 1)
    .execute() as Promise<Shown[]>;
}

/** Whose a new config is: rows of which there is one, in the place where the config goes, or none. */
type Place = { rows: Rows<"tenants">; field: string; user_id: Id<"user"> | null; agent_id: unknown };

function placeOf(db: TenantDb, asked: Owner): Place {
  const { viewer } = db;
  const [name, other] = namesOf(asked);
  if (other) throw invalid({ field: other, message: `excludes ${name}: a config has one owner` });
  const { agent, org } = asked;
  const user = (asked.user || (!name && viewer.kind === "user" ? viewer.user : null)) as Id<"user"> | null;
  const within = (rows: unknown) =>
    org ? (rows as Rows<"tenants">).where("org_id", "=", org as Id<"org">) : (rows as Rows<"tenants">);
  const place = { user_id: null, agent_id: null };
  if (asked.team) throw noSuch("team");
  if (user) {
    const rows = db.selectFrom("users").where("users.id", "=", user).where(mayOwnFor(viewer, user));
    return { ...place, rows: within(rows), field: org ? "org" : "user", user_id: user };
  }
  if (agent) {
    const rows = agentNamed(db, agent).where(passes(viewer, "writers"));
    return { ...place, rows: within(rows), field: org ? "org" : "agent", agent_id: sql`agents.id` };
  }
  const here = viewer.kind === "user" ? viewer.org : NONE;
  const rows = db.selectFrom("tenants").where("org_id", "=", (org ?? here) as Id<"org">);
  return { ...place, rows, field: "org" };
}

/** The place of a child is its parent's, whose owner it shares. A parent is no child itself. */
function placeUnder(db: TenantDb, parent: string, asked: Owner): Place {
  const rows = ownedBy(db, asked)
    .where("configs.id", "=", parent as Id<"config">)
    .where("configs.parent_id", "is", null)
    .where(mayConfig(db, "write"));
  const owner = { user_id: sql`configs.user_id` as never, agent_id: sql`configs.agent_id` };
  return { ...owner, rows: rows as never, field: "parent" };
}

/** 422 unless the viewer may have configs there. */
export async function mustOwn(db: TenantDb, asked: Owner): Promise<void> {
  const { rows, field } = placeOf(db, asked);
  const found = await rows.select(sql`1`.as("found")).executeTakeFirst();
  if (!found) throw noSuch(field);
}

/**
 * The key of an org (the viewer's own or, for a key without one, of the app itself) for secrets in configs: see
 * `sealText`. Made when it is first asked for. 422 on an org that isn't there.
 */
export async function secretKeyOf(db: TenantDb, roots: string, org: string | null | undefined): Promise<string> {
  const { viewer, tenant } = db;
  const { rows, field } = placeOf(db, { system: true, org });
  const id = viewer.kind === "user" ? viewer.org : (org ?? NONE);
  const slot = { table: "secret_keys", app: tenant.app, sandbox: tenant.sandbox, id } as const;
  const fresh = await sealFor(roots, slot, newTextKey());
  const kept = db.selectFrom("secret_keys").where("org_id", "=", id as Id<"org">);
  const tag = tagged(fresh, [sql`app_id`, sql`sandbox_id`, sql`org_id`, sql`org_id`]);
  const free = rows.where(sql<boolean>`not exists (${kept.select(sql`1`.as("one"))})`);
  const ask = () =>
    db.batch({
      place: rows.select("org_id"),
      made: db.insertUnder(free, "secret_keys", { sealed: fresh.sealed, tag } as never),
      key: kept.selectAll(),
    });
  const { place, key } = await ask().catch((error) => {
    // Made by another request, at this moment: now it is there to be seen.
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    return ask();
  });
  const row = key[0] as Row<"secret_keys"> | undefined;
  if (!place.length || !row) throw noSuch(field);
  const where = sealedTables.secret_keys.map((column) => row[column]);
  return openFor(roots, { slot, place: where, sealed: row.sealed as Uint8Array<ArrayBuffer>, tag: row.tag });
}

/**
 * The id of the config that a body names, by its id or its lookup_key, in an org: that of the agent in whose statement
 * this stands (`createChild`), or of the row that is changed: sql`agent_tools.org_id` (`updateChild`). What isn't there,
 * or may not be read, or is of none of these kinds, is '', which no foreign key takes: a `<table>_<field>_fkey` makes a
 * 422 on the field of it, in the same round trip.
 */
export function configNamed(
  db: TenantDb,
  name: string | RawBuilder<string>,
  ofKinds: readonly string[] | RawBuilder<string[]> = configKindNames,
  org: RawBuilder<unknown> = sql`agents.org_id`,
): RawBuilder<Id<"config">> {
  const named = db
    .selectFrom("configs")
    .select("configs.id")
    .where(sql<boolean>`configs.org_id = ${org}`)
    .where(sql<boolean>`(configs.id = ${name} or (configs.lookup_key = ${name} and configs.archived_at is null))`)
    .where(sql<boolean>`configs.kind = any (${ofKinds}::text[])`)
    .where(mayConfig(db, "read"));
  return sql`coalesce((${named}), '')`;
}

/** A template, and the config that it stands in. */
export type Template = { id: Id<"config">; said: Record<string, unknown> };

/**
 * The templates of an org with these names (ids, keys or paths), which are of one of these kinds; undefined where there
 * is none, or none that may be read.
 */
export async function templatesNamed(
  db: TenantDb,
  org: RawBuilder<unknown>,
  names: string[],
  ofKinds: readonly string[],
): Promise<(Template | undefined)[]> {
  const configs = db
    .selectFrom("configs")
    .selectAll()
    .where(sql<boolean>`configs.org_id = ${org}`)
    .where("configs.kind", "in", ofKinds)
    .where("configs.archived_at", "is", null)
    .where(mayConfig(db, "read"));
  const size = sql`sum(octet_length(version.content)) over ()`;
  const rows = await db
    .running(
      sql<{ name: string; id: Id<"config">; mime_type: string; content: string | null }>`
        select asked.name, configs.id, version.mime_type,
          case when ${size} <= ${MAX_CONTENT_BYTES} then version.content end as content
        from unnest(${[...new Set(names)]}::text[]) as asked (name)
        join (${configs}) as configs
          on configs.id = asked.name or configs.lookup_key = asked.name or configs.virtual_path = asked.name
        join (${db.selectFrom("config_versions").selectAll()}) as version
          on (version.config_id, version.version_number) = (configs.id, configs.version_number)
        order by configs.lookup_key is not distinct from asked.name desc`,
    )
    .execute();
  if (rows.some(({ content }) => content === null)) {
    throw invalid({ field: "template", message: "names templates that hold more than 1 MB together" });
  }
  const read = parseTogether(MAX_WORDS, MAX_VALUES);
  const found = new Map<string, Template>();
  for (const { name, id, mime_type, content } of rows) {
    if (found.has(name)) continue;
    const parsed = read(mime_type, content!);
    if ("fault" in parsed) throw invalid({ field: "template", message: `names what can't be read: ${parsed.fault}` });
    found.set(name, { id, said: parsed.value as Template["said"] });
  }
  return names.map((name) => found.get(name));
}

/**
 * The script that a viewer's place has under a lookup_key, as it was at an instant: whoever asks again for that instant
 * gets the same. One that was saved since, where there was none before.
 */
export async function scriptNamed(db: TenantDb, lookup_key: string, at: string) {
  const scripts = db
    .selectFrom("configs")
    .select("configs.id")
    .where("configs.lookup_key", "=", lookup_key)
    .where("configs.kind", "=", "Script")
    .where("configs.archived_at", "is", null)
    .where(mayConfig(db, "read"));
  const since = sql`(created_at > ${at}::timestamptz)`;
  const found = await db
    .selectFrom("config_versions")
    .select(["encoding", "content"])
    .where(sql<boolean>`config_id in (${scripts})`)
    .orderBy(since)
    .orderBy(sql`case when ${since} then version_number else -version_number end`)
    .limit(1)
    .execute();
  return found[0] ?? null;
}

type Beside = { select: Rows<"tenants">["select"] };
/** The Solution that a config came with: see `configNamed`. */
const solutionNamed = (db: TenantDb, name: string | null | undefined, beside: Beside) =>
  name ? configNamed(db, name, ["Solution"], sql`(${beside.select("org_id")})`) : null;

/** This database behind a look whether there is such a Solution, if there is what the config is to be beside. */
function behindSolution(db: TenantDb, name: string | null | undefined, beside: Beside): TenantDb {
  const solution = solutionNamed(db, name, beside);
  if (!solution) return db;
  const holds = sql`(${solution} <> '' or not exists (${beside.select("org_id")}))`;
  return db.behind(mustHold(holds, "parent_solution", "there is no such parent_solution"));
}

/** What the feed tells of one: who may read the config may read the entry. */
function telling(db: TenantDb, event: "created" | "updated" | "deleted", metadata: object = {}): Telling {
  return {
    kind: `config.${event}`,
    title: sql`${`Config ${event}: `} || coalesce(lookup_key, virtual_path, relative_path, id)`,
    agent_id: sql`agent_id`,
    readers: readersOfConfig(db, "changed"),
    metadata: { ...metadata },
  };
}

type Note = { data?: object | null; change_description?: string | null };

/** Saves content as the version of those of these configs that have none of their number: of the one just written. */
function saveVersion(db: TenantDb, configs: Configs, { mime_type, encoding, text }: Content, note: Note) {
  const versions = db.selectFrom("config_versions");
  const has = versions.where(sql<boolean>`(config_id, version_number) = (configs.id, configs.version_number)`);
  return db.insertUnder(configs.where(sql<boolean>`not exists ${has.select(sql`1`.as("one"))}`), "config_versions", {
    id: newId("config_version"),
    config_id: sql`configs.id`,
    version_number: sql`configs.version_number`,
    content_hash: sql`configs.content_hash`,
    mime_type,
    encoding,
    content: text,
    data: note.data ? JSON.stringify(note.data) : null,
    change_description: note.change_description ?? null,
  } as never);
}

export const contentOf = (body: {
  mime_type: string;
  raw_content: string;
  data_encoding?: string | null;
}): Content => ({
  mime_type: body.mime_type,
  encoding: body.data_encoding === "base64" ? "base64" : "raw",
  text: body.raw_content,
});

/** What an automation runs, by how it names that, in an org; '' where that isn't there. */
const runBy = (db: TenantDb, { config_ref }: Automation, org: RawBuilder<unknown>) =>
  configNamed(db, config_ref ?? "", RUN_BY_AUTOMATIONS, org);
/** What writes the row beside configs that are this automation. */
const automationOf = (db: TenantDb, configs: Configs, automation: Automation) =>
  automating(db, configs, automation, runBy(db, automation, sql`automations.org_id`));
/** The automation that content is which the kind has nothing against. */
const automationIn = (content: Content) => readAutomation(valueIn(content)).automation;

const faulty = ({ errors }: Judged) =>
  invalid(errors.map((fault) => ({ field: "raw_content", message: spoken(fault) })));

/** The columns of a config that new content sets: equal content changes none of them, and so makes no version. */
function contentColumns({ mime_type }: Content, judged: Map<string, Judged>) {
  const hashOf = (structured: boolean) =>
    [...judged].find(([kind, { hash }]) => isStructured(kind) === structured && hash !== null)?.[1].hash ?? null;
  const structured = sql`configs.kind = any (${configKindNames.filter(isStructured)}::text[])`;
  const hash = sql<string>`case when ${structured} then ${hashOf(true)}::text else ${hashOf(false)}::text end`;
  // What is compared by what it says stays in the form in which it was said first.
  const type = sql<string>`case when ${structured} and configs.content_hash = ${hash} then configs.mime_type else ${mime_type}::text end`;
  const moved = sql`(configs.content_hash is distinct from ${hash} or configs.mime_type is distinct from ${type})`;
  return { content_hash: hash, mime_type: type, version_number: sql<number>`configs.version_number + ${moved}::int` };
}

/**
 * Makes a config with its first version. 409 on a lookup_key, virtual_path or relative_path that is taken, unless
 * `take_ownership` is asked for and the viewer may write the one that has it: then that one becomes this. 422 on
 * content that the kind doesn't take, and on an owner, parent or solution that isn't there.
 */
export async function createConfig(db: TenantDb, id: Id<"config">, body: CreateConfig): Promise<Shown> {
  const { kind, parent, take_ownership } = body;
  const place = parent ? placeUnder(db, parent, body) : placeOf(db, body);
  const content = contentOf(body);
  const judged = await judge([kind], content);
  const verdict = judged.get(kind)!;
  if (verdict.hash === null) {
    await db.enter();
    throw faulty(verdict);
  }
  const automation = kind === "Automation" ? automationIn(content) : null;
  const ungated = behindSolution(db, body.parent_solution, place.rows);
  const org = sql`(${place.rows.select("org_id")})`;
  const behind = automation ? mayAutomate(ungated, automation, { config: runBy(db, automation, org), org }) : ungated;
  const columns = {
    user_id: place.user_id,
    agent_id: place.agent_id,
    lookup_key: body.lookup_key ?? null,
    virtual_path: body.virtual_path ?? null,
    parent_id: parent ? sql`configs.id` : null,
    relative_path: body.relative_path ?? null,
    solution_id: solutionNamed(db, body.parent_solution, place.rows),
  };
  const row = { id, kind, ...columns, mime_type: content.mime_type, content_hash: verdict.hash };
  const taken = db
    .selectFrom("configs")
    .where(
      sql<boolean>`(configs.lookup_key = ${body.lookup_key ?? null} or configs.virtual_path = ${body.virtual_path ?? null})`,
    )
    .where("configs.kind", "=", kind)
    .where("configs.org_id", "in", place.rows.select("org_id"))
    .where(mayConfig(db, "write"));
  if (!take_ownership) {
    const made = db.selectFrom("configs").where("configs.id", "=", id);
    const { found } = await behind.batch({
      made: db.telling(db.insertUnder(place.rows, "configs", row as never), telling(db, "created")),
      version: saveVersion(db, made, content, body),
      ...(automation && automationOf(db, made, automation)),
      found: shown(db, made),
    });
    if (!found[0]) throw noSuch(place.field);
    return found[0] as Shown;
  }
  const target = db
    .selectFrom("configs")
    .where(sql<boolean>`(configs.id = ${id} or configs.id in (${taken.select("configs.id")}))`);
  // The values of a new row come from its place; those of one that is there can't, and are looked up.
  const fromPlace = (value: unknown) =>
    value && typeof value === "object" ? sql`(${place.rows.select(sql`${value}`.as("value"))})` : value;
  const owner = { user_id: fromPlace(columns.user_id), agent_id: fromPlace(columns.agent_id) };
  const adopted = db
    .patch("configs", {
      ...owner,
      lookup_key: body.lookup_key ?? undefined,
      virtual_path: body.virtual_path ?? undefined,
      archived_at: null,
      ...contentColumns(content, judged),
    } as never)
    .where(sql<boolean>`configs.id in (${taken.select("configs.id").orderBy("configs.id").limit(1)})`)
    .where(mayConfig(db, "write"));
  const free = place.rows.where(sql<boolean>`not exists (${taken.select(sql`1`.as("one"))})`);
  const { found } = await behind.batch({
    adopted: db.telling(adopted, telling(db, "updated", { fields: ["owner", "raw_content"] })),
    made: db.telling(db.insertUnder(free, "configs", row as never), telling(db, "created")),
    version: saveVersion(db, target, content, body),
    ...(automation && automationOf(db, target, automation)),
    found: shown(db, target),
  });
  if (!found[0]) throw noSuch(place.field);
  return found[0] as Shown;
}

type Change = {
  values: object;
  fields: string[];
  where?: Condition;
  /** What keeps it as it is, if there is any of it. */
  held?: RawBuilder<Use>;
  /** What else is to be done to it, of which its new columns are known. */
  also?: (after: Configs) => Record<string, Statement<unknown>>;
  /** How the config may be called afterwards, where it is not by its id. */
  renamed?: { lookup_key?: string | null | undefined; virtual_path?: string | null | undefined };
};

/** Changes one that the viewer may write; `null` where a condition kept it as it is. 404 where there is none. */
async function change(db: TenantDb, rows: Configs, { values, fields, where, held, also, renamed = {} }: Change) {
  const ours = sql<boolean>`configs.id in (${rows.select("configs.id")})`;
  let patch = db
    .patch("configs", values as never)
    .where(ours)
    .where(mayConfig(db, "write"));
  if (where) patch = patch.where(where);
  if (held) patch = patch.where(sql<boolean>`not exists (${held})`);
  const after = db
    .selectFrom("configs")
    .where(
      sql<boolean>`(${ours} or configs.lookup_key = ${renamed.lookup_key || null} or configs.virtual_path = ${renamed.virtual_path || null})`,
    );
  const { seen, row, found, used } = await db.batch({
    seen: rows.where(mayConfig(db, "write")).selectAll("configs"),
    row: db.telling(patch, telling(db, "updated", { fields })),
    ...also?.(after),
    found: shown(db, after),
    ...(held && { used: db.running(held) }),
  });
  const before = seen[0] as ConfigRow | undefined;
  if (!before) throw notFound("config");
  const changed = row[0] as ConfigRow | undefined;
  const now = changed && (found as Shown[]).find(({ id }) => id === changed.id);
  return { before, now: now ?? null, used: used ?? [] };
}

/** What a client thinks the version is: by the body (409 where it isn't) and by If-Match (412). */
export type Expected = { version: number | null; match: number[] | null };

/**
 * Changes a config; new content makes its next version, equal content none. 404 also where the viewer may not write it,
 * 422 on content that its kind doesn't take, 409 on a name that is taken.
 */
export async function updateConfig(
  db: TenantDb,
  rows: Configs,
  body: UpdateConfig,
  expected: Expected,
): Promise<Shown> {
  const { raw_content, mime_type, lookup_key, virtual_path } = body;
  const content = raw_content === undefined ? null : contentOf({ ...body, raw_content, mime_type: mime_type! });
  // The kind is known to the database alone: what each of them says goes along, so that one round trip is enough.
  const judged = content && (await judge(configKindNames, content));
  const takers = judged && [...judged].filter(([, { hash }]) => hash !== null).map(([kind]) => kind);
  const written = rows.where(mayConfig(db, "write"));
  const ungated = behindSolution(db, body.parent_solution, written as never);
  const hash = judged?.get("Automation")?.hash ?? null;
  const automation = content && hash ? automationIn(content) : null;
  // Those that this content has come to be the newest of.
  const are = (configs: Configs) =>
    configs.where("kind", "=", "Automation").where("content_hash", "=", hash!).where(mayConfig(db, "write"));
  const applies = sql<boolean>`exists (${written.where("kind", "=", "Automation").select(sql`1`.as("one"))})`;
  const org = sql`(${written.select("configs.org_id")})`;
  const behind = automation
    ? mayAutomate(ungated, automation, { config: runBy(db, automation, org), org, applies })
    : ungated;
  const named = (key: string | null | undefined) => (key === undefined ? undefined : key || null);
  const conditions = [
    ...(takers ? [sql`configs.kind = any (${takers}::text[])`] : []),
    ...(expected.version === null ? [] : [sql`configs.version_number = ${expected.version}`]),
    ...(expected.match ? [sql`configs.version_number = any (${expected.match}::int[])`] : []),
  ];
  const { before, now } = await change(behind, rows, {
    values: {
      lookup_key: named(lookup_key),
      virtual_path: named(virtual_path),
      relative_path: body.relative_path,
      solution_id:
        body.parent_solution === undefined ? undefined : solutionNamed(db, body.parent_solution, rows as never),
      ...(judged && contentColumns(content, judged)),
    },
    fields: Object.keys(body).filter(
      (name) => !["team", "user", "agent", "system", "org", "expected_version"].includes(name),
    ),
    ...(conditions.length && { where: sql<boolean>`(${sql.join(conditions, sql` and `)})` }),
    ...(content && {
      also: (after: Configs) => ({
        version: saveVersion(db, after, content, body),
        ...(automation && automationOf(db, are(after), automation)),
      }),
    }),
    renamed: { lookup_key, virtual_path },
  });
  if (now) return now;
  const verdict = judged?.get(before.kind);
  if (verdict?.hash === null) throw faulty(verdict);
  if (expected.match) throw preconditionFailed();
  if (expected.version === null) throw notFound("config");
  throw refused("version_conflict", "Another version of this config has been saved since expected_version.");
}

/** Puts a config away, or back. It keeps its names, its content and its versions. */
export async function archiveConfig(db: TenantDb, rows: Configs, archive: boolean): Promise<Shown> {
  const archived_at = archive ? sql`coalesce(configs.archived_at, now())` : null;
  const { now } = await change(db, rows, {
    values: { archived_at },
    fields: ["archived_at"],
    also: () => ({ automation: archiving(db, rows.where(mayConfig(db, "write")), archive) }),
  });
  if (!now) throw notFound("config");
  return now;
}

/**
 * Gives a config, and its children with it, to a user or an agent of its org, or to the org itself; to another org or to
 * the app (`org: null`), by the developer alone, unless something uses it here: 409. 422 where there is no such owner, or
 * for a child.
 */
export async function changeOwner(asked: TenantDb, id: Id<"config">, body: Owner): Promise<Shown> {
  const { viewer } = asked;
  const [name, ...others] = namesOf(body);
  if (!name || others.length)
    throw invalid({ field: others[0] ?? "", message: "name one of team, user, agent and system" });
  if (body.org !== undefined && !body.system) throw invalid({ field: "org", message: "goes with system alone" });
  if (body.team) throw noSuch("team");
  if (body.org !== undefined && viewer.kind === "user" && body.org !== viewer.org) throw noSuch("org");
  const org = asked.selectFrom("tenants").where("org_id", "=", (body.org ?? NONE) as Id<"org">);
  // First of all: what uses the config would else answer before its new place does.
  const db = body.org
    ? asked.behind(mustHold(sql`exists ${org.select("org_id")}`, "org", "there is no such org"))
    : asked;
  const rows = db.selectFrom("configs").where("configs.id", "=", id);
  const here = sql<boolean>`org_id in (${rows.select("configs.org_id")})`;
  const user = db
    .selectFrom("users")
    .select("users.id")
    .where("users.id", "=", body.user as Id<"user">)
    .where(here)
    .where(mayOwnFor(viewer, body.user ?? ""));
  const agent = agentNamed(db, body.agent ?? "")
    .select("agents.id")
    .where(here)
    .where(passes(viewer, "writers"));
  const parent = (column: "user_id" | "agent_id") => sql`(${rows.select(`configs.${column}`)})`;
  // What uses a config finds it in its own org alone.
  const held = usesOf(db, rows.where("configs.org_id", "<>", (body.org ?? NONE) as Id<"org">));
  const { before, now, used } = await change(db, rows, {
    values: {
      // '' is nobody's id: the foreign key says so.
      user_id: body.user ? sql`coalesce((${user}), '')` : null,
      agent_id: body.agent ? sql`coalesce((${agent}), '')` : null,
      // Nor does it name what is in the org that it leaves.
      ...(body.org !== undefined && {
        org_id: body.org ?? NONE,
        solution_id: sql`case when configs.org_id = ${body.org ?? NONE} then configs.solution_id end`,
      }),
    },
    fields: ["owner"],
    where: sql<boolean>`(configs.parent_id is null and (configs.kind <> 'Automation' or ${body.org === undefined}))`,
    ...(body.org !== undefined && { held }),
    also: () => ({
      children: db
        .updateTable("configs")
        .set({ user_id: parent("user_id"), agent_id: parent("agent_id") } as never)
        .where("configs.parent_id", "=", id),
    }),
  });
  if (now) return now;
  if (before.parent_id) throw invalid({ field: "config", message: "belongs to whom its parent belongs" });
  // What it has run is its place's.
  if (before.kind === "Automation" && body.org !== undefined) {
    throw invalid({ field: "org", message: "is where an automation stays: save it anew in the other" });
  }
  throw used.length ? inUse(used) : notFound("config");
}

/** Deletes a config, its versions and its children. 409 where something uses one of them, naming what the viewer may see. */
export async function deleteConfig(db: TenantDb, rows: Configs): Promise<void> {
  const mine = rows.where(mayConfig(db, "write"));
  const held = usesOf(db, mine);
  const gone = db
    .deleteFrom("configs")
    .where(sql<boolean>`configs.id in (${mine.select("configs.id")})`)
    .where(mayConfig(db, "write"))
    .where(sql<boolean>`not exists (select from (${held}) as held)`);
  const { found, used, deleted } = await db.batch({
    found: mine.select("configs.id"),
    used: db.running(held),
    deleted: db.telling(gone, telling(db, "deleted")),
  });
  if (deleted.length) return;
  if (!found.length || !used.length) throw notFound("config");
  throw inUse(used);
}

/** The versions of a config, newest first, without their content; one more than asked for, if there is one. */
export async function listVersions(db: TenantDb, rows: Configs, { limit, from }: CursorPage): Promise<Version[]> {
  const readable = rows.where(mayConfig(db, "read"));
  let versions = db
    .selectFrom("config_versions")
    .select(["app_id", "sandbox_id", "org_id", "content_hash", ...VERSION])
    .where(sql<boolean>`config_id in (${readable.select("configs.id")})`);
  if (from !== null) versions = versions.where("version_number", "<", Number(from));
  const { found, page } = await db.batch({
    found: readable.select("configs.id"),
    page: versions.orderBy("version_number", "desc").limit(limit + 1),
  });
  if (!found.length) throw notFound("config");
  return page as Version[];
}

/** The newest content of a config, as it was stored, and the version that it is. */
export async function readContent(db: TenantDb, rows: Configs): Promise<Content & { version: number }> {
  const newest = rows.where(mayConfig(db, "read")).select(["configs.id", "configs.version_number"]);
  const found = await db
    .selectFrom("config_versions")
    .select(["mime_type", "encoding", "content", "version_number"])
    .where(sql<boolean>`(config_id, version_number) in (${newest})`)
    .executeTakeFirstOrThrow(() => notFound("config"));
  const { mime_type, encoding, content, version_number } = found;
  return { mime_type, encoding, text: content, version: version_number };
}

/** How many configs that the viewer may read there are of each kind, and under each first part of a path. */
export async function facetsOf(db: TenantDb, { app, ...owner }: Owner & { app?: string | undefined }) {
  let configs = ownedBy(db, owner).where("configs.archived_at", "is", null).where(mayConfig(db, "read"));
  if (app !== undefined && app !== db.tenant.app) configs = configs.where(sql.lit(false));
  const prefix = sql<string>`split_part(configs.virtual_path, '/', 1) || '/'`;
  const count = sql<number>`count(*)`.as("count");
  const { of, under } = await db.batch({
    of: configs.select(["configs.kind", count]).groupBy("configs.kind").orderBy("configs.kind"),
    under: configs
      .select([prefix.as("prefix"), count])
      .where("configs.virtual_path", "like", "%/%")
      .groupBy(prefix)
      .orderBy(prefix)
      .limit(1000),
  });
  return { kinds: of, path_prefixes: under };
}
