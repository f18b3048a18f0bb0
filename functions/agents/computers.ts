import { deleteChild, getChild, listChildren } from "../../lib/agents/children.ts";
import { allow, openPlace } from "../../lib/auth/allow.ts";
import { columnsOf } from "../../lib/computers/providers.ts";
import { createComputer, readScreen } from "../../lib/computers/queries.ts";
import {
  type ComputerRow,
  computer,
  computerList,
  createComputerBody,
  execBody,
  execResult,
  screenQuery,
  toComputer,
} from "../../lib/computers/schema.ts";
import { readLink, spriteUrl, toSvg } from "../../lib/computers/screen.ts";
import { destroy, exec, provision, refresh } from "../../lib/computers/use.ts";
import type { Bindings } from "../../lib/env.ts";
import { notFound } from "../../lib/errors.ts";
import { gives, givesBytes, givesNothing } from "../../lib/http/gives.ts";
import { once, onceBegun } from "../../lib/http/once.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { parseId } from "../../lib/ids.ts";

const computers = router();
const idOf = (text: string) => parseId("agent_computer", text);
const shown = async (env: Bindings, row: ComputerRow) => toComputer(row, await spriteUrl(env, row));

computers.get(
  "/api/v1/agents/:agent/agent_computers",
  named("List the computers of an agent"),
  allow("computers:read"),
  gives(200, computerList),
  async (c) => {
    const rows = await listChildren(c.var.db, "agent_computer", c.req.param("agent"));
    return c.var.answer({ data: await Promise.all(rows.map((row) => shown(c.env, row))) });
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
      (db, id) => createComputer(db, agent, id, columnsOf(c.env, c.req.valid("json"))),
      (db, id) => getChild(db, "agent_computer", id),
    );
    if (row.status === "provisioning") c.executionCtx.waitUntil(provision(c.env, row));
    return c.var.answer(await shown(c.env, row));
  },
);

computers.get("/api/v1/agent_computers/:computer", allow("computers:read"), gives(200, computer), async (c) => {
  const row = await getChild(c.var.db, "agent_computer", idOf(c.req.param("computer")));
  return c.var.answer(await shown(c.env, row));
});

/** For whoever has the link, for an hour: text alone, as an image that may load nothing. Any flaw of a link is one 404. */
computers.get(
  "/api/v1/agent_computers/:computer/screen",
  named("Show what a computer's terminal shows"),
  valid("query", screenQuery),
  givesBytes(),
  async (c) => {
    const { computer } = c.req.param();
    const place = await readLink(c.env, computer, c.req.valid("query").link ?? "");
    const found = place && (await readScreen(await openPlace(c.env, place), computer));
    if (!found) throw notFound("agent_computer");
    c.header("Content-Security-Policy", "default-src 'none'");
    return c.var.answer(toSvg(found.name, found.screen), "image/svg+xml");
  },
);

/** Nobody finds it any more from here on. What runs there is ended after the answer, and by the sweep until that is sure. */
computers.delete("/api/v1/agent_computers/:computer", allow("computers:write"), givesNothing(), async (c) => {
  const row = await deleteChild(c.var.db, "agent_computer", idOf(c.req.param("computer")));
  if (row.asked_at) c.executionCtx.waitUntil(destroy(c.env, row).catch(() => {}));
  return c.var.answer();
});

computers.post(
  "/api/v1/agent_computers/:computer/refresh",
  named("Refresh a computer's state"),
  allow("computers:write"),
  gives(200, computer, 422, 503),
  async (c) => c.var.answer(await shown(c.env, await refresh(c.env, c.var.db, idOf(c.req.param("computer"))))),
);

/** 200 whatever the command ends with. Its effect is `once`: under a key it is begun once, and 503 says that nobody knows. */
computers.post(
  "/api/v1/agent_computers/:computer/exec",
  named("Run a command on a computer"),
  allow("computers:write"),
  valid("json", execBody),
  onceBegun(),
  gives(200, execResult, 409, 429, 503),
  async (c) => {
    const { command, dir, timeout_seconds } = c.req.valid("json");
    const asked = { command, dir: dir ?? null, timeout_seconds: timeout_seconds ?? 120 };
    return c.var.answer(await exec(c, idOf(c.req.param("computer")), asked, c.var.begin));
  },
);

export default computers;
