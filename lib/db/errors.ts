import { NeonDbError } from "@neondatabase/serverless";
import {
  type ApiError,
  conflict,
  forbidden,
  insufficientScope,
  invalid,
  limitReached,
  noSuch,
  notFound,
  refused as refuse,
  unauthenticated,
  unavailable,
} from "../errors.ts";
import type { Id } from "../ids.ts";
import { type Kind, kinds } from "../kinds.ts";
import type { None } from "./schema.ts";

/** What the database refused, if it was the database: its SQLSTATE, table, constraint, detail and the reason raised. */
export const refusal = (error: unknown) =>
  error instanceof NeonDbError
    ? {
        code: error.code ?? "",
        table: error.table ?? "",
        constraint: error.constraint ?? "",
        detail: error.detail ?? "",
        reason: error.message,
      }
    : null;

/**
 * SQLSTATEs of what passes: a connection lost, a role that may not come in (the deployment's fault), a conflict to be tried again, no room, a server going down or a statement
 * that ran too long (57), a lock that stayed taken (55P03), and a door that has no copy of the key it checks by (AE503).
 */
const PASSING = /^(08|28|40|53|57|55P03$|AE503$)/;

/**
 * Whether the transaction came to nothing because of another: a row that it hangs on was deleted under it, or the two
 * held each other up. Run again, it sees what the other did.
 */
export const lostRace = (error: unknown) => ["23503", "40001", "40P01"].includes(refusal(error)?.code ?? "");

/**
 * What the database refused, as the refusal it stands for: what `app.enter_…`, `app.act_as`, `app.must_…` and
 * `app.at_most…` raised; a broken constraint, whose name says which field is at fault; what passes, as a 503. Anything
 * else as it is: a bug.
 */
export function asRefusal(error: unknown, permission: string): unknown {
  const refused = refusal(error);
  if (!refused) return error;
  const { code, reason } = refused;
  if (!code || PASSING.test(code)) return unavailable(error);
  const atTheDoor = asDoorRefusal({ code, reason }, permission);
  if (atTheDoor) return atTheDoor;
  if (code === "AE404") return notFound(reason as Kind);
  if (code === "23503" && reason.startsWith("update or delete")) return stillUsed(nameOf(refused.table));
  if (code === "AE420") return invalid({ field: refused.constraint, message: reason });
  if (code === "AE422") return limitReached(nameOf(refused.table), reason, refused.constraint || undefined);
  return asFieldError(refused) ?? error;
}

/** A quota that an org has reached: its name, as in `settings.quotas`, and what it is. */
export type Full = { org: Id<"org"> | None; quota: string; limit: number };

/** Which quota of which org a refusal is about. Null: about none. */
export function fullOf(error: unknown): Full | null {
  const { code, constraint, detail, reason } = refusal(error) ?? {};
  if (code !== "AE422" || constraint !== "org" || !detail) return null;
  const [org, quota] = detail.split(" ") as [Full["org"], string];
  return { org, quota, limit: Number(reason) };
}

/** What a door raised. Null: no door did. */
export function asDoorRefusal({ code, reason }: { code: string; reason: string }, permission: string): ApiError | null {
  if (code === "AE401") return unauthenticated();
  return code === "AE403" ? asForbidden(reason, permission) : null;
}

function asForbidden(reason: string, permission: string): ApiError {
  if (reason === "org_suspended") {
    const kept = "This org is suspended. Its records are kept; it works again as soon as it is active.";
    return forbidden("org_suspended", kept);
  }
  if (reason === "method_disabled") return forbidden(reason, "This app doesn't let people sign in that way.");
  if (reason === "user_not_allowed") return forbidden(reason, "This app doesn't let this address sign in.");
  const [, kind] = reason.match(/^read_only (\w+)$/) ?? [];
  if (!kind) return insufficientScope(permission);
  const { name } = kinds[kind as Kind];
  return forbidden("forbidden", `You may read this ${name}, but the access list does not let you change it.`);
}

const stillUsed = (name: string) =>
  refuse("in_use", `Something that would go with this is still in use, by a ${name}.`);

/** What a row that isn't known by itself is a part of. */
const partOf: Record<string, string> = { agent_routine_configs: kinds.agent_routine.table };
const nameOf = (table: string) =>
  Object.values(kinds).find((kind) => kind.table === (partOf[table] ?? table))?.name ?? table;

/**
 * `<table>_<field>_key` is a value that is taken (409), `…_once` one where the contract says 422; `<table>_tenant_fkey` and
 * `<table>_<field>_fkey` name something that isn't there, `<table>_<field>_check` is a bound that only the database can see,
 * and `<table>_<field>_fits` a rule between fields, of which a patch knows but some (422); `<table>_size_check` is the bound
 * of several fields together. Null: no such rule.
 */
function asFieldError({
  code,
  table,
  constraint,
}: {
  code: string;
  table: string;
  constraint: string;
}): ApiError | null {
  const [, named, rule] = constraint.slice(`${table}_`.length).match(/^(.+)_(key|once|fkey|check|fits)$/) ?? [];
  if (!constraint.startsWith(`${table}_`) || !named) return null;
  if (code === "23505" && rule === "key") return conflict(named);
  if (code === "23505" && rule === "once") return invalid({ field: named, message: "is already taken" });
  if (code === "23514" && rule === "fits") return invalid({ field: named, message: "must fit the other fields" });
  if (code === "23514" && rule === "check") {
    if (named !== "size") return invalid({ field: named, message: "is too large" });
    const most = table === "agent_routines" ? "16 KB" : "64 KB";
    const together = `are too large together: texts, access list and metadata take at most ${most} as JSON`;
    return invalid({ field: "", message: together });
  }
  const field = named === "tenant" ? "org" : named;
  return code === "23503" && rule === "fkey" ? noSuch(field) : null;
}
