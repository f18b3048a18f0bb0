import { deleteChild, getChild, listChildren } from "../../lib/agents/children.ts";
import { allow } from "../../lib/auth/allow.ts";
import { askProvider, createComputer } from "../../lib/computers/queries.ts";
import {
  computer,
  computerList,
  createComputerBody,
  execBody,
  execResult,
  toComputer,
} from "../../lib/computers/schema.ts";
import { gives, givesNothing } from "../../lib/http/gives.ts";
import { once } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";

const computers = router();
const idOf = (text: string) => parseId("agent_computer", text);

computers.get(
  "/api/v1/agents/:agent/agent_computers",
  named("List the computers of an agent"),
  allow("computers:read"),
  gives(200, computerList),
  async (c) => {
    const rows = await listChildren(c.var.db, "agent_computer", c.req.param("agent"));
    return c.var.answer({ data: rows.map(toComputer) });
  },
);

computers.post(
  "/api/v1/agents/:agent/agent_computers",
  named("Make a computer for an agent"),
  allow("computers:write"),
  valid("json", createComputerBody),
  once("agent_computer"),
  gives(200, computer, 409),
  async (c) => {
    const { agent } = c.req.param();
    const row = await c.var.once(
      (db, id) => createComputer(db, agent, id, c.req.valid("json")),
      (db, id) => getChild(db, "agent_computer", id),
    );
    return c.var.answer(toComputer(row));
  },
);

computers.get("/api/v1/agent_computers/:computer", allow("computers:read"), gives(200, computer), async (c) => {
  return c.var.answer(toComputer(await getChild(c.var.db, "agent_computer", idOf(c.req.param("computer")))));
});

computers.delete("/api/v1/agent_computers/:computer", allow("computers:write"), givesNothing(), async (c) => {
  await deleteChild(c.var.db, "agent_computer", idOf(c.req.param("computer")));
  return c.var.answer();
});

computers.post(
  "/api/v1/agent_computers/:computer/refresh",
  named("Refresh a computer's state"),
  allow("computers:write"),
  gives(200, computer, 422),
  async (c) => askProvider(c.var.db, idOf(c.req.param("computer"))),
);

computers.post(
  "/api/v1/agent_computers/:computer/exec",
  named("Run a command on a computer"),
  allow("computers:write"),
  valid("json", execBody),
  gives(200, execResult),
  async (c) => askProvider(c.var.db, idOf(c.req.param("computer"))),
);

export default computers;
