import * as v from "valibot";
import { type Row, roles } from "../db/schema.ts";
import { nullable, stamp, text } from "../http/valid.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { email } from "../users/schema.ts";

export const createInvitationBody = v.strictObject({ email, role: v.optional(v.picklist(roles), "member") });
export type CreateInvitation = v.InferOutput<typeof createInvitationBody>;
export const acceptBody = v.strictObject({ key: text(200) });
/** The form of our page: `form` is what shows that a page of ours carried it. */
export const acceptForm = v.strictObject({ form: v.pipe(v.string(), v.maxLength(100)), key: text(200) });
export const listInvitationsQuery = v.object(pageQuery);

export type InvitationRow = Row<"org_invitations">;

/** Never with its key: that is mailed. */
export const invitation = v.strictObject({
  id: v.string(),
  org: v.string(),
  email: v.string(),
  role: v.picklist(roles),
  status: v.picklist(["pending", "expired"]),
  invited_by: nullable,
  sent_at: stamp,
  expires_at: stamp,
  created_at: stamp,
});
export const invitationPage = pageOf(invitation);

export const toInvitation = (row: InvitationRow): v.InferOutput<typeof invitation> => ({
  id: row.id,
  org: row.org_id,
  email: row.email,
  role: row.role,
  status: Date.parse(row.expires_at) > Date.now() ? "pending" : "expired",
  invited_by: row.invited_by,
  sent_at: row.sent_at,
  expires_at: row.expires_at,
  created_at: row.created_at,
});
