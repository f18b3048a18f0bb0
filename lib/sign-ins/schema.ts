import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { nullable, stamp } from "../http/valid.ts";
import { listOf, listQuery } from "../paging.ts";

export type SignInRow = Row<"token_families">;
/** A sign-in, and whether it is the one that asks. */
export type ListedSignIn = SignInRow & { current: boolean };

export const listSignInsQuery = v.object(listQuery);
export const endSignInsQuery = v.object({ keep: v.optional(v.literal("current")) });

export const signIn = v.strictObject({
  id: v.string(),
  method: v.string(),
  carrier: v.picklist(["api", "browser"]),
  current: v.boolean(),
  actor: nullable,
  user_agent: nullable,
  auth_time: v.nullable(stamp),
  created_at: stamp,
  last_used_at: v.nullable(stamp),
  expires_at: stamp,
  ends_at: stamp,
});
export const signInList = listOf(signIn);

/** The sign-in as the API shows it: what its method remembers stays inside. */
export const toSignIn = (row: ListedSignIn): v.InferOutput<typeof signIn> => ({
  id: row.id,
  method: row.method,
  carrier: row.carrier,
  current: row.current,
  actor: row.actor,
  user_agent: row.user_agent,
  auth_time: row.auth_time,
  created_at: row.created_at,
  last_used_at: row.last_used_at,
  expires_at: row.expires_at,
  ends_at: row.ends_at,
});
