import { createChild, reachChild } from "../agents/children.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { unprocessable } from "../errors.ts";
import type { Id } from "../ids.ts";
import type { ComputerRow, CreateComputer } from "./schema.ts";

/** Records a computer of an agent. It stays `provisioning` until there is a provider that makes one. */
export function createComputer(
  db: TenantDb,
  agent: string,
  id: Id<"agent_computer">,
  { name, lookup_key, region, metadata, ...body }: CreateComputer,
): Promise<ComputerRow> {
  const provider = body.provider ?? body.config?.provider ?? "sprites";
  return createChild(db, "agent_computer", agent, id, {
    name,
    lookup_key: lookup_key ?? null,
    provider: String(provider),
    region: region ?? "iad",
    config: JSON.stringify({ ...body.config, provider }),
    metadata: JSON.stringify(metadata ?? {}),
  });
}

/** For what only a provider can do, by who may change the agent: 422 `no_provider`, since there is none. */
export async function askProvider(db: TenantDb, id: Id<"agent_computer">): Promise<never> {
  await reachChild(db, "agent_computer", id, "write").db.enter();
  throw unprocessable("no_provider", "No provider of computers is set up here: this one stays as it is.");
}
