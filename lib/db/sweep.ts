import { CompiledQuery } from "kysely";
import { connect } from "./neon.ts";

/**
 * Deletes, in every tenant, what is past its time. Run by cron; twice at once does no harm. It may take longer than a
 * request's statements, which the role's own bound is for.
 */
export async function sweep(url: string): Promise<void> {
  const longer = CompiledQuery.raw("select set_config('statement_timeout', '60s', true)");
  await connect(url)([longer, CompiledQuery.raw("select app.sweep()")], "write");
}
