/** The verifiers that reach out of the database: an action's script, and a server of the agent's tools. */
import { sql } from "kysely";
import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import type { OfferedTool, Outbound, PinnedAgent } from "../tools/calls.ts";
import { pinAgent, Toolbox } from "../tools/toolbox.ts";
import type { Checked, Verdict } from "./queries.ts";
import type { HealthActionRow } from "./schema.ts";

/** Of everything together. */
const MOST_MS = 60_000;

/**
 * What an action's verifier says. A script passes by a truthy result: `$` are the action's params, and it sees what the
 * agent sees. An integration, where its server of tools answers; of one that names none, where one of its provider is active.
 */
export async function verdictOf(
  { db, env, place }: { db: TenantDb; env: Bindings; place: { app: string; org: string | null } },
  action: Checked,
): Promise<Verdict> {
  const pinned = await pinAgent(db, env.ROOT_SECRETS, action.agent_id);
  if (!pinned) return { crashed: "its agent is gone" };
  const { agent, secrets } = pinned;
  const toolbox = new Toolbox(agent, { db, env, user: null, secrets: () => secrets, place });
  const signal = AbortSignal.timeout(MOST_MS);
  try {
    return action.check === "script_ref"
      ? await byScript(db, toolbox, action, signal)
      : await byIntegration(db, agent, toolbox, action, signal);
  } catch (error) {
    if (signal.aborted) return { crashed: `it took longer than ${MOST_MS / 1000} seconds` };
    throw error;
  }
}

async function byScript(
  db: TenantDb,
  toolbox: Toolbox,
  { id, params, script_id }: HealthActionRow,
  signal: AbortSignal,
): Promise<Verdict> {
  if (!script_id) return { crashed: "it names no script_ref" };
  const config = await db
    .selectFrom("configs")
    .select(["id", "version_number as version"])
    .where("id", "=", script_id)
    .executeTakeFirst();
  if (!config) return { crashed: "its script isn't there any more" };
  const tool: OfferedTool = {
    ...{
      name: "verify",
      description: "",
      parameters: { type: "object" },
      effect: "read",
      approval: "none",
      async: false,
    },
    handler: { type: "script", config },
  };
  const began = new Date().toISOString();
  const answer = await toolbox.call(tool, {
    ...{
      call: id,
      attempt: 1,
      idempotency_key: `${id}-${began}`,
      arguments: params,
      begun_at: began,
      signal,
      outbound: [],
    },
    note: (outbound): Outbound => ({ ...outbound, at: new Date().toISOString() }),
  });
  if (!("ok" in answer)) return { crashed: "error" in answer ? answer.error : "nobody knows what it did" };
  const passes = Boolean(answer.ok.resolution);
  return { passes, message: passes ? "Its script says that it is done." : "Its script says that it isn't done." };
}

async function byIntegration(
  db: TenantDb,
  pinned: PinnedAgent,
  toolbox: Toolbox,
  { agent_id, params }: HealthActionRow,
  signal: AbortSignal,
): Promise<Verdict> {
  const { mcp_server_ref: server, provider } = params;
  if (typeof server === "string") {
    const found = await db
      .selectFrom("configs")
      .select("id")
      .where(sql<boolean>`(id = ${server} or lookup_key = ${server})`)
      .where("id", "in", [...pinned.servers.map(({ config }) => config.id as Id<"config">), NO_CONFIG])
      .executeTakeFirst();
    if (!found) return { passes: false, message: "No active tool of the agent is of that server." };
    const fault = await toolbox.serverFault(found.id, signal);
    return { passes: fault === null, message: fault ?? "The server answers." };
  }
  if (typeof provider !== "string") return { crashed: "it names neither an mcp_server_ref nor a provider" };
  const active = await db
    .selectFrom("agent_installations")
    .select("id")
    .where("agent_id", "=", agent_id)
    .where(sql<boolean>`kind = ${`integration/${provider}`} and state = 'active'`)
    .executeTakeFirst();
  return active
    ? { passes: true, message: "It is connected." }
    : { passes: false, message: "Nothing of that provider is connected." };
}

/** An id that no config has: a list of none is no list. */
const NO_CONFIG = "" as Id<"config">;
