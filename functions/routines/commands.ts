import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";
import { openCursor, paginateByCursor } from "../../lib/paging.ts";
import { getRun, listCommands } from "../../lib/routine-runs/queries.ts";
import { run, toRun } from "../../lib/routine-runs/schema.ts";
import { runsOf } from "../../lib/runs/remote.ts";
import { changed, senderOf } from "../../lib/sessions/reach.ts";
import type { Resolution } from "../../lib/sessions/remote.ts";
import { callPage, decideBody, listCallsQuery, resolveBody, toCall } from "../../lib/sessions/schema.ts";

const commands = router();
const idOf = (text: string) => parseId("agent_routine_run", text);

/** What it has asked of the world. What waits for a person stands in /api/v1/tool_calls, too. */
commands.get(
  "/api/v1/agent_routines/runs/:run/commands",
  named("List the commands of a run"),
  allow("routines:read"),
  valid("query", listCallsQuery),
  gives(200, callPage),
  async (c) => {
    const query = c.req.valid("query");
    const id = idOf(c.req.param("run"));
    const page = await openCursor(c.env.ROOT_SECRETS, `commands of ${id}`, c.var.db.tenant, query);
    return c.var.answer(await paginateByCursor(page, await listCommands(c.var.db, id, query, page), toCall));
  },
);

commands.post(
  "/api/v1/agent_routines/runs/:run/commands/:command/approve",
  named("Approve a command of a run"),
  allow("routines:write"),
  valid("json", decideBody),
  gives(200, run, 409),
  async (c) => {
    const decision = { ...c.req.valid("json"), approved: true, by: senderOf(c.var.credential) };
    const row = await getRun(c.var.db, idOf(c.req.param("run")), "write");
    const command = parseId("tool_call", c.req.param("command"));
    return c.var.answer(toRun({ ...row, ...(await changed(runsOf(c.env, row).decide(row, command, decision))) }));
  },
);

commands.post(
  "/api/v1/agent_routines/runs/:run/commands/:command/deny",
  named("Deny a command of a run"),
  allow("routines:write"),
  valid("json", decideBody),
  gives(200, run, 409),
  async (c) => {
    const decision = { ...c.req.valid("json"), approved: false, by: senderOf(c.var.credential) };
    const row = await getRun(c.var.db, idOf(c.req.param("run")), "write");
    const command = parseId("tool_call", c.req.param("command"));
    return c.var.answer(toRun({ ...row, ...(await changed(runsOf(c.env, row).decide(row, command, decision))) }));
  },
);

/** Says what became of a command of which nobody knows whether it happened. */
commands.post(
  "/api/v1/agent_routines/runs/:run/commands/:command/resolve",
  named("Resolve a command of a run"),
  allow("routines:write"),
  valid("json", resolveBody),
  gives(200, run, 409),
  async (c) => {
    const resolution = { ...(c.req.valid("json") as Resolution), by: senderOf(c.var.credential) };
    const row = await getRun(c.var.db, idOf(c.req.param("run")), "write");
    const command = parseId("tool_call", c.req.param("command"));
    return c.var.answer(toRun({ ...row, ...(await changed(runsOf(c.env, row).resolve(row, command, resolution))) }));
  },
);

export default commands;
