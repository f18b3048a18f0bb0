import type { TenantDb } from "../db/tenant-db.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import type { OfferedTool, PinnedAgent, ToolAnswer, ToolAsk } from "./calls.ts";

export async function pinAgent(db: TenantDb, id: Id<"agent">): Promise<PinnedAgent | null> {
  const agent = await db.selectFrom("agents").where("agents.id", "=", id).selectAll().executeTakeFirst();
  if (!agent) return null;
  const { name, identity, default_model: model } = agent;
  return { id, name, identity, model, tools: [], servers: [], skills: [] };
}

export class Toolbox {
  constructor(
    _pinned: PinnedAgent,
    _world: {
      db: TenantDb;
      env: Bindings;
      user: Id<"user"> | null;
      secrets: () => Readonly<Record<string, string>>;
      place: { app: string; org: string };
    },
  ) {}
  async offered(_signal: AbortSignal): Promise<OfferedTool[]> {
    return [];
  }
  async call(tool: OfferedTool, _ask: ToolAsk): Promise<ToolAnswer> {
    return { error: `${tool.name} can't be called` };
  }
}
