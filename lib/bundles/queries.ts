import { type RawBuilder, sql } from "kysely";
import { type Carried, createAgent, getAgent, ownerOf, placeOf } from "../agents/queries.ts";
import type { AgentRow, CreateAgent } from "../agents/schema.ts";
import type { Providing } from "../computers/providers.ts";
import { mayConfig } from "../configs/access.ts";
import { configNamed, templatesNamed } from "../configs/queries.ts";
import type { Rows } from "../db/statements.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError, conflict, invalid } from "../errors.ts";
import type { Id } from "../ids.ts";
import { withIds } from "../routines/queries.ts";
import { minInterval, notTooOften } from "../schedules/queries.ts";
import { MAX_FAULTS, type Plan, planTemplate, type Reference, tables } from "./plan.ts";
import type { InstalledConfig } from "./schema.ts";

type Taken = { field: string; name: string };

/** An agent, and the configs that came with it. */
export type Installed = { agent: AgentRow; configs?: InstalledConfig[] };

/** Throws what is wrong with a plan, but not to a credential that is dead. */
export async function mustBeWhole(db: TenantDb, { faults }: Plan): Promise<void> {
  if (!faults.length) return;
  await db.enter();
  const rest = faults.length - MAX_FAULTS;
  throw invalid([
    ...faults.slice(0, MAX_FAULTS),
    ...(rest > 0 ? [{ field: "", message: `has ${rest} more faults` }] : []),
  ]);
}

/** Expressions for what only the database knows: for the names of configs their ids, and what comes too often is a draft. */
function knownColumns(
  place: TenantDb,
  org: RawBuilder<unknown>,
  table: (typeof tables)[number],
  { named: inRoutines }: Plan,
): Record<string, RawBuilder<unknown>> {
  const named = (name: RawBuilder<string>, kinds?: string[]) =>
    sql`case when ${name} is not null then ${configNamed(place, sql`(${name} collate "default")`, kinds, org)} end`;
  const config_id = named(sql`item.config_id`);
  if (table === "agent_tools") return { config_id, parameters_config_id: named(sql`item.parameters_config_id`) };
  if (table === "agent_skills") return { config_id };
  if (table === "agent_routines") {
    const json = (column: string) => withIds(place, org, sql.ref(`item.${column}`), inRoutines);
    const status = sql`case when item.interval_s < ${minInterval(place)} then 'draft' else item.status end`;
    return {
      config_id,
      status,
      ...(inRoutines.length && { steps: json("steps"), preset_config: json("preset_config") }),
    };
  }
  if (table !== "agent_health_actions") return {};
  const script = named(sql`(item.verify_config ->> 'script_ref')`, ["Script"]);
  return {
    verify_config: sql`item.verify_config || case when jsonb_typeof(item.verify_config -> 'script_ref') = 'string'
      then jsonb_build_object('script_ref', ${script}) else '{}' end`,
  };
}

/** What a plan puts below its agent: one statement a table, however much there is. */
function below(place: TenantDb, agent: Parameters<Carried["below"]>[1], plan: Plan) {
  const { configs, rows } = plan;
  const org = sql`(${agent.select("org_id")})`;
  const all = (
    table: Parameters<TenantDb["insertAll"]>[1],
    of: object[],
    from: Record<string, RawBuilder<unknown>> = {},
  ) => (of.length ? { [table]: place.insertAll(agent, table, of, from) } : {});
  const agent_id = sql.ref("above.id");
  return {
    ...all(
      "configs",
      configs.map(({ row }) => row),
      { agent_id },
    ),
    ...all(
      "config_versions",
      configs.map(({ version }) => version),
    ),
    ...(plan.often.length && {
      often: place.insertAll(
        agent,
        "agent_health_actions",
        plan.often,
        { agent_id },
        sql`(item.params ->> 'interval_seconds')::int < ${minInterval(place)}`,
      ),
    }),
    ...Object.assign(
      {},
      ...tables.map((table) => all(table, rows[table], { agent_id, ...knownColumns(place, org, table, plan) })),
    ),
  };
}

/** The references of a plan that nothing in the org answers to, as far as the viewer may read. */
function missing(place: TenantDb, org: RawBuilder<unknown>, references: Reference[]) {
  const there = place
    .selectFrom("configs")
    .where(sql<boolean>`configs.org_id = ${org}`)
    .where(
      sql<boolean>`(configs.id = ref.name or (configs.lookup_key = ref.name collate "default" and configs.archived_at is null))`,
    )
    .where(sql<boolean>`(ref.kinds is null or configs.kind = any (ref.kinds))`)
    .where(mayConfig(place, "read"));
  return sql<Reference>`select ref.at, ref.name from
    jsonb_to_recordset(${JSON.stringify(references)}::jsonb) as ref (at text, name text, kinds text[])
    where not exists (${there.select(sql`1`.as("one"))})`;
}

/** The keys of a plan that something in the org has already. */
function taken(place: TenantDb, org: RawBuilder<unknown>, { configs, rows }: Plan) {
  const keys = (of: object[], name: string) => of.flatMap((row) => (row as Record<string, string | null>)[name] ?? []);
  const planned = configs.map(({ row }) => row);
  const among = (table: "configs" | "agent_installations" | "agent_computers", column: string, of: object[]) =>
    sql`select ${sql.lit(column)} as field, ${sql.ref(column)} as name
      from (${place.selectFrom(table).selectAll()}) as held
      where org_id = ${org} and ${sql.ref(column)} = any (${keys(of, column)}::text[])`;
  return sql<Taken>`${sql.join(
    [
      among("configs", "lookup_key", planned),
      among("configs", "virtual_path", planned),
      among("agent_installations", "lookup_key", rows.agent_installations),
      among("agent_computers", "lookup_key", rows.agent_computers),
    ],
    sql` union all `,
  )}`;
}

/** Makes the agent of a plan with all that it carries, or nothing. What the body says of the agent itself wins. */
export async function installAgent(
  db: TenantDb,
  id: Id<"agent">,
  body: CreateAgent,
  plan: Plan,
  at: string,
): Promise<Installed> {
  const behind = plan.interval === null ? db : notTooOften(db, plan.interval, at);
  const carried: Carried = {
    template_config_id: plan.template,
    refusals: (place, org) => ({
      missing: missing(place, org, plan.references),
      taken: taken(place, org, plan),
    }),
    below: (place, agent) => below(place, agent, plan),
    judge: ({ missing, taken }) => {
      const gone = missing as Reference[];
      const faults = gone.map((ref) => `${ref.at}: names a config that isn't there: ${ref.name.slice(0, 100)}`);
      if (gone.length) throw invalid(faults.slice(0, MAX_FAULTS).map((message) => ({ field: at, message })));
      if (taken?.length) throw isTaken(taken as Taken[]);
    },
  };
  const whole = withPlan(body, plan);
  const keys = [whole.lookup_key, ...plan.rows.agent_computers.map(({ lookup_key }) => lookup_key)];
  const agent = await createAgent(behind, id, whole, carried).catch((error) => {
    // Another org of the app has it, or it was taken at this moment: which of them, nobody says.
    if (!(error instanceof ApiError) || error.message !== conflict("lookup_key").message) throw error;
    const mine = keys.filter((key) => typeof key === "string").map((name) => ({ field: "lookup_key", name }));
    throw mine.length ? isTaken(mine, mine.length > 1 ? "One of these is" : undefined) : error;
  });
  return { agent, ...(plan.configs.length && { configs: entriesOf(plan) }) };
}

function isTaken(taken: Taken[], which = taken.length > 1 ? "These are" : "This is") {
  const names = taken.slice(0, 20).map(({ field, name }) => `${field} ${name.slice(0, 100)}`);
  return new ApiError(
    409,
    "conflict",
    `${which} already taken: ${names.join(", ")}.`,
    [...new Set(taken.map(({ field }) => field))].map((field) => ({ field, message: "is already taken" })),
  );
}

const withPlan = (body: CreateAgent, { agent, agentKey, metadata }: Plan): CreateAgent => ({
  ...agent,
  ...(agentKey !== undefined && { lookup_key: agentKey }),
  ...(metadata && { metadata }),
  ...Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)),
  // The one is the other: what the body says of it is not to stand beside the template's.
  ...(body.default_model !== undefined && { model: body.default_model }),
});

const entriesOf = ({ configs }: Plan): InstalledConfig[] =>
  configs
    .map(({ id, key, kind, lookup_key }) => ({ id, key, kind, lookup_key }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));

/** The agent of a bundle that was installed before, with those of its configs that are still there. */
export async function installedAgent(db: TenantDb, id: Id<"agent">, plan: Plan): Promise<Installed> {
  const agent = await getAgent(db, id);
  const rows = await db
    .selectFrom("configs")
    .select(["configs.id", "configs.lookup_key", "configs.parent_id", "configs.relative_path"])
    .where("configs.agent_id", "=", id)
    .execute();
  const keyOf = new Map(rows.map((row) => [row.id, row.lookup_key]));
  const nameOf = (
    parent: string | null | undefined,
    { lookup_key, relative_path }: { lookup_key: string | null; relative_path: unknown },
  ) => (parent == null ? `${lookup_key}` : `${parent}\n${relative_path}`);
  const there = new Map(rows.map((row) => [nameOf(row.parent_id && keyOf.get(row.parent_id), row), row.id]));
  const planned = new Map(plan.configs.map((config) => [config.id as unknown, config]));
  const configs = plan.configs.flatMap((config) => {
    const { parent_id, relative_path } = config.row;
    const { lookup_key } = config;
    const id = there.get(nameOf(parent_id ? planned.get(parent_id)?.lookup_key : null, { lookup_key, relative_path }));
    return id ? [{ ...config, id }] : [];
  });
  return { agent, ...(plan.configs.length && { configs: entriesOf({ ...plan, configs }) }) };
}

/**
 * The plan of a template that is a config of where the agent is to be; `env` as in `planOf`. 422 where there is none that
 * the viewer may read.
 */
export async function planOfTemplate(db: TenantDb, body: CreateAgent, env: Providing): Promise<Plan> {
  const place = placeOf(db, body);
  const owner = ownerOf(place, body.user) as Rows<"users">;
  const org = sql`(${owner.select("org_id")})`;
  const [template] = await templatesNamed(place, org, [body.template!], ["AgentTemplate"]);
  if (!template) throw invalid({ field: "template", message: "there is no such template" });
  const { id, said } = template;
  const parts = ["tools", "routines"].flatMap((name) => (Array.isArray(said[name]) ? (said[name] as unknown[]) : []));
  const paths = parts.flatMap((part) => {
    const path = (part as { template_path?: unknown } | null)?.template_path;
    return typeof path === "string" ? [path] : [];
  });
  const kinds = ["AgentToolTemplate", "AgentRoutineTemplate"];
  const found = paths.length ? await templatesNamed(place, org, paths.slice(0, 200), kinds) : [];
  const templates = new Map(paths.map((path, i) => [path, found[i]]));
  const plan = planTemplate(said, {
    ...{
      suffix: "",
      configs: [],
      templates: (path: string) => templates.get(path),
      at: "template",
      actions: [],
      env,
    },
  });
  return { ...plan, template: id };
}
