/**
 * What the isolation tests know of each route: a maker for every parameter of an address and a sample for every body.
 * A new route asks for one by failing; `PUBLIC` may only get shorter.
 */
import { createHash } from "node:crypto";
import { newId } from "../../lib/ids.ts";
import { type Kind, kinds } from "../../lib/kinds.ts";
import { aSecret } from "../harness/canary.ts";
import { must, system, unique } from "../harness/index.ts";
import { aSandbox, aToken, type Place, post } from "./places.ts";

/** Routes that anybody may ask: they have no permission and give nobody's rows. */
export const PUBLIC = [
  "GET /healthz",
  "GET /readyz",
  "GET /.well-known/jwks.json",
  "GET /openapi.json",
  "GET /api/v1/status/ping",
  "POST /api/v1/auth/refresh",
  // Visitors ask, by a publishable key: tests/auth tries others.
  ...[
    "login/code",
    "register/code",
    "code/verify",
    "login/link",
    "register/link",
    "request/link",
    "verify/link",
    "login",
    "register",
    "token",
  ].map((what) => `POST /api/v1/auth/${what}`),
  "GET /api/v1/auth/allowed_auth_methods",
  // Its credential is its address: tests/hooks/hooks.test.ts tries others.
  "POST /hooks/{token}",
  // The key that was mailed is the credential: tests/people/invitations.test.ts tries others.
  "POST /api/v1/invitations/accept",
  // A SCIM token is another sort of credential: tests/scim/tokens.test.ts tries others, and foreign ids.
  ...["ServiceProviderConfig", "ResourceTypes", "Schemas"].map((what) => `GET /scim/v2/${what}`),
  ...["Users", "Groups"].flatMap((kind) => ["GET", "POST"].map((method) => `${method} /scim/v2/${kind}`)),
  ...["GET", "PUT", "PATCH", "DELETE"].flatMap((method) =>
    ["Users/{user}", "Groups/{group}"].map((one) => `${method} /scim/v2/${one}`),
  ),
  // Their credential is what they are sent: tests/auth/oauth.test.ts and oauth-device.test.ts try others.
  ...["GET /.well-known/oauth-authorization-server", "GET /oauth/scopes"],
  ...["POST /oauth/token", "POST /oauth/revoke", "POST /oauth/device/authorize"],
  // By a link that is a credential: what isn't one is a 404, whatever computer it names.
  "GET /api/v1/agent_computers/{computer}/screen",
  // A browser on its way to a provider and back, who proves who somebody is: tests/sso.
  "GET /sso/{app}/{sandbox}/{org}/metadata",
  "GET /sso/{app}/{sandbox}/{org}/start",
  "POST /sso/{app}/{sandbox}/{org}/acs",
  "GET /sso/{app}/{sandbox}/{org}/callback",
  "GET /sso/{app}/{sandbox}/{org}/finish",
  "GET /sso/{app}/{sandbox}/{org}/slo",
  "POST /sso/{app}/{sandbox}/{org}/slo",
  "POST /sso/{app}/{sandbox}/{org}/logout",
  "GET /sso/{app}/{sandbox}/{org}/logout",
  "POST /sso/{app}/{sandbox}/{org}/backchannel",
];

/** Routes that a secret key may ask, but not of a sandbox: 403 once all else is well. */
export const PRODUCTION_ONLY = ["PATCH /protected/api/v2/developer/apps/{app_id}", "POST /api/v1/sandboxes"];

/** Routes for a person, which no key can be: 403 `no_user`, whatever else the key is. */
export const PERSON_ONLY = [
  ...["GET /api/v1/users/me", "POST /api/v1/invites/accept"],
  "GET /oauth/device/authorization",
  ...["POST /oauth/device/approve", "POST /oauth/device/deny"],
];

/** What a sandbox's key can do to its own sandbox only once: the walk leaves it standing. */
export const SPENDS_ITSELF = ["DELETE /api/v1/sandboxes/{sandbox}"];

/** What nothing stands behind yet, or not where the tests run: 422, by a row that is there. */
export const WITHOUT_PROVIDER = [
  "POST /api/v1/ai/image/generations",
  "POST /api/v1/ai/image/edits",
  "POST /api/v1/ai/embedding/similarity_comparison",
  "POST /api/v1/agent_computers/{computer}/refresh",
  "POST /api/v1/agent_computers/{computer}/exec",
];

/** What a fresh row of the walk is not ready for: the status, by a row that is there. */
const NOT_READY: Record<string, number> = {
  // Asked without a key.
  ...Object.fromEntries(
    [
      "login/code",
      "register/code",
      "code/verify",
      "login/link",
      "register/link",
      "request/link",
      "verify/link",
      "login",
      "register",
      "token",
    ].map((what) => [`POST /api/v1/auth/${what}`, 401]),
  ),
  // By a token that was minted, and proves nobody.
  "PUT /api/v1/users/{user}/password": 403,
  // Its link is all that opens it.
  "GET /api/v1/agent_computers/{computer}/screen": 404,
  "DELETE /api/v1/agent_sessions/{agent_session}": 422,
  "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/resolve": 409,
  "POST /api/v1/automation_runs/{automation_run}/commands/{command}/approve": 409,
  "POST /api/v1/automation_runs/{automation_run}/commands/{command}/deny": 409,
  "POST /api/v1/automation_runs/{automation_run}/commands/{command}/resolve": 409,
  "POST /api/v1/agent_routines/runs/{run}/commands/{command}/approve": 409,
  "POST /api/v1/agent_routines/runs/{run}/commands/{command}/deny": 409,
  "POST /api/v1/agent_routines/runs/{run}/commands/{command}/resolve": 409,
  "POST /api/v1/event_subscription_deliveries/{delivery}/acknowledge": 409,
  // What is sent is no credential, and no device waits under the code.
  "POST /oauth/token": 400,
  "POST /oauth/device/authorize": 400,
  "GET /oauth/device/authorization": 400,
  "POST /oauth/device/approve": 400,
  "POST /oauth/device/deny": 400,
  // Of a connection that lacks something, and by nothing that a provider has signed.
  "GET /sso/{app}/{sandbox}/{org}/start": 400,
  "POST /sso/{app}/{sandbox}/{org}/acs": 400,
  "GET /sso/{app}/{sandbox}/{org}/callback": 400,
  "GET /sso/{app}/{sandbox}/{org}/finish": 400,
  "GET /sso/{app}/{sandbox}/{org}/slo": 400,
  "POST /sso/{app}/{sandbox}/{org}/slo": 400,
  "POST /sso/{app}/{sandbox}/{org}/backchannel": 400,
  // It leads to the org's page.
  "GET /sso/{app}/{sandbox}/{org}/logout": 200,
  // Without a session's cookie nobody says that a page of ours sent it.
  "POST /sso/{app}/{sandbox}/{org}/logout": 403,
  // 200 is Slack's challenge alone.
  "POST /hooks/{token}": 202,
  // It takes the key of a colleague's.
  "POST /api/v1/invites/accept": 404,
  "POST /api/v1/invitations/accept": 404,
  "POST /api/v1/webhook_endpoints/{endpoint}/replay": 409,
  "POST /api/v1/webhook_deliveries/{delivery}/replay": 409,
};

/** Routes that take a name besides the id, but only with its owner: a name alone is 422. */
export const NAMED_WITH_OWNER = [
  ...["GET", "PATCH", "PUT"].map((method) => `${method} /api/v1/config/{config}`),
  ...["content", "versions"].map((part) => `GET /api/v1/config/{config}/${part}`),
  ...["archive", "unarchive"].map((verb) => `POST /api/v1/config/{config}/${verb}`),
];

/** What a person can't name anybody for: the field is a key's, and a person is always itself. */
export const ALWAYS_ITSELF = { name: "POST /api/v1/agent_routines/{routine}/invoke", field: "user" };

/** What ends or changes the rows that others are asked with at the same time: it is asked last. */
export const ENDS_OTHERS = ["DELETE /api/v1/users/{user}/sessions", "PUT /api/v1/orgs/{org_id}/sso"];

/** What is asked of an address besides: ending all one's sign-ins would end the one that walks. */
const QUERIES: Record<string, string> = { "DELETE /api/v1/users/{user}/sessions": "?keep=current" };

/** Parameters that stand for no row, but for a word of the document's own. */
const WORDS: Record<string, string> = {
  "kinds/{kind}": "kinds/Skill",
  "event_types/{name}": "event_types/agent.created",
  "events/{name}": "events/schedule.cron",
  "node_types/{node_type}": "node_types/wait",
  // Production, which has no id.
  "sso/{app}/{sandbox}": "sso/{app}/-",
};

/** Values for parameters of addresses, by the parameters' keys. */
export type Values = Record<string, string>;

/**
 * The key of each parameter of an address: the parameter behind the word that it follows, `users/{user}`. The name
 * alone says too little: `key`, `token` or `source` stand for other things elsewhere. A parameter that follows another
 * one has both in its key.
 */
export function parametersOf(path: string): string[] {
  let key = "";
  return path.split("/").flatMap((part) => {
    const isParameter = part.startsWith("{");
    key = isParameter ? `${key}/${part}` : part;
    return isParameter ? [key] : [];
  });
}

type Maker = {
  kind: Kind;
  /** Takes another name beside the id, so that "malformed" is only a name that nothing has. */
  named?: true;
  /** A fresh row of the place; `made` are those before it in the address. `by` is the person who will ask, if one. */
  make: (place: Place, made: Values, by: string | null) => Promise<string>;
};

/** The parameter by which a person may name itself, and where it matters nobody else. */
export const ONESELF = "users/{user}";

const aUser = async (place: Place): Promise<string> =>
  (await post(place.asDeveloper, `${place.at}/users`, { name: place.word, org: place.org })).id;

/** What a row hangs on: the one that was made with it or, alone, the one that the place keeps, if it has one yet. */
const parent = async (parameter: string, place: Place, made: Values): Promise<string> =>
  made[parameter] ?? place.rows[parameter] ?? (await makerOf(parameter).make(place, made, null));

const child = (kind: Kind, collection: string, body: (place: Place) => object): Maker => ({
  kind,
  make: async (place, made) => {
    const agent = await parent("agents/{agent}", place, made);
    return (await must(place.asDeveloper("POST", `/api/v1/agents/${agent}/${collection}`, body(place)), 200)).id;
  },
});

/** The body of a config that bears the place's word. */
const aConfig = ({ word }: Place) => ({ kind: "Skill", ...aSkill(unique(word)) });
const aSkill = (word: string) => ({
  ...{ mime_type: "text/markdown", raw_content: `---\nname: ${word}\ndescription: ${word}\n---\n${word}\n` },
});
const anOauthClient = ({ word }: Place) => ({ name: word, scopes: ["agents:read"] });
const aMail =
  'insert into data.sandbox_mails (app_id, sandbox_id, org_id, id, "to", subject, text) ' +
  "select app_id, sandbox_id, org_id, $2, $3, $3, $3 from data.sandboxes where sandbox_id = $1";
const anEnvVar = ({ word }: Place) => ({
  ...{ key: unique(word).replaceAll("-", "_"), value: aSecret(), description: word },
});
const aTool = ({ word, script }: Place) => ({
  ...{ kind: "custom", name: unique(word), description: word, handler_type: "script", config: script },
  parameters: { type: "object" },
});
const aHealthAction =
  "insert into data.agent_health_actions (app_id, sandbox_id, org_id, agent_id, id, source, kind, title, params, required) " +
  `select app_id, sandbox_id, org_id, id, $2, 'setup', 'env_var', $3, '{"key":"MISSING"}', false from data.agents where id = $1`;
const aMemory =
  "insert into data.agent_working_memory (app_id, sandbox_id, org_id, agent_id, id, key, value) " +
  "select app_id, sandbox_id, org_id, id, $2, $3, 'a value' from data.agents where id = $1";
/** One that has been claimed by whoever calls itself as the walk does. */
const LEASE_OWNER = unique("lease");
const aWorkItem =
  "with run as (insert into data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, id, status, look_at) " +
  "select app_id, sandbox_id, org_id, id, 'arr_' || right($2, 22), 'completed', null from data.agents where id = $1 returning *) " +
  "insert into data.work_items (app_id, sandbox_id, org_id, agent_id, id, run_id, command_id, node_id, status, lease_hash, lease_expires_at, payload) " +
  `select app_id, sandbox_id, org_id, agent_id, $2, id, $3, 'ask', 'claimed', sha256('${LEASE_OWNER}'), now() + interval '1 hour',
    jsonb_build_object('about', $3::text) from run`;
/** What the product makes of itself, by no route that is for it. */
const byNoRoute = (kind: Kind, insert: string): Maker => ({
  kind,
  make: async (place, made) => {
    const agent = await parent("agents/{agent}", place, made);
    const id = newId(kind);
    await place.sql(insert, [agent, id, unique(place.word)]);
    return id;
  },
});
const daily = (instructions: string) => ({ schedule_type: "recurring", cron_expression: "0 9 * * *", instructions });

/** Of a kind that takes sources. */
const pendingInstallation = child("agent_installation", "agent_installations", ({ word }) => ({
  ...{ kind: "archastro/knowledge", lookup_key: unique(word), config: { about: word } },
}));
const aSource = ({ word }: Place) => ({ type: "web/link", payload: { url: `https://${word}.example/` } });
const anInvocable = (name: string) => ({
  ...{ name, handler_type: "chain", event_type: "agentroutine.invoked", status: "active" },
  steps: [1, 2].map((n) => ({ handler_type: "script", script: `${n}` })),
});

const anOccurrence = (of: "schedule" | "routine") =>
  `insert into data.occurrences (app_id, sandbox_id, org_id, agent_id, id, ${of}_id, planned_at, outcome, overlap)
   select app_id, sandbox_id, org_id, agent_id, $2, id, $3, 'missed', 'skip' from data.agent_${of}s where id = $1`;
/** Two, so that a page has another one. */
async function addOccurrences(place: Place, of: "schedule" | "routine", id: string): Promise<void> {
  for (const day of ["2026-01-01", "2026-01-02"]) await place.sql(anOccurrence(of), [id, newId("occurrence"), day]);
}
/** One that has occurrences, and a session that goes on: what is started beside that is skipped. */
const aSchedule: Maker = {
  kind: "agent_schedule",
  make: async (place, made, by) => {
    const id = await child("agent_schedule", "schedules", ({ word }) => daily(word)).make(place, made, by);
    await addOccurrences(place, "schedule", id);
    await place.sql(
      `insert into data.agent_sessions (app_id, sandbox_id, org_id, agent_id, schedule_id, id, trajectory_id, instructions,
         max_turns, max_tokens, max_runs_per_turn, start_idle, on_idle, status, look_at)
       select app_id, sandbox_id, org_id, agent_id, id, $2, $3, instructions, 1, 1, 1, true, 'wait', 'waiting', null
       from data.agent_schedules where id = $1`,
      [id, newId("agent_session"), newId("trajectory")],
    );
    return id;
  },
};
/** The same of a routine, which can be invoked, too. */
const aRoutine: Maker = {
  kind: "agent_routine",
  make: async (place, made, by) => {
    const body = ({ word }: Place) => ({ ...anInvocable(word), schedule: "0 9 * * *" });
    const id = await child("agent_routine", "agent_routines", body).make(place, made, by);
    await found(place, "select id from data.agent_routines where id = $1 and next_run_at is not null", id);
    await addOccurrences(place, "routine", id);
    await place.sql(
      `insert into data.agent_routine_runs (app_id, sandbox_id, org_id, agent_id, routine_id, id, planned_at, status, look_at)
       select app_id, sandbox_id, org_id, agent_id, id, $2, '2026-01-01', 'running', null from data.agent_routines where id = $1`,
      [id, newId("agent_routine_run")],
    );
    return id;
  },
};
const lastDay = () => ({
  from: new Date(Date.now() - 86_400_000).toISOString(),
  to: new Date(Date.now() - 1_000).toISOString(),
});

/** One that is over: all there is to tell has been told. */
const aRun: Maker = {
  kind: "agent_routine_run",
  make: async (place, made) => {
    const routine = await parent("agent_routines/{routine}", place, made);
    const invoke = `/api/v1/agent_routines/${routine}/invoke`;
    const { id } = await must(place.asDeveloper("POST", invoke, { message: place.word }), 200);
    const told = "select id from data.agent_routine_runs where id = $1 and status = 'completed'";
    return found(place, told, id);
  },
};

/** A person's own, if one will ask. It asks the world twice, so that a page has another one. */
const anAutomation: Maker = {
  kind: "config",
  named: true,
  make: async ({ asDeveloper, org, word }, _, by) => {
    const owner = by ? { user: by } : { system: true };
    const save = async (kind: string, said: object): Promise<string> => {
      const content = { mime_type: "application/json", raw_content: JSON.stringify({ name: word, ...said }) };
      const body = { kind, lookup_key: unique(word), org, ...owner, ...content };
      return (await post(asDeveloper, "/api/v1/config", body)).id;
    };
    const script = (id: string, on_success: string | null) => ({
      kind: "WorkflowScript",
      id,
      script: "it",
      on_success,
    });
    const graph = await save("WorkflowGraph", {
      ...{ version: 1, start_node: "start", data: [{ kind: "Script", id: "it", script: "1" }] },
      nodes: [{ kind: "WorkflowTrigger", id: "start", on_success: "a" }, script("a", "b"), script("b", null)],
    });
    return save("Automation", { config_ref: graph });
  },
};
/** One that is over: all there is to tell has been told. */
const anAutomationRun: Maker = {
  kind: "automation_run",
  make: async (place, _, by) => {
    const automation = await anAutomation.make(place, {}, by);
    const invoke = `/api/v1/automations/${automation}/invoke`;
    const { id } = await must(place.asDeveloper("POST", invoke, { payload: { about: place.word } }), 200);
    return found(place, "select id from data.agent_routine_runs where id = $1 and status = 'completed'", id);
  },
};

/** Asks for a tool twice, and says something when it has been answered. */
const asksTwice = (word: string) => `${word}

\`\`\`script
${JSON.stringify([
  { role: "user", tool_calls: [1, 2].map(() => ({ name: "look", arguments: {} })) },
  { role: "tool", text: word },
])}
\`\`\``;
const NO_ARGUMENTS = createHash("sha256").update("{}").digest("hex");

/** What is found in the place's database sooner or later. */
async function found(place: Place, statement: string, id: string): Promise<string> {
  for (let tries = 0; tries < 500; tries++) {
    const [row] = (await place.sql(statement, [id])) as { id: string }[];
    if (row) return row.id;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${statement} finds nothing for ${id}`);
}
const WAITS = "select id from data.tool_calls where session_id = $1 and outcome = 'awaiting_approval'";
const COMMAND = "select id from data.tool_calls where routine_run_id = $1 and outcome = 'succeeded'";
const HISTORY = "select trajectory_id as id from data.agent_sessions where id = $1";
const ofSession = (kind: Kind, statement: string): Maker => ({
  kind,
  make: async (place, made) => found(place, statement, await parent("agent_sessions/{agent_session}", place, made)),
});

/** One that waits for a person to approve a call, and does nothing until then: all there is to tell has been told. */
const aSession: Maker = {
  kind: "agent_session",
  make: async (place) => {
    const { asDeveloper, org, word, script } = place;
    const { id: agent } = await post(asDeveloper, "/api/v1/agents", { name: word, org, model: "scripted/script" }, 200);
    const tool = { kind: "custom", status: "active", name: "look", description: word, handler_type: "script" };
    const asked = { ...tool, config: script, parameters: { type: "object" }, approval: "required" };
    await post(asDeveloper, `/api/v1/agents/${agent}/agent_tools`, asked, 200);
    const { id } = await post(asDeveloper, "/api/v1/agent_sessions", { agent, instructions: asksTwice(word) });
    await found(place, WAITS, id);
    return found(place, "select id from data.agent_sessions where id = $1 and status = 'waiting'", id);
  },
};

/** One that holds two events, each once; a person's own, if one will ask. */
const aSubscription: Maker = {
  kind: "event_subscription",
  make: async (place, _, by) => {
    const { asDeveloper, org, word } = place;
    const event_names = ["custom.walk"];
    const { id } = await post(asDeveloper, "/api/v1/event_subscriptions", { name: word, event_names, org });
    if (by) await place.sql("update data.event_subscriptions set user_id = $2 where id = $1", [id, by]);
    await Promise.all([1, 2].map(() => post(asDeveloper, "/api/v1/events", { ...anEvent(place), org })));
    await deliveriesOf(place, id);
    return id;
  },
};
/** One that is disabled, lest its object go on while others ask, with a delivery of an event that there is. */
const aWebhookEndpoint: Maker = {
  kind: "webhook_endpoint",
  make: async (place) => {
    const { asDeveloper, org } = place;
    const { id } = await post(asDeveloper, "/api/v1/webhook_endpoints", { ...aWebhook(), org });
    const event = await post(asDeveloper, "/api/v1/events", { ...anEvent(place), org });
    await place.sql(
      `insert into data.webhook_deliveries (app_id, sandbox_id, org_id, id, endpoint_id, event_id, event_org_id, event_name,
          sequence, status, attempts, attempt_count, revision)
        select app_id, sandbox_id, org_id, $2, id, $3, org_id, 'custom.walk', 1, 'dead', '[]', 0, 1
          from data.webhook_endpoints where id = $1`,
      [id, newId("webhook_delivery"), event.id],
    );
    await place.sql("update data.webhook_endpoints set status = 'disabled' where id = $1", [id]);
    return id;
  },
};
const aWebhook = () => ({ url: "https://webhooks.invalid/", event_names: ["custom.none"] });
const anEvent = ({ word }: Place) => ({ name: "custom.walk", payload: { about: word } });
/** What waits in a queue, once there are two. */
async function deliveriesOf({ asDeveloper }: Place, subscription: string): Promise<any[]> {
  for (let tries = 0; tries < 500; tries++) {
    const { body } = await asDeveloper("GET", `/api/v1/event_subscriptions/${subscription}/queue`);
    if (body.data.length >= 2) return body.data;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`nothing comes to the queue of ${subscription}`);
}

/** Where two deliveries have come; both are told, and start nothing. */
const aHook = async ({ asDeveloper, org, word }: Place) => {
  const made = await post(asDeveloper, "/api/v1/inbound_webhooks", { name: word, provider: "url", org });
  const token: string = made.url.split("/").at(-1);
  for (const n of [1, 2]) await must(asDeveloper("POST", `/hooks/${token}`, { about: word, n }), 202);
  return { id: made.id as string, token };
};
const RECEIPT = "select id from data.webhook_receipts where webhook_id = $1";

const aSignIn = async (place: Place, user: string): Promise<string> =>
  found(place, "select family_id as id from data.tokens where id = $1", (await aToken(place, user)).id);
/** The org of an address, else the place's own. */
const orgOf = (place: Place, made: Values) => made["orgs/{org}"] ?? place.org;
/** One that only a provider makes. */
const aGroup: Maker = {
  kind: "scim_group",
  make: async (place, made) => {
    const id = newId("scim_group");
    await place.sql(
      `insert into data.scim_groups (app_id, sandbox_id, org_id, id, display_name)
        select app_id, sandbox_id, id, $2, $3 from data.orgs where id = $1`,
      [orgOf(place, made), id, unique(place.word)],
    );
    return id;
  },
};
const anEmail = ({ word }: Place) => `${unique(word)}@${word}.example`;

/** The org with a connection that lets nobody in. */
const withSso = async ({ asDeveloper, at }: Place, org: string): Promise<string> => {
  const { status, text } = await asDeveloper("PUT", `${at}/orgs/${org}/sso`, { provider: "saml" });
  // Another maker has just set the same.
  if (![200, 409].includes(status)) throw new Error(text);
  return org;
};

/** What stands behind each parameter. Parents come before their children. */
export const makers: Record<string, Maker> = {
  "apps/{app_id}": { kind: "app", make: async (place) => place.app },
  "orgs/{org}": {
    kind: "org",
    // A person has one org.
    make: async (place, _, by) => {
      if (by) return place.org;
      const slug = unique(place.word);
      return (await post(place.asDeveloper, `${place.at}/orgs`, { name: slug, slug, domain: `${slug}.example` })).id;
    },
  },
  "orgs/{id}": {
    kind: "org",
    make: async (place) => withSso(place, await makers["orgs/{org}"]!.make(place, {}, null)),
  },
  // A person's own.
  "orgs/{org_id}": {
    kind: "org",
    make: async (place, _, by) => withSso(place, by ? place.org : await makers["orgs/{org}"]!.make(place, {}, null)),
  },
  [ONESELF]: { kind: "user", make: async (place, _, by) => by ?? aUser(place) },
  "users/{user_id}": { kind: "user", make: aUser },
  "tokens/{token}": { kind: "token", make: async (place, made) => (await aToken(place, made[ONESELF]!)).id },
  "tokens/{token_id}": {
    kind: "token",
    make: async (place, made) => (await aToken(place, made["users/{user_id}"]!)).id,
  },
  "sessions/{session}": { kind: "sign_in", make: (place, made) => aSignIn(place, made[ONESELF]!) },
  "sessions/{session_id}": { kind: "sign_in", make: (place, made) => aSignIn(place, made["users/{user_id}"]!) },
  "keys/{key}": {
    kind: "key",
    make: async (place) => (await post(place.asDeveloper, `${place.at}/keys`, { type: "publishable" })).id,
  },
  "sandboxes/{sandbox}": {
    kind: "sandbox",
    make: async (place) => {
      const id = place.sandbox ?? (await aSandbox(place.asDeveloper)).id;
      // Two, so that a page has another one.
      for (const _ of [1, 2]) await place.sql(aMail, [id, newId("sandbox_mail"), place.word]);
      return id;
    },
  },
  "agents/{agent}": {
    kind: "agent",
    named: true,
    make: async (place) => {
      const body = { name: place.word, lookup_key: unique(place.word), org: place.org };
      return (await must(place.asDeveloper("POST", "/api/v1/agents", body), 200)).id;
    },
  },
  "config/{config}": {
    kind: "config",
    make: async (place, _, by) => {
      const body = { ...aConfig(place), org: place.org, ...(by ? { user: by } : { system: true }) };
      return (await post(place.asDeveloper, "/api/v1/config", body)).id;
    },
  },
  "agent_computers/{computer}": child("agent_computer", "agent_computers", ({ word }) => ({ name: word })),
  "agent_env_vars/{env_var}": child("agent_env_var", "agent_env_vars", anEnvVar),
  "agent_routines/{routine}": aRoutine,
  "runs/{run}": aRun,
  "agent_routine_runs/{agent_routine_run}": aRun,
  "automations/{automation}": anAutomation,
  "automation_runs/{automation_run}": anAutomationRun,
  "commands/{command}": {
    kind: "tool_call",
    make: async (place, made) =>
      found(place, COMMAND, made["automation_runs/{automation_run}"] ?? (await parent("runs/{run}", place, made))),
  },
  "schedules/{schedule}": aSchedule,
  "agent_installations/{installation}": {
    kind: "agent_installation",
    make: async (place, made, by) => {
      const id = await pendingInstallation.make(place, made, by);
      await must(place.asDeveloper("POST", `/api/v1/agent_installations/${id}/activate`), 200);
      return id;
    },
  },
  "installation_sources/{source}": {
    kind: "installation_source",
    make: async (place, made) => {
      const installation = await parent("agent_installations/{installation}", place, made);
      const path = `/api/v1/agent_installations/${installation}/installation_sources`;
      return (await post(place.asDeveloper, path, aSource(place), 200)).id;
    },
  },
  "work_items/{work_item}": byNoRoute("work_item", aWorkItem),
  "agent_working_memory/{entry}": byNoRoute("working_memory_entry", aMemory),
  "agent_health_actions/{health_action}": byNoRoute("agent_health_action", aHealthAction),
  "agent_tools/{tool}": child("agent_tool", "agent_tools", aTool),
  "agent_sessions/{agent_session}": aSession,
  "tool_calls/{tool_call}": ofSession("tool_call", WAITS),
  "trajectories/{trajectory}": ofSession("trajectory", HISTORY),
  "events/{event}": {
    kind: "event",
    make: async (place) => {
      const body = { ...anEvent(place), org: place.org };
      return (await post(place.asDeveloper, "/api/v1/events", body)).id;
    },
  },
  "event_subscriptions/{subscription}": aSubscription,
  "webhook_endpoints/{endpoint}": aWebhookEndpoint,
  "webhook_deliveries/{delivery}": {
    kind: "webhook_delivery",
    make: async (place, made) => {
      const endpoint = await parent("webhook_endpoints/{endpoint}", place, made);
      return found(place, "select id from data.webhook_deliveries where endpoint_id = $1", endpoint);
    },
  },
  "event_subscription_deliveries/{delivery}": {
    kind: "event_subscription_delivery",
    make: async (place, made) =>
      (await deliveriesOf(place, await parent("event_subscriptions/{subscription}", place, made)))[0].delivery_id,
  },
  "oauth_clients/{client}": {
    kind: "oauth_client",
    make: async (place) => (await post(place.asDeveloper, `${place.at}/oauth_clients`, anOauthClient(place))).id,
  },
  "sso/{app}": { kind: "app", make: async (place) => place.app },
  "-/{org}": { kind: "org", make: (place) => withSso(place, place.org) },
  "inbound_webhooks/{webhook}": { kind: "inbound_webhook", make: async (place) => (await aHook(place)).id },
  "webhook_receipts/{receipt}": {
    kind: "webhook_receipt",
    make: async (place) => found(place, RECEIPT, (await aHook(place)).id),
  },
  "domains/{domain}": {
    kind: "org_domain",
    make: async (place, made) => {
      const body = { domain: `${unique(place.word)}.example`, verified: true };
      return (await post(place.asDeveloper, `${place.at}/orgs/${orgOf(place, made)}/domains`, body)).id;
    },
  },
  "invitations/{invitation}": {
    kind: "invitation",
    make: async (place, made) => {
      const path = `${place.at}/orgs/${orgOf(place, made)}/invitations`;
      const { id } = await post(place.asDeveloper, path, { email: `${unique(place.word)}@example.com` });
      // Long enough ago to be mailed again.
      await place.sql("update data.org_invitations set sent_at = now() - interval '1 hour' where id = $1", [id]);
      return id;
    },
  },
  "scim_tokens/{scim_token}": {
    kind: "scim_token",
    make: async (place, made) =>
      (await post(place.asDeveloper, `${place.at}/orgs/${orgOf(place, made)}/scim_tokens`, {})).id,
  },
  "scim_groups/{scim_group}": aGroup,
  "Users/{user}": {
    kind: "user",
    make: async (place) => {
      const email = `${unique(place.word)}@${place.word}.example`;
      const body = { name: place.word, email, org: place.org };
      const { id } = await post(place.asDeveloper, `${place.at}/users`, body);
      const scim = JSON.stringify({ userName: email });
      await place.sql("update data.users set scim = $2, role_source = 'scim' where id = $1", [id, scim]);
      return id;
    },
  },
  "Groups/{group}": aGroup,
  "hooks/{token}": { kind: "inbound_webhook", make: async (place) => (await aHook(place)).token },
  "agent_skills/{agent_skill}": {
    kind: "agent_skill",
    make: async (place, made) => {
      const agent = await parent("agents/{agent}", place, made);
      // Nobody's own: a person whose config is in use can't be deleted.
      const config = await makers["config/{config}"]!.make(place, made, null);
      return (await post(place.asDeveloper, "/api/v1/agent_skills", { agent, config })).id;
    },
  },
};

export const makerOf = (parameter: string): Maker => {
  if (!makers[parameter]) throw new Error(`give ${parameter} a maker in tests/isolation/operations.ts`);
  return makers[parameter];
};

/** Fresh rows of the place for these parameters. */
export async function makeRows(parameters: string[], place: Place, by: string | null): Promise<Values> {
  const made: Values = {};
  for (const parameter of parameters) made[parameter] = await makerOf(parameter).make(place, made, by);
  return made;
}

/** An id of the kind that no row has. */
export const absentId = (kind: Kind) => `${kinds[kind].prefix}_${"0".repeat(21)}1`;
/** An absent row for each parameter. */
export const ABSENT: Values = Object.fromEntries(
  Object.entries(makers).map(([parameter, { kind }]) => [parameter, absentId(kind)]),
);

/** One that is sent again. */
const SAME_SECRET = aSecret();

const aChat = ({ word }: Place) => ({ messages: [{ role: "user", content: word }], opts: { model: "scripted/echo" } });

const aConnection = ({ word }: Place) => ({
  ...{ provider: "oidc", issuer_url: `https://${word}.example`, client_id: word, client_secret: aSecret() },
});

/** A body for each operation that takes one, such that a row of the place comes of it. */
export const samples: Record<string, (place: Place) => object> = {
  "PATCH /protected/api/v2/developer/apps/{app_id}": () => ({ name: "An app" }),
  "POST /protected/api/v2/developer/apps/{app_id}/keys": () => ({ type: "secret" }),
  "POST /protected/api/v2/developer/apps/{app_id}/orgs": ({ word }) => {
    const slug = unique(word);
    return { name: slug, slug, domain: `${slug}.example` };
  },
  "PATCH /protected/api/v2/developer/apps/{app_id}/orgs/{org}": ({ word }) => ({ description: word }),
  "PUT /protected/api/v2/developer/apps/{app_id}/orgs/{id}/sso": aConnection,
  "PUT /api/v1/orgs/{org_id}/sso": aConnection,
  "POST /protected/api/v2/developer/apps/{app_id}/users": ({ word, org }) => ({
    email: `${unique(word)}@example.com`,
    org,
  }),
  "PATCH /protected/api/v2/developer/apps/{app_id}/users/{user}": ({ word }) => ({ alias: word }),
  "POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/tokens": () => ({}),
  "POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/login_tokens": ({ word }) => ({
    ...{ impersonate: true, reason: word },
  }),
  "POST /protected/api/v2/developer/apps/{app_id}/oauth_clients": anOauthClient,
  "PATCH /protected/api/v2/developer/apps/{app_id}/oauth_clients/{client}": ({ word }) => ({ name: `${word}, again` }),
  "POST /oauth/token": () => ({ grant_type: "refresh_token", refresh_token: "x" }),
  "POST /oauth/revoke": () => ({ token: "x" }),
  "POST /oauth/device/authorize": () => ({ client: "x" }),
  "POST /oauth/device/approve": () => ({ user_code: "BCDF-GHJK" }),
  "POST /oauth/device/deny": () => ({ user_code: "BCDF-GHJK" }),
  "POST /api/v1/sandboxes": () => ({ name: "A sandbox", slug: unique("box") }),
  "POST /api/v1/sandboxes/{sandbox}/keys": () => ({ type: "secret" }),
  "PUT /api/v1/users/{user}/profile": ({ word }) => ({ alias: word }),
  ...Object.fromEntries(
    PUBLIC.filter((name) => name.startsWith("POST /api/v1/auth/")).map((name) => [name, () => ({})]),
  ),
  "PUT /api/v1/users/{user}/password": () => ({ password: "correct horse battery" }),
  "POST /api/v1/users/{user}/tokens": ({ word }) => ({ name: word, expires_in_days: 7 }),
  "POST /api/v1/agents": ({ word }) => ({ name: word }),
  "PATCH /api/v1/agents/{agent}": ({ word }) => ({ description: word }),
  "POST /api/v1/config": aConfig,
  "POST /api/v1/config/validate": aConfig,
  "POST /api/v1/config/encrypt_secret": () => ({ plaintext: "a secret" }),
  "PATCH /api/v1/config/{config}": ({ word }) => ({ ...aSkill(word), lookup_key: null }),
  "PUT /api/v1/config/{config}": ({ word }) => aSkill(word),
  "POST /api/v1/config/{config}/archive": () => ({}),
  "POST /api/v1/config/{config}/unarchive": () => ({}),
  "POST /api/v1/config/{config}/change_owner": () => ({ system: true }),
  "POST /api/v1/agents/{agent}/agent_tools": aTool,
  "PATCH /api/v1/agent_tools/{tool}": ({ word }) => ({ description: `${word}, again` }),
  "POST /api/v1/agent_skills": ({ rows }) => ({ agent: rows["agents/{agent}"], config: rows["config/{config}"] }),
  "PATCH /api/v1/agent_skills/{agent_skill}": ({ word }) => ({ instruction: word }),
  "POST /api/v1/agents/{agent}/agent_computers": ({ word }) => ({ name: word }),
  "POST /api/v1/agent_computers/{computer}/exec": () => ({ command: "true" }),
  "POST /api/v1/agents/{agent}/agent_env_vars": anEnvVar,
  "PATCH /api/v1/agent_env_vars/{env_var}": () => ({ value: SAME_SECRET }),
  "POST /api/v1/agents/{agent}/agent_routines": ({ word }) => anInvocable(word),
  "PATCH /api/v1/agent_routines/{routine}": ({ word }) => ({ description: word }),
  "POST /api/v1/agent_routines/{routine}/invoke": ({ word }) => ({ message: word }),
  "POST /api/v1/agents/{agent}/schedules/{schedule}/run": () => ({}),
  "POST /api/v1/agents/{agent}/schedules/{schedule}/backfill": lastDay,
  "POST /api/v1/agent_routines/{routine}/run": () => ({}),
  "POST /api/v1/agent_routines/{routine}/backfill": lastDay,
  "POST /api/v1/agents/{agent}/schedules": ({ word }) => daily(word),
  "PATCH /api/v1/agents/{agent}/schedules/{schedule}": ({ word }) => ({ instructions: `${word}, again` }),
  "POST /api/v1/agents/{agent}/agent_installations": ({ word }) => ({
    ...{ kind: "integration/github", lookup_key: unique(word) },
    integration: { access_token: aSecret(), refresh_token: aSecret(), workspace_key: aSecret() },
  }),
  "POST /api/v1/agent_installations/{installation}/suspend": ({ word }) => ({ reason: word }),
  "POST /api/v1/agent_installations/{installation}/installation_sources": aSource,
  "PATCH /api/v1/agents/{agent}/agent_working_memory/{entry}": ({ word }) => ({ value: word }),
  "POST /api/v1/agent_sessions": ({ rows, word }) => ({
    ...{ agent: rows["agents/{agent}"], instructions: word, start_idle: true },
  }),
  "PATCH /api/v1/agent_sessions/{agent_session}": ({ word }) => ({ metadata: { about: word } }),
  "POST /api/v1/agent_sessions/{agent_session}/message": ({ word }) => ({ content: word }),
  "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/approve": ({ word }) => ({
    ...{ arguments_hash: NO_ARGUMENTS, note: word },
  }),
  "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/deny": () => ({ arguments_hash: NO_ARGUMENTS }),
  "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/resolve": () => ({ outcome: "retry" }),
  ...Object.fromEntries(
    ["agent_routines/runs/{run}", "automation_runs/{automation_run}"].flatMap((run) => [
      ...["approve", "deny"].map((verb) => [
        `POST /api/v1/${run}/commands/{command}/${verb}`,
        () => ({ arguments_hash: NO_ARGUMENTS }),
      ]),
      [`POST /api/v1/${run}/commands/{command}/resolve`, () => ({ outcome: "retry" })],
    ]),
  ),
  "POST /api/v1/automations/{automation}/invoke": ({ word }) => ({ payload: { about: word } }),
  "POST /api/v1/agents/{agent}/work_items/claim": ({ word }) => ({ lease_owner: word }),
  "POST /api/v1/work_items/{work_item}/start": () => ({ lease_owner: LEASE_OWNER }),
  "POST /api/v1/work_items/{work_item}/heartbeat": () => ({ lease_owner: LEASE_OWNER, lease_seconds: 60 }),
  "POST /api/v1/work_items/{work_item}/submit": ({ word }) => ({ lease_owner: LEASE_OWNER, result: { about: word } }),
  "POST /api/v1/work_items/{work_item}/fail": ({ word }) => ({ lease_owner: LEASE_OWNER, error: { about: word } }),
  "POST /api/v1/events": anEvent,
  "POST /api/v1/event_subscriptions": ({ word }) => ({ name: word, event_names: ["custom.walk"] }),
  "PATCH /api/v1/event_subscriptions/{subscription}": ({ word }) => ({ name: `${word}, again` }),
  "POST /api/v1/event_subscriptions/{subscription}/claim": () => ({ max_events: 1 }),
  "POST /api/v1/event_subscription_deliveries/{delivery}/acknowledge": () => ({ receipt_handle: "x" }),
  "POST /api/v1/inbound_webhooks": ({ word }) => ({ name: word, provider: "url" }),
  "PATCH /api/v1/inbound_webhooks/{webhook}": ({ word }) => ({ name: `${word}, again` }),
  "POST /api/v1/inbound_webhooks/{webhook}/rotate_secret": () => ({}),
  ...Object.fromEntries(
    ["/protected/api/v2/developer/apps/{app_id}/orgs/{org}", "/api/v1/orgs/{org}"].flatMap((at) => [
      [`POST ${at}/domains`, ({ word }: Place) => ({ domain: `${unique(word)}.example` })],
      [`POST ${at}/invitations`, (place: Place) => ({ email: anEmail(place) })],
      [`PATCH ${at}/scim_groups/{scim_group}`, () => ({ role: "viewer" })],
    ]),
  ),
  "POST /api/v1/users/{user}/invites": ({ word }) => ({ invite: { metadata: { about: word } } }),
  "POST /api/v1/invites/accept": () => ({ key: "nobody's" }),
  "POST /api/v1/invitations/accept": () => ({ key: "nobody's" }),
  "POST /scim/v2/Users": (place) => ({ userName: anEmail(place) }),
  "PUT /scim/v2/Users/{user}": (place) => ({ userName: anEmail(place) }),
  "PATCH /scim/v2/Users/{user}": () => ({ Operations: [{ op: "replace", path: "active", value: false }] }),
  "POST /scim/v2/Groups": ({ word }) => ({ displayName: unique(word) }),
  "PUT /scim/v2/Groups/{group}": ({ word }) => ({ displayName: unique(word) }),
  "PATCH /scim/v2/Groups/{group}": () => ({ Operations: [{ op: "remove", path: "members" }] }),
  "POST /api/v1/webhook_endpoints": aWebhook,
  "PATCH /api/v1/webhook_endpoints/{endpoint}": () => ({ ordering: "strict" }),
  "POST /api/v1/webhook_endpoints/{endpoint}/rotate_secret": () => ({ overlap_seconds: 0 }),
  "POST /api/v1/webhook_endpoints/{endpoint}/replay": () => ({
    from: "2026-01-01T00:00:00Z",
    to: "2100-01-01T00:00:00Z",
  }),
  "POST /api/v1/scripts/validate": () => ({ script: "1" }),
  // All that a script sees of the place: that it sees nothing else, the walk looks at the answer for.
  "POST /api/v1/scripts/run": () => ({
    script: "[unwrap(agents.list({ page_size: 100 })).data, unwrap(users.list({ page_size: 100 })).data]",
  }),
  "POST /api/v1/scripts/test": () => ({ script: "1" }),
  "POST /api/v1/workflows/expressions/validate": () => ({ expression: "1" }),
  "POST /api/v1/workflows/expressions/run": () => ({ expression: "1" }),
  "POST /api/v1/workflows/graph/validate": () => ({ graph: {} }),
  // As a script: all that it sees of the place.
  "POST /api/v1/workflows/run": () => ({
    graph: {
      ...{ start_node: "see", nodes: [{ kind: "WorkflowScript", id: "see", script: "see" }] },
      data: [{ kind: "Script", id: "see", script: "unwrap(agents.list({ page_size: 100 })).data" }],
    },
  }),
  "POST /api/v1/ai/chat/completions": aChat,
  "POST /api/v1/ai/chat/completions/stream": aChat,
  "POST /api/v1/ai/image/generations": ({ word }) => ({ prompt: word }),
  "POST /api/v1/ai/image/edits": ({ word }) => ({
    prompt: word,
    images: [{ image_data: "iVBORw0KGgo=", image_type: "image/png" }],
  }),
  "POST /api/v1/ai/embedding/similarity_comparison": ({ word }) => ({ text_a: word, text_b: word }),
  "POST /api/v1/ai/evaluation/evaluations": ({ word }) => ({
    ...{ model: "scripted/script", state: `${word}\n\`\`\`script\n[{"text": "{\\"q1\\": 1}"}]\n\`\`\`` },
    questions: [{ type: "boolean", id: "is", instructions: word }],
  }),
};

/**
 * Names in queries and bodies that look like references, but that no row stands behind: there are no threads yet, and a
 * session of chats is any word that groups them.
 */
export const NOT_ROWS = [
  "client_id",
  "consumer_id",
  "correlation_id",
  "dedupe_key",
  "entity_id",
  "idempotency_key",
  "is_system_user",
  "key",
  "lookup_key",
  "request_id",
  "session_id",
  "session_key",
  "thread_id",
];

/** Names that mean a config, and don't say so: of each, tests/isolation/configs.ts knows which kind. */
const CONFIGS = ["parent", "parents", "parent_solution", "parent_solutions", "template"];

/**
 * The kind of row that a name in a query or a body means: the kind's own name, or one that ends in it, as
 * `run_as_user`. "unknown": it ends as an id does, and the walk must be told of what. A kind without a table has no
 * rows to mean.
 */
export function referenceOf(name: string): Kind | "unknown" | null {
  if (NOT_ROWS.includes(name)) return null;
  if (CONFIGS.includes(name.replace(/\[\]$/, ""))) return "config";
  const word = name.replace(/\[\]$/, "").replace(/_ids?$/, "");
  const isMeant = (kind: Kind) => word === kind || word.endsWith(`_${kind}`);
  const kind = (Object.keys(kinds) as Kind[]).find(isMeant);
  if (!kind) return /_ids?(\[\])?$/.test(name) ? "unknown" : null;
  return kinds[kind].table === null ? null : kind;
}

export type Operation = {
  name: string;
  method: string;
  path: string;
  permission: string | undefined;
  /** Their keys, in the order of the address. */
  parameters: string[];
  /** Names in the query that take a row's id, as the document spells them. */
  query: string[];
  /** All fields of the body; null where the operation takes none. */
  body: string[] | null;
  /** Whether it keeps an `Idempotency-Key`. */
  keyed: boolean;
  success: number;
};

type Schema = { properties?: Record<string, unknown> };
type Described = {
  "x-permission"?: string;
  parameters?: { in: string; name: string }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, unknown>;
};

/** Every operation of the document of the system as deployed; the others run the same routers. */
async function readOperations(): Promise<Operation[]> {
  const document = (await (await fetch(`${system.base}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Described>>;
  };
  return Object.entries(document.paths).flatMap(([template, item]) =>
    Object.entries(item).map(([verb, described]): Operation => {
      const method = verb.toUpperCase();
      const path = Object.entries(WORDS).reduce((path, [key, word]) => path.replace(key, word), template);
      return {
        name: `${method} ${template}`,
        method,
        path,
        permission: described["x-permission"],
        parameters: parametersOf(path),
        query: (described.parameters ?? []).filter((one) => one.in === "query").map((one) => one.name),
        body: described.requestBody
          ? Object.keys(described.requestBody.content["application/json"]?.schema.properties ?? {})
          : null,
        keyed: (described.parameters ?? []).some(({ name }) => name === "Idempotency-Key"),
        success: WITHOUT_PROVIDER.includes(`${method} ${template}`)
          ? 422
          : (NOT_READY[`${method} ${template}`] ??
            Number(Object.keys(described.responses).find((status) => status.startsWith("2")))),
      };
    }),
  );
}

export const operations = await readOperations();
/** Those that ask for a permission. */
export const guarded = operations.filter(({ name }) => !PUBLIC.includes(name));

/** The address with these values in the place of its parameters. */
export function addressOf({ name, path, parameters }: Operation, values: Values): string {
  let at = 0;
  return path.replace(/\{\w+\}/g, () => values[parameters[at++]!] ?? "") + (QUERIES[name] ?? "");
}

/** The body that the operation is asked with, where it takes one. */
export function bodyOf({ name, body }: Operation, { home }: { home: Place }): object | undefined {
  if (!body) return undefined;
  if (!samples[name]) throw new Error(`give the body of ${name} a sample in tests/isolation/operations.ts`);
  return samples[name](home);
}
