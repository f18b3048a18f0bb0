/**
 * What a view does not name is not shown. Every table gets a column that no view can know of; then every operation is
 * asked by those who may, and neither the column nor its value is in any answer.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import { catalogue, typeOf } from "../lib/events/catalogue.ts";
import { anApp, bearer, textOf } from "./harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "./harness/own.ts";
import {
  addressOf,
  bodyOf,
  ENDS_OTHERS,
  makeRows,
  type Operation,
  operations,
  PERSON_ONLY,
  type Values,
} from "./isolation/operations.ts";
import { aPlace, aToken, type Place, post } from "./isolation/places.ts";
import { isOfPersons } from "./isolation/refusals.ts";
import { fill, rowOf } from "./isolation/stage.ts";

const COLUMN = "canary_column";
const VALUE = "canary-4f1c";
/** There are no such variables yet, and no journals. */
const ALWAYS_EMPTY = [
  ...["GET /api/v1/scripts/runtime_env_vars", "GET /api/v1/agent_routines/runs/{run}/journal"],
  // Nobody has tried to sign in.
  ...["GET /protected/api/v2/developer/apps/{app_id}/orgs/{id}/sso/attempts", "GET /api/v1/orgs/{org_id}/sso/attempts"],
  // What is set up, and of no row: nothing is, here.
  ...["GET /api/v1/ai/image/models", "GET /api/v1/ai/evaluation/models"],
];

type Asked = { operation: Operation; as: "owner" | "key" };
/** Who may ask: a person what is not a developer's, the secret key all that is not a person's. */
const inOrder = [
  ...operations.filter(({ name }) => !ENDS_OTHERS.includes(name)),
  ...operations.filter(({ name }) => ENDS_OTHERS.includes(name)),
];
const asked: Asked[] = inOrder.flatMap((operation) => [
  ...(!operation.permission || isOfPersons(operation) ? [{ operation, as: "owner" } as const] : []),
  ...(operation.permission && !PERSON_ONLY.includes(operation.name) ? [{ operation, as: "key" } as const] : []),
]);

let own: Own;
let base: string;
let place: Place;
let credentials: Record<Asked["as"], string>;
let refreshToken: string;
let scimToken: string;
let mailDir: string;
const rows = new Map<Asked, Values>();

beforeAll(async () => {
  own = await ownSystem();
  mailDir = await mkdtemp(join(tmpdir(), "agentry-mail-"));
  base = await own.start([await newSigningKey("one")], [newRoot()], { mailDir });
  const { app, secret_key } = await anApp({ base, newApp: own.newApp });
  place = await fill(await aPlace("acme", { app, sandbox: null, key: secret_key }, base));
  const minted = await aToken(place, place.owner);
  credentials = { owner: minted.access_token, key: secret_key };
  refreshToken = minted.refresh_token;
  scimToken = (await post(place.asDeveloper, `${place.at}/orgs/${place.org}/scim_tokens`, {})).token;
  // What changes rows is given its own; what reads finds those that stay, with their children.
  for (const one of asked) {
    const { method, parameters } = one.operation;
    const by = one.as === "owner" ? place.owner : null;
    rows.set(one, method === "GET" ? place.rows : await makeRows(parameters, place, by));
  }
  await own.database.exec(`do $$ declare t text; begin
      for t in select table_name from information_schema.tables where table_schema = 'data' loop
        execute format('alter table data.%I add column ${COLUMN} text not null default ''${VALUE}''', t);
      end loop;
    end $$`);
});
afterAll(async () => {
  await own.close();
  await rm(mailDir, { recursive: true });
});

const RUN = "POST /api/v1/scripts/run";
const KEPT_BY_NOBODY = [RUN, "POST /api/v1/workflows/run"];

/** Asks, and gives the whole answer as text. Not by the harness's caller: a field too many is this test's to tell of. */
async function ask(
  operation: Operation,
  as: Asked["as"],
  values: Values,
  body: object | undefined,
  key = operation.name.replaceAll(" ", "-"),
): Promise<string> {
  const response = await fetch(base + addressOf(operation, values), {
    method: operation.method,
    headers: {
      "Content-Type": "application/json",
      ...(operation.method === "POST" && { "Idempotency-Key": `${as}-${key}` }),
      ...(operation.permission && bearer(credentials[as])),
      ...(operation.path.startsWith("/scim/") && bearer(scimToken)),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await textOf(response);
  // A refusal would show nothing, whatever the views do, and so would a list without a row.
  expect([response.status, text]).toEqual([operation.success, text]);
  if (!ALWAYS_EMPTY.includes(operation.name)) expect(text).not.toContain('"data":[]');
  return JSON.stringify([...response.headers]) + text;
}

it.each(asked.map((one) => [one.operation.name, one.as, one] as const))("%s as %s", async (name, as, one) => {
  const { operation } = one;
  const body =
    name === "POST /api/v1/auth/refresh" ? { refresh_token: refreshToken } : bodyOf(operation, { home: place });
  // What keeps a key is sent again under it: what it made is then read and shown once more. A run's answer isn't kept.
  for (const _ of operation.keyed && !KEPT_BY_NOBODY.includes(name) ? ["first", "again"] : ["once"]) {
    const said = await ask(operation, as, rows.get(one)!, body);
    for (const canary of [COLUMN, VALUE]) expect(said).not.toContain(canary);
  }
});

it.each(["owner", "key"] as const)("what a script reads, as %s", async (as) => {
  const run = operations.find(({ name }) => name === RUN)!;
  const { agent, user } = { agent: rowOf(place, "agent"), user: rowOf(place, "user") };
  const script = `[unwrap(agents.get({ agent: "${agent}" })), unwrap(users.get({ user: "${user}" }))]`;
  const said = await ask(run, as, {}, { script }, "reads");
  expect(said).toContain(`"id":"${agent}"`);
  for (const canary of [COLUMN, VALUE]) expect(said).not.toContain(canary);
});

/** Events whose source isn't there yet, or that come of something else than a request. */
const NOT_ASKED_FOR =
  /^((thread|webhook|custom|agent_routine_run|automation_run|agent_computer|installation_source)\..*|agentroutine.invoked|schedule.cron|workflow.scheduled|agent.health_changed|quota.reached|webhook_endpoint.failing|org_domain.verified|scim.last_owner_deactivated|invitation.accepted|user_invite.accepted|agent_health_action.(created|deleted)|working_memory_entry.created)$/;
/** States that a row is made in and never comes back to, that time alone brings, or that a verifier does. */
const NOT_REACHED = [
  ...["agent_health_action.pending", "agent_installation.pending", "agent_routine.draft"],
  ...["agent_schedule.completed", "agent_schedule.expired", "agent_session.pending"],
  // What a graph makes: tests/routines/work-items.test.ts has its states.
  ...["work_item.created", "work_item.queued", "work_item.claimed", "work_item.succeeded", "work_item.failed"],
];
/** Those that tests/events/events.test.ts tells of, since it takes a row that is in another state. */
const STATES =
  /^(org|event_subscription|webhook_endpoint|agent_(health_action|routine|schedule|session|skill|tool))\.(active|suspended|trialing|paused|enabled|inactive|disabled|completed|degraded|failed|deleted)$/;

it("tells, by all of that, of every event that a request can bring about, each as its schema says", async () => {
  const told = await own.database.query<{ name: string; payload: object }>("select name, payload from data.events");
  for (const { name, payload } of told) {
    const { issues } = v.safeParse(typeOf(name)!.schema, payload);
    expect([name, payload, issues?.map(({ message }) => message)]).toEqual([name, payload, undefined]);
  }
  const names = new Set(told.map(({ name }) => name));
  const isElsewhere = (name: string) =>
    NOT_ASKED_FOR.test(name) || NOT_REACHED.includes(name) || (STATES.test(name) && !names.has(name));
  const wanted = [...catalogue.keys()].filter((name) => !isElsewhere(name));
  expect(wanted.filter((name) => !names.has(name))).toEqual([]);
});
