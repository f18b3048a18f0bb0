/** What hangs on an agent is under the agent's access list, whatever it is: over all routes. */
import { beforeAll, describe, expect, it } from "vitest";
import { kinds } from "../../lib/kinds.ts";
import { anApp, bearer, type Call, caller, must, sql } from "../harness/index.ts";
import { ABSENT, addressOf, bodyOf, guarded, makeRows, makers, type Operation } from "../isolation/operations.ts";
import { aPlace, aToken, type Place } from "../isolation/places.ts";
import { wire } from "../isolation/refusals.ts";
import { walking } from "../isolation/stage.ts";

const AGENT = "agents/{agent}";
/** What only those may read who may write the agent. */
const SECRET = ["env_vars:read"];
/** What uses an agent without changing it: it asks for the scope's write, and for read on the agent. */
const USES: string[] = ["POST /api/v1/agent_routines/{routine}/invoke"];

const withAgent = new Set(
  (
    await sql<{ name: string }>(
      `select table_name as name from information_schema.columns
      where table_schema = 'data' and column_name = 'agent_id' and is_nullable = 'NO'`,
    )
  ).map(({ name }) => name),
);
const tableOf = (parameter: string) => kinds[makers[parameter]!.kind].table ?? "";
const hanging = guarded.filter(
  ({ path, parameters }) =>
    path.startsWith("/api/v1/agents/{agent}/") || parameters.some((parameter) => withAgent.has(tableOf(parameter))),
);

let place: Place;
let member: Call;
beforeAll(async () => {
  const { app, secret_key } = await anApp();
  place = await aPlace("children", { app, sandbox: null, key: secret_key });
  member = caller(bearer((await aToken(place, place.member)).access_token));
});

/** Fresh rows for the operation, whose agent grants the member these actions and nobody else anything. */
async function rowsUnder(operation: Operation, actions: string[]) {
  const rows = await makeRows(operation.parameters, place, null);
  const child = operation.parameters.find((parameter) => withAgent.has(tableOf(parameter)));
  const [{ agent_id } = { agent_id: rows[AGENT] }] = child
    ? await sql<{ agent_id: string }>(`select agent_id from data.${tableOf(child)} where id = $1`, [rows[child]])
    : [];
  const somebody = { principal_type: "user", principal: actions.length ? place.member : place.owner };
  const acl = { grants: [{ ...somebody, actions: actions.length ? actions : ["read", "write"] }] };
  await must(place.asDeveloper("PATCH", `/api/v1/agents/${agent_id}`, { acl }), 200);
  return rows;
}
const ask = (operation: Operation, rows: Record<string, string>) =>
  member(operation.method, addressOf(operation, rows), bodyOf(operation, { home: place }), walking);

it("finds the routes", () => {
  expect(hanging.length).toBeGreaterThan(4);
});

describe.each(hanging.map((operation) => [operation.name, operation] as const))("%s", (name, operation) => {
  const needsRead = (operation.method === "GET" && !SECRET.includes(operation.permission!)) || USES.includes(name);

  it("is absent, to the byte, to whom the agent is hidden", async () => {
    const rows = await rowsUnder(operation, []);
    const hidden = await ask(operation, rows);
    expect([hidden.status, wire(hidden)]).toEqual([404, wire(await ask(operation, ABSENT))]);
  });

  it(`${needsRead ? "is for" : "is forbidden to"} whoever may only read the agent`, async () => {
    const answer = await ask(operation, await rowsUnder(operation, ["read"]));
    expect([answer.status, answer.text]).toEqual([needsRead ? operation.success : 403, answer.text]);
  });

  it("is for whoever may write the agent", async () => {
    const answer = await ask(operation, await rowsUnder(operation, ["write"]));
    expect([answer.status, answer.text]).toEqual([operation.success, answer.text]);
  });
});
