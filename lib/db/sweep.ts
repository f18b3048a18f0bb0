import { CompiledQuery } from "kysely";
import { connect } from "./neon.ts";

/**
 * Deletes, in every tenant, what is past its time: idempotency keys after a day, tokens and their families a month
 * after they expired, sandboxes with all that lives in them. Run by cron; twice at once does no harm. Each statement
 * names its bound, and the policies `sweep` hold it to the same: neither wall is trusted alone.
 */
export async function sweep(url: string): Promise<void> {
  await connect(url)(
    [
      "select app.enter_sweep()",
      "delete from data.idempotency_keys where created_at < now() - interval '24 hours'",
      "delete from data.tokens where expires_at < now() - interval '30 days'",
      "delete from data.token_families where expires_at < now() - interval '30 days'",
      `delete from data.tenants where (app_id, sandbox_id) in
        (select app_id, sandbox_id from data.sandboxes where expires_at < now())`,
    ].map((statement) => CompiledQuery.raw(statement)),
    "write",
  );
}
