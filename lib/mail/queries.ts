/** What a sandbox mails is kept in its place, a week long (app.sweep), and never sent. */
import type { TenantDb } from "../db/tenant-db.ts";
import { notFound } from "../errors.ts";
import { type Id, newId } from "../ids.ts";
import type { CursorPage } from "../paging.ts";
import type { SandboxMailRow } from "./schema.ts";

const MOST_KEPT = 1000;

/** Keeps a mail, and lets go of those before the newest thousand. */
export async function keepMail(
  db: TenantDb,
  { to, subject, text }: Pick<SandboxMailRow, "to" | "subject" | "text">,
): Promise<void> {
  const oldest = db.selectFrom("sandbox_mails").select("id").orderBy("id", "desc").offset(MOST_KEPT).limit(1);
  await db.batch({
    kept: db.insertInto("sandbox_mails", { id: newId("sandbox_mail"), to, subject, text }),
    rest: db.deleteFrom("sandbox_mails").where("id", "<=", oldest),
  });
}

/** What a sandbox has mailed, newest first. 404 where the sandbox isn't there, or isn't the one whose key asks. */
export async function listMails(db: TenantDb, sandbox: Id<"sandbox">, page: CursorPage): Promise<SandboxMailRow[]> {
  const inside = db.inSandbox(sandbox);
  let rows = inside.selectFrom("sandbox_mails");
  if (page.from !== null) rows = rows.where("id", "<", page.from as Id<"sandbox_mail">);
  const { found, there } = await inside.batch({
    found: rows
      .selectAll()
      .orderBy("id", "desc")
      .limit(page.limit + 1),
    there: inside.selectFrom("sandboxes").select("id").where("id", "=", sandbox),
  });
  if (!there.length) throw notFound("sandbox");
  return found;
}
