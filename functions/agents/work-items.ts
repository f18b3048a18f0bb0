import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { claimWorkItem, listWorkItemsOf } from "../../lib/work-items/queries.ts";
import { claimBody, listWorkItemsQuery, toWorkItem, workItemClaim, workItemList } from "../../lib/work-items/schema.ts";

const workItems = router();

workItems.get(
  "/api/v1/agents/:agent/work_items",
  named("List the work items of an agent"),
  allow("work_items:read"),
  valid("query", listWorkItemsQuery),
  gives(200, workItemList),
  async (c) => {
    const { agent } = c.req.param();
    const query = c.req.valid("query");
    const cursors = { limit: query.limit, before_cursor: query.after_cursor };
    const page = await openCursor(c.env.ROOT_SECRETS, `work_items of ${agent}`, c.var.db.tenant, cursors);
    const rows = await listWorkItemsOf(c.var.db, agent, query, page);
    const { data, has_more, before_cursor } = await paginateByCursor(page, rows, toWorkItem);
    return c.var.answer({ data, has_more, before_cursor: null, after_cursor: before_cursor });
  },
);

/** By who may change the agent. What else there is of work items, functions/routines/ serves. */
workItems.post(
  "/api/v1/agents/:agent/work_items/claim",
  named("Claim a work item of an agent"),
  allow("work_items:write"),
  valid("json", claimBody),
  gives(200, workItemClaim),
  async (c) => {
    const claim = c.req.valid("json");
    const item = await claimWorkItem(c.var.db, c.req.param("agent"), claim);
    return c.var.answer({ data: item && { lease_owner: claim.lease_owner, work_item: toWorkItem(item) } });
  },
);

export default workItems;
