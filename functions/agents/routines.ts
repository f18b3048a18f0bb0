import { getChild } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { createRoutine } from "../../lib/routines/queries.ts";
import { createRoutineBody, routine, toRoutine } from "../../lib/routines/schema.ts";
import { wakeIfSoon } from "../../lib/schedules/remote.ts";

const routines = router();

/** What else there is of routines, functions/routines/ serves. */
routines.post(
  "/api/v1/agents/:agent/agent_routines",
  named("Make a routine of an agent"),
  allow("routines:write"),
  valid("json", createRoutineBody),
  once("agent_routine"),
  gives(200, routine, 409),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once(
      (db, id) => createRoutine(db, agent, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_routine", id),
    );
    await wakeIfSoon(c.env, row);
    return c.var.answer(toRoutine(row));
  },
);

export default routines;
