import { NONE } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import type { Id } from "../ids.ts";
import { forEach } from "../objects/each.ts";
import { askSweep, inBatches } from "../objects/sweep.ts";
import { endingMail, mailOwners } from "./mails.ts";

type Ending = {
  app_id: Id<"app">;
  app_name: string;
  org_name: string;
  ends_at: string;
  owners: string[];
};

/** Mails the owners of orgs whose provider's certificates end in 30, 7 or 1 days: once each. */
export const warnOfCertificates = (env: Bindings): Promise<void> =>
  inBatches(async (most) => {
    const due = await askSweep<Ending>(env, "select * from app.claim_sso_warnings($1, $2)", most);
    await forEach(due, ({ app_id, app_name: app, org_name: org, ends_at, owners }) =>
      mailOwners(
        env,
        { app: app_id, sandbox: NONE },
        owners.map((to) => endingMail(to, { org, app }, ends_at)),
      ),
    );
    return due.length;
  });
