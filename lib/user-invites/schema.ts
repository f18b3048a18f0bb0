import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { metadata, notYet, nullable, stamp, text } from "../http/valid.ts";

export const createInviteBody = v.strictObject({
  invite: v.strictObject({
    metadata: v.optional(metadata, {}),
    persona_id: notYet("is not supported yet: there are no personas"),
    thread_id: v.optional(v.nullable(text(100)), null),
  }),
});
export type CreateInvite = v.InferOutput<typeof createInviteBody>["invite"];
export const acceptInviteBody = v.strictObject({ key: text(200) });

/** An invite, with the name of whose it is. */
export type InviteRow = Row<"user_invites"> & { user_name: string | null };

/** `key` is in the answer that makes one, and never again. */
export const userInvite = v.strictObject({
  id: v.string(),
  key: nullable,
  metadata: v.record(v.string(), v.unknown()),
  thread: v.null(),
  user: v.strictObject({ id: v.string(), name: nullable, profile_picture: v.null() }),
  created_at: stamp,
});
export const toUserInvite = (row: InviteRow, key: string | null = null): v.InferOutput<typeof userInvite> => ({
  id: row.id,
  key,
  metadata: row.metadata,
  thread: null,
  user: { id: row.user_id, name: row.user_name, profile_picture: null },
  created_at: row.created_at,
});
