/** What can be asked of a run, be it a routine's or an automation's. */
import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { allow } from "../auth/allow.ts";
import { invalid, unprocessable } from "../errors.ts";
import { wakeDispatcher } from "../events/remote.ts";
import { givesEventsWhile } from "../http/events.ts";
import { gives } from "../http/gives.ts";
import { isKey, KEY, keyHeader, NO_KEY, once } from "../http/once.ts";
import type { router } from "../http/router.ts";
import { named, withSpec } from "../http/spec.ts";
import { valid } from "../http/valid.ts";
import { watch } from "../http/watch.ts";
import { parseId } from "../ids.ts";
import { openCursor, paginateByCursor } from "../paging.ts";
import { liveRun, runsAfter } from "../runs/follow.ts";
import { isTerminal } from "../runs/loop.ts";
import { type RunRow, type RunView, runsOf } from "../runs/remote.ts";
import { changed, reached, senderOf } from "../sessions/reach.ts";
import type { Refused, Resolution } from "../sessions/remote.ts";
import { callPage, decideBody, listCallsQuery, resolveBody, toCall } from "../sessions/schema.ts";
import { cancelRun, getRun, listCommands, retryRun } from "./queries.ts";
import { journalPage, journalQuery, toJournal } from "./schema.ts";

type Of<V extends v.GenericSchema> = {
  kind: "agent_routine_run" | "automation_run";
  of: "routine" | "automation";
  scope: "routines" | "automations";
  /** The address of one, and where one is followed. */
  at: string;
  follow: string;
  view: V;
  to: (row: RunRow) => v.InferOutput<V>;
};

export function routesOfRuns<V extends v.GenericSchema>(
  runs: ReturnType<typeof router>,
  { kind, of, scope, at, follow, view, to }: Of<V>,
): void {
  const idOf = (c: Context) => parseId(kind, (c.req.param("run") ?? c.req.param(kind))!);
  const commandOf = (c: Context) => parseId("tool_call", c.req.param("command")!);
  const a = of === "routine" ? "a routine" : "an automation";

  runs.get(
    follow,
    named(`Follow a run of ${a}`),
    allow(`${scope}:read`),
    givesEventsWhile({ run_update: view }),
    async (c) => {
      const read = () => getRun(c.var.db, idOf(c));
      await read();
      const watching = watch(c, `${scope}:read`, read);
      const updates = async function* () {
        for await (const row of runsAfter(c.env, read)) yield ["run_update", to(row)] as const;
      };
      return c.var.tell(updates(), watching);
    },
  );

  runs.get(at, named(`Get a run of ${a}`), allow(`${scope}:read`), gives(200, view), async (c) =>
    c.var.answer(to(await liveRun(c.env, await getRun(c.var.db, idOf(c))))),
  );

  runs.get(
    `${at}/journal`,
    named(`Read the journal of a run of ${a}`),
    allow(`${scope}:read`),
    valid("query", journalQuery),
    gives(200, journalPage),
    async (c) => {
      const id = idOf(c);
      const query = c.req.valid("query");
      const page = await openCursor(c.env.ROOT_SECRETS, `journal of ${id}`, c.var.db.tenant, query);
      const row = await getRun(c.var.db, id);
      const after = Number(page.from ?? 0);
      const journal = toJournal(row, await reached(runsOf(c.env, row).frames(row, after, page.limit, 0)));
      const last = journal.data.at(-1)?.sequence ?? after;
      const after_cursor = journal.journal ? await page.seal(String(last)) : null;
      return c.var.answer({ ...journal, before_cursor: null, after_cursor });
    },
  );

  /** Ends it, whatever it does. By who may change what it is of, and it; so are those below. */
  runs.post(`${at}/cancel`, named(`Cancel a run of ${a}`), allow(`${scope}:write`), gives(200, view), async (c) => {
    const row = await cancelRun(c.var.db, idOf(c));
    if (row.admitted_at === null) return c.var.answer(to(row));
    return c.var.answer(to({ ...row, ...(await reached(runsOf(c.env, row).cancel(row))) }));
  });

  /** Makes a new run of the same. */
  runs.post(
    `${at}/retry`,
    named(`Retry a run of ${a}`),
    allow(`${scope}:write`),
    once(kind),
    gives(200, view, 422),
    async (c) => {
      const of = idOf(c);
      // What its object says: the row may lag behind.
      const { status } = await liveRun(c.env, await getRun(c.var.db, of, "write"));
      if (!isTerminal(status)) {
        throw unprocessable("not_ended", "Only a run that is over can be retried. Cancel it first.");
      }
      const row = await c.var.once(
        (db, id) => retryRun(db, of, id),
        (db, id) => getRun(db, id),
      );
      c.executionCtx.waitUntil(wakeDispatcher(c.env, row));
      return c.var.answer(to(row));
    },
  );

  /** What it has asked of the world. What waits for a person stands in /api/v1/tool_calls, too. */
  runs.get(
    `${at}/commands`,
    named(`List the commands of a run of ${a}`),
    allow(`${scope}:read`),
    valid("query", listCallsQuery),
    gives(200, callPage),
    async (c) => {
      const query = c.req.valid("query");
      const id = idOf(c);
      const page = await openCursor(c.env.ROOT_SECRETS, `commands of ${id}`, c.var.db.tenant, query);
      return c.var.answer(await paginateByCursor(page, await listCommands(c.var.db, id, query, page), toCall));
    },
  );

  /** The run, once its object was told something about one of its commands. */
  const told = async (
    c: Context,
    tell: (row: RunRow, command: string) => Promise<RunView | Refused>,
  ): Promise<v.InferOutput<V>> => {
    const row = await getRun(c.var.db, idOf(c), "write");
    return to({ ...row, ...(await changed(tell(row, commandOf(c)))) });
  };

  for (const [verb, approved] of [
    ["approve", true],
    ["deny", false],
  ] as const) {
    runs.post(
      `${at}/commands/:command/${verb}`,
      named(`${approved ? "Approve" : "Deny"} a command of a run of ${a}`),
      allow(`${scope}:write`),
      valid("json", decideBody),
      gives(200, view, 409),
      async (c) => {
        const decision = { ...c.req.valid("json"), approved, by: senderOf(c.var.credential) };
        return c.var.answer(
          await told(c as never, (row, command) => runsOf(c.env, row).decide(row, command, decision)),
        );
      },
    );
  }

  /** Says what became of a command of which nobody knows whether it happened. */
  runs.post(
    `${at}/commands/:command/resolve`,
    named(`Resolve a command of a run of ${a}`),
    allow(`${scope}:write`),
    valid("json", resolveBody),
    gives(200, view, 409),
    async (c) => {
      const resolution = { ...(c.req.valid("json") as Resolution), by: senderOf(c.var.credential) };
      return c.var.answer(
        await told(c as never, (row, command) => runsOf(c.env, row).resolve(row, command, resolution)),
      );
    },
  );
}

/** Says of an invocation what its key does, which its run keeps. */
export const keptByRuns = (description: string) =>
  withSpec(
    createMiddleware((_, next) => next()),
    keyHeader(description),
  );

/** The header and the field of the body are one key. */
export function oneKey(header: string | undefined, field: string | null | undefined): string | null {
  if (header !== undefined && !isKey(header)) throw invalid({ field: KEY, message: NO_KEY });
  if (header !== undefined && field != null && header !== field) {
    throw invalid({ field: "idempotency_key", message: `differs from the header ${KEY}` });
  }
  return header ?? field ?? null;
}
