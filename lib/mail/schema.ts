import * as v from "valibot";
import type { Row } from "../db/schema.ts";
import { stamp } from "../http/valid.ts";
import { listOf, listQuery } from "../paging.ts";

export type SandboxMailRow = Row<"sandbox_mails">;

export const listMailsQuery = v.object(listQuery);

export const mail = v.strictObject({
  id: v.string(),
  to: v.string(),
  subject: v.string(),
  text: v.string(),
  created_at: stamp,
});
export const mailList = listOf(mail);

/** The mail as the API shows it, codes and links with it: whoever tries an app out in a sandbox needs them. */
export const toMail = (row: SandboxMailRow): v.InferOutput<typeof mail> => ({
  id: row.id,
  to: row.to,
  subject: row.subject,
  text: row.text,
  created_at: row.created_at,
});
