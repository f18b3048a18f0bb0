import { allow } from "../../lib/auth/allow.ts";
import type { Bindings } from "../../lib/env.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { type RunRow, runsOf } from "../../lib/runs/remote.ts";
import { reached } from "../../lib/sessions/reach.ts";
import { endWorkItem, keepWorkItem, listWorkItems, startWorkItem } from "../../lib/work-items/queries.ts";
import {
  failBody,
  heartbeatBody,
  listWorkItemsQuery,
  startBody,
  submitBody,
  toWorkItem,
  workItemList,
} from "../../lib/work-items/schema.ts";

const workItems = router();
const idOf = (text: string) => parseId("work_item", text);
/** The run hears of it before the answer: whoever gets none says the same again. 503 where it is out of reach. */
const tell = async (env: Bindings, run: RunRow | null) => run && reached(runsOf(env, run).hear(run.id));

/** What hangs on one agent, functions/agents/work-items.ts serves. */
workItems.get(
  "/api/v1/work_items",
  named("List work items"),
  allow("work_items:read"),
  valid("query", listWorkItemsQuery),
  gives(200, workItemList),
  async (c) => {
    const query = c.req.valid("query");
    const cursors = { limit: query.limit, before_cursor: query.after_cursor };
    const page = await openCursor(c.env.ROOT_SECRETS, "work_items", c.var.db.tenant, cursors);
    const rows = await listWorkItems(c.var.db, query, page);
    const { data, has_more, before_cursor } = await paginateByCursor(page, rows, toWorkItem);
    return c.var.answer({ data, has_more, before_cursor: null, after_cursor: before_cursor });
  },
);

workItems.post(
  "/api/v1/work_items/:work_item/start",
  named("Start on a work item"),
  allow("work_items:write"),
  valid("json", startBody),
  givesNothing(409),
  async (c) => {
    await startWorkItem(c.var.db, idOf(c.req.param("work_item")), c.req.valid("json").lease_owner);
    return c.var.answer();
  },
);

workItems.post(
  "/api/v1/work_items/:work_item/heartbeat",
  named("Keep a work item"),
  allow("work_items:write"),
  valid("json", heartbeatBody),
  givesNothing(409),
  async (c) => {
    const { lease_owner, lease_seconds } = c.req.valid("json");
    await keepWorkItem(c.var.db, idOf(c.req.param("work_item")), lease_owner, lease_seconds);
    return c.var.answer();
  },
);

workItems.post(
  "/api/v1/work_items/:work_item/submit",
  named("Submit the result of a work item"),
  allow("work_items:write"),
  valid("json", submitBody),
  givesNothing(409),
  async (c) => {
    const { lease_owner, result } = c.req.valid("json");
    const run = await endWorkItem(c.var.db, idOf(c.req.param("work_item")), lease_owner, { result });
    await tell(c.env, run);
    return c.var.answer();
  },
);

workItems.post(
  "/api/v1/work_items/:work_item/fail",
  named("Give up a work item"),
  allow("work_items:write"),
  valid("json", failBody),
  givesNothing(409),
  async (c) => {
    const { lease_owner, error } = c.req.valid("json");
    const run = await endWorkItem(c.var.db, idOf(c.req.param("work_item")), lease_owner, { error });
    await tell(c.env, run);
    return c.var.answer();
  },
);

export default workItems;
