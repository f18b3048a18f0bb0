import { listActivity } from "../../lib/activity-feed/queries.ts";
import { activityFeed, kinds, levels, listActivityQuery, toActivityFeedEntry } from "../../lib/activity-feed/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { badRequest } from "../../lib/errors.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";

const activity = router();

activity.get(
  "/api/v1/activity_feed",
  named("Read the activity feed"),
  allow("activity_feed:read"),
  valid("query", listActivityQuery),
  gives(200, activityFeed),
  async (c) => {
    const query = c.req.valid("query");
    mustBeAmong("kind", query.kind, kinds);
    mustBeAmong("level", query.level, levels);
    const page = await openCursor(c.env.ROOT_SECRETS, "activity_feed", c.var.db.tenant, query);
    const rows = await listActivity(c.var.db, query, page);
    const { data, ...cursors } = await paginateByCursor(page, rows, toActivityFeedEntry);
    return c.var.answer({ entries: data, data, ...cursors });
  },
);

/** The contract wants a 400 that names the accepted values. */
function mustBeAmong(name: string, asked: string[] | undefined, known: readonly string[]) {
  if (asked?.some((value) => !known.includes(value))) {
    throw badRequest(`unknown_${name}`, `${name} takes: ${known.join(", ")}.`);
  }
}

export default activity;
