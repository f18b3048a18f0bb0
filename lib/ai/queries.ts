import type { ModelCallStatus, ModelOperation } from "../db/schema.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { type Id, newId } from "../ids.ts";
import type { Usage } from "../model/index.ts";

export type Asked = { operation: ModelOperation; model: string; session_id: string | null };

/** Writes down that a model is asked, by whoever asks: from here on its end is owed. Refuses a dead credential. */
export async function beginCall(db: TenantDb, { operation, model, session_id }: Asked): Promise<Id<"model_call">> {
  const id = newId("model_call");
  const user_id = db.viewer.kind === "user" ? db.viewer.user : null;
  await db.insertInto("model_calls", { id, user_id, operation, model, session_id }).execute();
  return id;
}

/** Writes down how it ended and what it took, once. */
export async function endCall(
  db: TenantDb,
  id: Id<"model_call">,
  status: Exclude<ModelCallStatus, "unknown">,
  usage: Usage,
): Promise<void> {
  await db
    .updateTable("model_calls")
    .set({ status, ...usage, completed_at: new Date().toISOString() })
    .where("id", "=", id)
    .where("status", "=", "unknown")
    .execute();
}
