import { CompiledQuery } from "kysely";
import { connect } from "./neon.ts";

/** Deletes, in every tenant, what is past its time. Run by cron; twice at once does no harm. */
export async function sweep(url: string): Promise<void> {
  await connect(url)([CompiledQuery.raw("select app.sweep()")], "write");
}
