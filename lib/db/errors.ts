import { NeonDbError } from "@neondatabase/serverless";
import { conflict, forbidden, insufficientScope, invalid, notFound, unauthenticated, unavailable } from "../errors.ts";
import { type Kind, kinds } from "../kinds.ts";

/** What the database refused, if it was the database: its SQLSTATE, the constraint and the reason raised. */
export const refusal = (error: unknown) =>
  error instanceof NeonDbError ? { code: error.code, constraint: error.constraint ?? "", reason: error.message } : null;

/** SQLSTATE classes of what passes: a connection lost, a conflict to be tried again, no room, a server going down. */
const PASSING = /^(08|40|53|57)/;

/**
 * Whether the transaction came to nothing because of another: a row that it hangs on was deleted under it, or the two
 * held each other up. Run again, it sees what the other did.
 */
export const lostRace = (error: unknown) => ["23503", "40001", "40P01"].includes(refusal(error)?.code ?? "");

/** What `app.enter_…` and `app.must_reach` raised, as the refusal it stands for; what passes, as a 503; anything else as it is. */
export function asLiveness(error: unknown, permission: string): unknown {
  const raised = refusal(error);
  if (raised && (!raised.code || PASSING.test(raised.code))) return unavailable(error);
  if (raised?.code === "AE401") return unauthenticated();
  if (raised?.code === "AE404") return notFound(raised.reason as Kind);
  if (raised?.code !== "AE403") return error;
  const [, kind] = raised.reason.match(/^read_only (\w+)$/) ?? [];
  if (kind) {
    const { name } = kinds[kind as Kind];
    return forbidden("forbidden", `You may read this ${name}, but its access list does not let you change it.`);
  }
  return raised.reason === "org_suspended"
    ? forbidden("org_suspended", "This org is suspended. Its records are kept; it works again as soon as it is active.")
    : insufficientScope(permission);
}

/**
 * For `.catch` after a write: the broken constraint's name says which field is at fault. `<table>_<field>_key` is
 * a value that is taken (409); `<table>_tenant_fkey` and `<table>_<field>_fkey` name something that isn't there, and
 * `<table>_<field>_check` is a bound that only the database can see (422).
 */
export function asConflict(error: unknown): never {
  const broken = refusal(error);
  const field = broken?.constraint.match(/^[a-z_]+?s_(.+)_(f?key|check)$/)?.[1];
  if (field && broken?.code === "23505") throw conflict(field);
  if (field && broken?.code === "23514") throw invalid({ field, message: "is too large" });
  if (field && broken?.code === "23503") {
    const name = field === "tenant" ? "org" : field;
    throw invalid({ field: name, message: `there is no such ${name}` });
  }
  throw error;
}
