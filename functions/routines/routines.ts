import * as v from "valibot";
import { deleteChild, getChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { preset, presets } from "../../lib/routines/presets.ts";
import { activateRoutine, listRoutines, pauseRoutine, updateRoutine } from "../../lib/routines/queries.ts";
import { listRoutinesQuery, routine, routineList, toRoutine, updateRoutineBody } from "../../lib/routines/schema.ts";
import { wakeIfSoon } from "../../lib/schedules/remote.ts";

const routines = router();
const idOf = (text: string) => parseId("agent_routine", text);

routines.get(
  "/api/v1/agent_routines",
  named("List routines"),
  allow("routines:read"),
  valid("query", listRoutinesQuery),
  gives(200, routineList, 404),
  async (c) => {
    const query = c.req.valid("query");
    // Forward alone: what leads to older ones is called after_cursor here.
    const cursors = { limit: query.limit, before_cursor: query.after_cursor };
    const page = await openCursor(c.env.ROOT_SECRETS, "agent_routines", c.var.db.tenant, cursors);
    const rows = await listRoutines(c.var.db, query, page);
    const { data, has_more, before_cursor } = await paginateByCursor(page, rows, toRoutine);
    return c.var.answer({ data, has_more, after_cursor: before_cursor });
  },
);

routines.get(
  "/api/v1/agent_routines/presets",
  named("List the presets of routines"),
  allow("routines:read"),
  gives(200, v.array(preset)),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer([...presets]);
  },
);

routines.get("/api/v1/agent_routines/:routine", allow("routines:read"), gives(200, routine), async (c) => {
  return c.var.answer(toRoutine(await getChild(c.var.db, "agent_routine", idOf(c.req.param("routine")))));
});

routines.patch(
  "/api/v1/agent_routines/:routine",
  allow("routines:write"),
  valid("json", updateRoutineBody),
  gives(200, routine, 409),
  async (c) => {
    const row = await updateRoutine(c.var.db, idOf(c.req.param("routine")), c.req.valid("json"));
    await wakeIfSoon(c.env, row);
    return c.var.answer(toRoutine(row));
  },
);

routines.delete("/api/v1/agent_routines/:routine", allow("routines:write"), givesNothing(), async (c) => {
  await deleteChild(c.var.db, "agent_routine", idOf(c.req.param("routine")));
  return c.var.answer();
});

routines.post(
  "/api/v1/agent_routines/:routine/activate",
  named("Activate a routine"),
  allow("routines:write"),
  gives(200, routine, 422),
  async (c) => {
    const row = await activateRoutine(c.var.db, idOf(c.req.param("routine")));
    await wakeIfSoon(c.env, row);
    return c.var.answer(toRoutine(row));
  },
);

routines.post(
  "/api/v1/agent_routines/:routine/pause",
  named("Pause a routine"),
  allow("routines:write"),
  gives(200, routine, 422),
  async (c) => c.var.answer(toRoutine(await pauseRoutine(c.var.db, idOf(c.req.param("routine"))))),
);

export default routines;
