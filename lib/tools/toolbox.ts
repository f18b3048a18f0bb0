/** An agent's tools as a session has them: what it pins at its start, what it offers its model, and what a call gives. */
import { type RawBuilder, sql } from "kysely";
import { bytesOf, frontMatter, type Parsed, parseTogether, textOf } from "../configs/content.ts";
import { checkSchema, faultOf } from "../configs/json-schema.ts";
import { scriptNamed } from "../configs/queries.ts";
import type { Effect, Row } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import { openSecrets, sealedOf } from "../env-vars/queries.ts";
import { egressOf } from "../http/egress.ts";
import { isMap } from "../http/valid.ts";
import type { Id } from "../ids.ts";
import { wakeIfSoon } from "../schedules/remote.ts";
import type { RunOptions } from "../script/index.ts";
import { computeScript } from "../scripts/compute.ts";
import { platformOf } from "../scripts/world.ts";
import { callBuiltin, functionsOf } from "./builtins.ts";
import type { OfferedTool, PinnedAgent, PinnedConfig, PinnedSkill, ToolAnswer, ToolAsk } from "./calls.ts";
import { reservedNames } from "./catalog.ts";
import { callHttp, type HttpTool } from "./http.ts";
import { masker } from "./mask.ts";
import { type McpConfig, McpServer, offeredOf } from "./mcp.ts";
import { callScript } from "./script.ts";

/** Of what a tool gives, in characters: the rest is cut, with a note. */
export const MAX_RESULT = 65_536;
/** Of an error. */
const MAX_ERROR = 4_000;
/** Contents of configs in memory, in characters. */
const MAX_CACHED = 2_000_000;
/** Of the content of a skill, in which its front matter must end; of base64, whole bytes. */
const MAX_MATTER = 32_768;
/** Of a config that says a tool's parameters, or the request that it makes. */
const MAX_SAID = 131_072;
/** What a prompt is told of a skill. */
const MAX_DESCRIPTION = 10_000;
/** All that is read of an agent's skills and parameters, in words of YAML and in values. */
const MAX_WORDS = 200_000;
const MAX_VALUES = 200_000;

export type Text = { mime_type: string; encoding: "raw" | "base64"; content: string };

/** The agent as it is now, with its active tools and skills, and its secrets, in one round trip; null where it isn't there. */
export async function pinAgent(
  db: TenantDb,
  roots: string,
  id: Id<"agent">,
): Promise<{ agent: PinnedAgent; secrets: Record<string, string> } | null> {
  const configs = db.selectFrom("configs").select(["id", "version_number"]);
  const newest = (of: RawBuilder<unknown>, chars: number) => sql`(
    select jsonb_build_object('mime_type', mime_type, 'encoding', encoding, 'content', left(content, ${chars}::int))
    from (${db.selectFrom("config_versions").selectAll()}) v join (${configs}) c
      on (c.id, c.version_number) = (v.config_id, v.version_number) where c.id = ${of})`;
  const version = (of: RawBuilder<unknown>) =>
    sql<number>`(select c.version_number from (${configs}) c where c.id = ${of})`;
  const { agents, tools, skills, sealed } = await db.batch({
    sealed: sealedOf(db, id),
    agents: db.selectFrom("agents").select(["id", "name", "identity", "default_model"]).where("id", "=", id),
    tools: db
      .selectFrom("agent_tools")
      .selectAll()
      .select([
        version(sql`agent_tools.config_id`).as("version"),
        newest(sql`agent_tools.parameters_config_id`, MAX_SAID).as("said"),
        newest(
          sql`case when agent_tools.effect is null and agent_tools.handler_type = 'http' then agent_tools.config_id end`,
          MAX_SAID,
        ).as("request"),
      ])
      .where("agent_id", "=", id)
      .where("status", "=", "active")
      .orderBy("id"),
    skills: db
      .selectFrom("agent_skills")
      .select(["id", "config_id", "instruction"])
      .select([
        version(sql`agent_skills.config_id`).as("version"),
        newest(sql`agent_skills.config_id`, MAX_MATTER).as("said"),
      ])
      .where("agent_id", "=", id)
      .where("status", "=", "active")
      .orderBy("id"),
  });
  const [agent] = agents;
  if (!agent) return null;
  const rows = tools as ToolRow[];
  const read = parseTogether(MAX_WORDS, MAX_VALUES);
  const pinned: PinnedAgent = {
    ...{ id: agent.id, name: agent.name, identity: agent.identity, model: agent.default_model },
    tools: rows.flatMap((row) =>
      row.kind === "builtin" ? builtinOf(row) : row.kind === "custom" ? customOf(row, read) : [],
    ),
    servers: rows.flatMap((row) =>
      row.kind === "mcp" && row.config_id
        ? [
            {
              ...{ tool_id: row.id, prefix: row.name_prefix, effect: row.effect, approval: row.approval },
              instruction: joined(row.description, row.instruction) || null,
              config: { id: row.config_id, version: row.version },
            },
          ]
        : [],
    ),
    skills: (skills as SkillRow[]).flatMap((row) => skillOf(row, read)),
  };
  return { agent: pinned, secrets: await openSecrets(roots, sealed) };
}

type ToolRow = Row<"agent_tools"> & { version: number; said: Text | null; request: Text | null };
type SkillRow = Pick<Row<"agent_skills">, "id" | "config_id" | "instruction"> & { version: number; said: Text | null };
type Read = ReturnType<typeof parseTogether>;

const joined = (...texts: (string | null)[]) => texts.filter(Boolean).join("\n\n");

const builtinOf = (row: ToolRow): OfferedTool[] =>
  functionsOf(row.builtin_tool_key ?? "", {
    ...{ approval: row.approval, async: row.async, config: row.builtin_tool_config ?? {} },
    says: [row.description, row.instruction],
  });

/** Of a tool whose parameters can't be read nothing is offered: no call of it would be right. */
function customOf(row: ToolRow, read: Read): OfferedTool[] {
  const { function_name: name, handler_type: type, config_id } = row;
  // Workflows don't run yet.
  if (!name || !config_id || (type !== "http" && type !== "script")) return [];
  const parameters = row.parameters ?? parametersOf(row.said, read);
  if (!parameters) return [];
  return [
    {
      ...{ name, description: joined(row.description, row.instruction), parameters },
      ...{ effect: row.effect ?? effectOf(row.request, read), approval: row.approval, async: row.async },
      handler: { type, config: { id: config_id, version: row.version } },
    },
  ];
}

/** What a request's method says; of all else once is the safe guess. */
function effectOf(request: Text | null, read: Read): Effect {
  const parsed = request && parsedOf(request, read);
  const method = parsed && "value" in parsed && isMap(parsed.value) ? parsed.value.method : null;
  if (method === "GET" || method === "HEAD") return "read";
  return method === "PUT" || method === "DELETE" ? "idempotent" : "once";
}

function parametersOf(said: Text | null, read: Read): Record<string, unknown> | null {
  const parsed = said && parsedOf(said, read);
  if (!parsed || "fault" in parsed || !isMap(parsed.value)) return null;
  return parsed.value.type === "object" && !checkSchema(parsed.value).length ? parsed.value : null;
}

function parsedOf({ mime_type, encoding, content }: Text, read: Read): Parsed | null {
  const bytes = encoding === "raw" ? null : bytesOf({ encoding, text: content });
  const text = encoding === "raw" ? content : bytes && textOf(bytes);
  return text === null ? null : read(mime_type, text);
}

/** Told of by its front matter; `instruction` stands in the place of what that says it is for. */
function skillOf({ id, config_id, instruction, version, said }: SkillRow, read: Read): PinnedSkill[] {
  const bytes = said && bytesOf({ encoding: said.encoding, text: said.content });
  // The text was cut, maybe within a letter.
  const parsed = bytes && frontMatter(new TextDecoder().decode(bytes), read);
  const matter = parsed && "value" in parsed && isMap(parsed.value) ? parsed.value : {};
  const name = typeof matter.name === "string" ? matter.name : id;
  const described = typeof matter.description === "string" ? matter.description : "";
  const description = (instruction ?? described).slice(0, MAX_DESCRIPTION);
  return [{ id, name, description, config: { id: config_id, version } }];
}

/** What a session's tools reach. */
export type ToolWorld = {
  /** The object's own. */
  db: TenantDb;
  env: Bindings;
  /** For whom the agent works. */
  user: Id<"user"> | null;
  /** The agent's env vars, as they are now. */
  secrets: () => Readonly<Record<string, string>>;
  place: { app: string; org: string | null };
};

/** A session's tools, for as long as its object is in memory. */
export class Toolbox {
  readonly #pinned: PinnedAgent;
  readonly #world: ToolWorld;
  readonly #servers: readonly McpServer[];
  /** By id and version, the longest unused one first. */
  readonly #contents = new Map<string, Text>();
  #cached = 0;

  constructor(pinned: PinnedAgent, world: ToolWorld) {
    this.#pinned = pinned;
    this.#world = world;
    const way = { ...egressOf(world.env), env: world.secrets };
    this.#servers = pinned.servers.map(({ config }) => new McpServer(() => this.#said<McpConfig>(config), way));
  }

  /** Every function that the agent's tools have now; of servers, those that can be reached. Throws the signal's reason. */
  async offered(signal: AbortSignal): Promise<OfferedTool[]> {
    const { tools, servers } = this.#pinned;
    const listed = await Promise.all(this.#servers.map((server) => server.tools(signal)));
    const taken = new Set(tools.map(({ name }) => name));
    return [...tools, ...servers.flatMap((server, i) => offeredOf(server, listed[i]!, taken, reservedNames))];
  }

  /** Why the server of a config can't be reached now; null where it answers. No secret stands in it. */
  async serverFault(config: string, signal: AbortSignal): Promise<string | null> {
    const server = this.#servers[this.#pinned.servers.findIndex((one) => one.config.id === config)];
    const fault = server ? await server.fault(signal) : "No active tool of the agent is of that server.";
    return masker(Object.values(this.#world.secrets()))(fault);
  }

  /**
   * Calls one. Whatever the tool, its server or the model does wrong is an answer, in which no secret stands. Throws the
   * signal's reason, what the database fails with, and bugs.
   */
  async call(tool: OfferedTool, ask: ToolAsk): Promise<ToolAnswer> {
    const { signal } = ask;
    signal.throwIfAborted();
    const fault = faultOf(tool.parameters, ask.arguments, "the arguments");
    if (fault) return { error: fault };
    let gone = () => {};
    const aborted = new Promise<never>((_, reject) => {
      gone = () => reject(signal.reason);
      signal.addEventListener("abort", gone);
    });
    try {
      const answer = await Promise.race([this.#call(tool, ask), aborted]);
      return bounded(masker(Object.values(this.#world.secrets()))(answer));
    } finally {
      signal.removeEventListener("abort", gone);
    }
  }

  async #call({ handler, effect }: OfferedTool, ask: ToolAsk): Promise<ToolAnswer> {
    const { db, env, secrets } = this.#world;
    const egress = egressOf(env);
    const gone = { error: "The tool's config isn't there any more." };
    switch (handler.type) {
      case "http": {
        const config = await this.#said<HttpTool>(handler.config);
        return config ? callHttp(config, effect, ask, { ...egress, env: secrets() }) : gone;
      }
      case "script": {
        const content = await this.#content(handler.config);
        return content ? callScript(sourceOf(content), effect, ask, { ...egress, ...this.#scripts(ask) }) : gone;
      }
      case "mcp": {
        const at = this.#pinned.servers.findIndex(({ config }) => isSame(config, handler.config));
        return this.#servers[at]?.call(handler.tool, effect, ask) ?? gone;
      }
      case "builtin": {
        const agent = this.#pinned.id as Id<"agent">;
        return callBuiltin(handler.function, ask, {
          ...{ ...egress, db, agent, skills: this.#pinned.skills },
          planned: (row) => wakeIfSoon(env, row),
        });
      }
    }
  }

  /** What a script has around it: the agent's own eyes, and the user's that it works for. */
  #scripts({ begun_at }: ToolAsk) {
    const { db, env, user, place, secrets } = this.#world;
    const agent = this.#pinned.id as Id<"agent">;
    const seen = db.as({ kind: "agent", agent, user });
    const whose = [place.app, place.org ?? agent].join(" ");
    return {
      run: (source: string, options: RunOptions) => computeScript(env, whose, source, options),
      env: secrets(),
      viewer: { ...place, user, agent },
      platform: platformOf(() => seen, whose),
      scripts: async (key: string) => {
        const content = await scriptNamed(seen, key, begun_at);
        return content && sourceOf(content);
      },
    };
  }

  /** What a structured config says; null where it isn't there, or can't be read. */
  async #said<T>(config: PinnedConfig): Promise<T | null> {
    const content = await this.#content(config);
    const parsed = content && parsedOf(content, parseTogether(MAX_WORDS, MAX_VALUES));
    return parsed && "value" in parsed && isMap(parsed.value) ? (parsed.value as T) : null;
  }

  /** A version's content never changes, so that one that was read is read. */
  async #content({ id, version }: PinnedConfig): Promise<Text | null> {
    const key = `${id} ${version}`;
    const known = this.#contents.get(key);
    this.#contents.delete(key);
    const content = known ?? (await contentOf(this.#world.db, id, version));
    if (!content) return null;
    if (!known && !this.#contents.has(key)) this.#cached += content.content.length;
    this.#contents.set(key, content);
    for (const [oldest, { content }] of this.#contents) {
      if (this.#cached <= MAX_CACHED) break;
      this.#contents.delete(oldest);
      this.#cached -= content.length;
    }
    return content;
  }
}

const isSame = (one: PinnedConfig, other: PinnedConfig) => one.id === other.id && one.version === other.version;

/** A version of a config, as it was written. */
export const contentOf = (db: TenantDb, config: string, version: number): Promise<Text | undefined> =>
  db
    .selectFrom("config_versions")
    .select(["mime_type", "encoding", "content"])
    .where("config_id", "=", config as Id<"config">)
    .where("version_number", "=", version)
    .executeTakeFirst();

/** A script's source; bytes that are no text are no script either, and say so when they are run. */
export const sourceOf = ({ encoding, content }: Pick<Text, "encoding" | "content">): string =>
  encoding === "raw" ? content : new TextDecoder().decode(bytesOf({ encoding, text: content }) ?? new Uint8Array());

/** An answer that is no longer than a session takes. */
function bounded(answer: ToolAnswer): ToolAnswer {
  if ("error" in answer) return { error: cut(answer.error, MAX_ERROR) };
  if (!("ok" in answer)) return answer;
  const { content, resolution } = answer.ok;
  const json = JSON.stringify(resolution ?? null);
  if ((content?.length ?? 0) + json.length <= MAX_RESULT) return answer;
  // What says little beside a long text stays; what is long itself is text from here on.
  if (json.length <= 1000) return { ok: { content: cut(content!, MAX_RESULT - json.length), resolution } };
  return { ok: { content: cut(content ?? json, MAX_RESULT), resolution: null } };
}

function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const note = `\n[cut: this is the beginning of ${text.length} characters]`;
  return text.slice(0, most - note.length).replace(/[\ud800-\udbff]$/, "") + note;
}
