/** The functions of the builtin tools: what a model gives to each, and what each does. */
import * as v from "valibot";
import { listChildren } from "../agents/children.ts";
import type { Effect } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { ApiError } from "../errors.ts";
import { type Egress, fetchGuarded } from "../http/egress.ts";
import { isMap, mustBeStorable } from "../http/valid.ts";
import { derivedId, type Id, isId } from "../ids.ts";
import { cancelSchedule, createSchedule } from "../schedules/queries.ts";
import { createScheduleBody, type ScheduleRow } from "../schedules/schema.ts";
import { RECALLED, recallMemory, storeMemory } from "../working-memory/queries.ts";
import type { OfferedTool, PinnedSkill, ToolAnswer, ToolAsk } from "./calls.ts";
import { builtins } from "./catalog.ts";
import { readSkill } from "./skills.ts";

/** What the functions reach. */
export type BuiltinWorld = Egress & {
  db: TenantDb;
  agent: Id<"agent">;
  skills: readonly PinnedSkill[];
  /** Called with what was planned, for it may be due soon. */
  planned: (row: ScheduleRow) => Promise<void>;
};

type Ask = Pick<ToolAsk, "attempt" | "idempotency_key" | "begun_at" | "signal">;
type Run = (args: never, ask: Ask, world: BuiltinWorld) => Promise<ToolAnswer>;
/** `run` null: the session itself does it. */
type Definition = { effect: Effect; parameters: Record<string, unknown>; run: Run | null };

const text = (description: string, maxLength: number) => ({ type: "string", description, minLength: 1, maxLength });
const object = (properties: Record<string, object>, ...required: string[]) => ({
  ...{ type: "object", properties, required },
  additionalProperties: false,
});
const told = (resolution: unknown, content: string | null = null): ToolAnswer => ({ ok: { content, resolution } });

const YEAR_S = 366 * 86_400;
const FETCH_MS = 30_000;
const FETCH_BYTES = 1_000_000;

const definitions: Record<string, Definition> = {
  memory_store: {
    effect: "idempotent",
    parameters: object(
      {
        key: text("What it is kept under; what was kept there is replaced.", 200),
        value: text("What to keep.", 65_536),
        expires_in_s: { type: "integer", description: "Forgotten after so many seconds.", minimum: 1, maximum: YEAR_S },
      },
      "key",
      "value",
    ),
    run: async ({ key, value, expires_in_s }: Stored, { begun_at }, { db, agent }) => {
      const expires_at = expires_in_s ? new Date(Date.parse(begun_at) + expires_in_s * 1000).toISOString() : null;
      await storeMemory(db, agent, { key, value, expires_at });
      return told({ key, expires_at });
    },
  },
  memory_recall: {
    effect: "read",
    parameters: object({
      key: text("Exactly this key.", 200),
      search: text(`A part of the key. At most ${RECALLED} come, the newest first.`, 200),
    }),
    run: async (which: { key?: string; search?: string }, _, { db, agent }) =>
      told({ entries: await recallMemory(db, agent, which) }),
  },
  create_schedule: {
    effect: "idempotent",
    parameters: object(
      {
        instructions: text("What to do then.", 10_000),
        cron: text("Again and again: five cron fields, such as 0 9 * * 1-5.", 200),
        at: text("Once: a moment in the future, such as 2030-01-31T09:00:00Z.", 40),
        timezone: text("Of the cron fields, such as Europe/Berlin; without it, UTC.", 64),
        max_runs: { type: "integer", description: "Over after so many runs.", minimum: 1, maximum: 1_000_000 },
      },
      "instructions",
    ),
    run: schedule,
  },
  list_schedules: {
    effect: "read",
    parameters: object({}),
    run: async (_, __, { db, agent }) =>
      told({ schedules: (await listChildren(db, "agent_schedule", agent)).map(shown) }),
  },
  cancel_schedule: {
    effect: "idempotent",
    parameters: object({ id: text("The schedule's id.", 100) }, "id"),
    run: async ({ id }: { id: string }, _, { db, agent }) =>
      isId("agent_schedule", id)
        ? told(shown(await cancelSchedule(db, agent, id)))
        : { error: "There is no such schedule." },
  },
  http_fetch: {
    effect: "read",
    parameters: object({ url: text("A public http or https address.", 4000) }, "url"),
    run: async ({ url }: { url: string }, { signal }, { fetch, loopback }) => {
      const init = { method: "GET", headers: { accept: "text/*, application/json;q=0.9, */*;q=0.1" }, body: null };
      const bounds = { timeout_ms: FETCH_MS, max_bytes: FETCH_BYTES, cut: true, signal };
      const fetched = await fetchGuarded(url, init, { fetch, ...(loopback && { loopback }), ...bounds });
      if ("error" in fetched) return { error: `The address could not be read: ${fetched.error}.` };
      const { status, headers, body, cut } = fetched.ok;
      const said = typeof body === "string" ? body : JSON.stringify(body);
      if (status >= 400) return { error: `HTTP ${status}: ${said.slice(0, 2000)}` };
      const more = cut ? "\n[cut: the answer is longer than is read]" : "";
      return told({ status, content_type: headers["content-type"] ?? null }, said + more);
    },
  },
  skills_read: {
    effect: "read",
    parameters: object(
      {
        skill: text("The skill's name.", 200),
        path: text("A file of it; without one, its instructions, and which files there are.", 1000),
      },
      "skill",
    ),
    run: ({ skill, path }: { skill: string; path?: string }, _, { db, skills }) => readSkill(db, skills, skill, path),
  },
  wait: {
    effect: "idempotent",
    parameters: object({
      seconds: { type: "number", description: "How long.", minimum: 0, maximum: YEAR_S },
      until_message: { type: "boolean", description: "No longer than until the next message." },
    }),
    run: null,
  },
};
type Stored = { key: string; value: string; expires_in_s?: number };

type Asked = { instructions: string; cron?: string; at?: string; timezone?: string; max_runs?: number };

/** Its id comes of the call's key: a second attempt finds what the first one made. */
async function schedule(args: Asked, ask: Ask, { db, agent, planned }: BuiltinWorld): Promise<ToolAnswer> {
  const { instructions, cron, at, timezone, max_runs } = args;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(ask.idempotency_key));
  const id = derivedId("agent_schedule", Date.parse(ask.begun_at), new Uint8Array(hash));
  if (ask.attempt > 1) {
    const [made] = await listChildren(db, "agent_schedule", agent, { narrow: (rows) => rows.where("id", "=", id) });
    if (made) {
      await planned(made);
      return told(shown(made));
    }
  }
  const body = v.safeParse(createScheduleBody, {
    ...{ schedule_type: cron === undefined ? "once" : "recurring", cron_expression: cron, scheduled_at: at },
    ...{ instructions, timezone, max_runs },
  });
  if (!body.success) {
    const faults = body.issues.map(({ path, message }) => ({ field: String(path?.[0]?.key ?? ""), message }));
    return { error: faultsOf(faults) };
  }
  try {
    const row = await createSchedule(db, agent, id, body.output);
    await planned(row);
    return told(shown(row));
  } catch (error) {
    if (error instanceof ApiError && error.fields.length) return { error: faultsOf(error.fields) };
    throw error;
  }
}

/** Faults by the names that the model knows their fields by. */
const faultsOf = (faults: readonly { field: string; message: string }[]): string =>
  faults.map(({ field, message }) => `${asked[field] ?? field}: ${message}.`).join(" ");
const asked: Record<string, string> = { cron_expression: "cron", scheduled_at: "at" };

/** A schedule as its agent is told of it. */
const shown = (row: ScheduleRow) => ({
  ...{ id: row.id, status: row.status, instructions: row.instructions, cron: row.cron_expression },
  ...{ at: row.scheduled_at, timezone: row.timezone, max_runs: row.max_runs, run_count: row.run_count },
  next_run_at: row.next_run_at,
});

type Installed = Pick<OfferedTool, "approval" | "async"> & { config: Record<string, unknown>; says: (string | null)[] };

/** The functions of a builtin, as an agent has it. None, where nothing stands behind it. */
export const functionsOf = (key: string, { config, says, ...ways }: Installed): OfferedTool[] =>
  (builtins.get(key)?.tools ?? []).flatMap(({ name, description }) => {
    const defined = definitions[name];
    if (!defined) return [];
    const { effect, parameters, run } = defined;
    const handler = { type: "builtin", key, function: name, config } as const;
    const text = [description, ...says].filter(Boolean).join("\n\n");
    return [{ name, description: text, parameters, effect, ...ways, async: ways.async && run !== null, handler }];
  });

/** Does what a function of a builtin does. What the database refuses is told to the model. */
export async function callBuiltin(
  name: string,
  ask: Ask & Pick<ToolAsk, "arguments">,
  world: BuiltinWorld,
): Promise<ToolAnswer> {
  const run = definitions[name]?.run;
  if (!run) throw new Error(`${name} is no function that is called here`);
  try {
    mustBeStorable(ask.arguments);
    return await run(ask.arguments as never, ask, world);
  } catch (error) {
    if (!(error instanceof ApiError) || ![403, 404, 409, 422].includes(error.status)) throw error;
    return { error: [error.message, ...error.fields.map(({ field, message }) => `${field}: ${message}.`)].join(" ") };
  }
}

/** What every session is offered, and does itself: a question to people, and the end with a result. */
export function sessionFunctions(result_schema: Record<string, unknown> | null): OfferedTool[] {
  const ways = { effect: "idempotent", approval: "none", async: false } as const;
  const handler = (name: string) => ({ type: "builtin", key: null, function: name, config: {} }) as const;
  return [
    {
      name: "ask_user",
      description: "Asks the people of this session something, and waits for their answer.",
      parameters: object({ question: text("The question.", 10_000) }, "question"),
      ...{ ...ways, handler: handler("ask_user") },
    },
    {
      name: "finish",
      description: "Ends the session with its result. Call it when all that was asked is done, and nothing after it.",
      parameters: object(
        { result: below("/properties/result", result_schema ?? { type: "object" }) as object },
        "result",
      ),
      ...{ ...ways, handler: handler("finish") },
    },
  ];
}

/** A schema that stands below another: what it refers to of its own is where it is now. */
function below(pointer: string, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((item) => below(pointer, item));
  if (!isMap(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) =>
      name === "$ref" && typeof value === "string" && /^#(\/|$)/.test(value)
        ? [name, `#${pointer}${value.slice(1)}`]
        : [name, below(pointer, value)],
    ),
  );
}
