/** What the document says of all operations alike, made without a running system. */
import { findTargetHandler } from "hono/utils/handler";
import { expect, it } from "vitest";
import { groups } from "../../../functions/groups.ts";
import { describe as describeApp } from "../../../lib/http/openapi.ts";
import { part } from "../../../lib/http/spec.ts";
import { worker } from "../../../lib/http/worker.ts";
import { kinds } from "../../../lib/kinds.ts";

const routers = Object.values(groups).flat();
const document: any = await describeApp(worker(...routers));
const operations: [name: string, operation: any][] = Object.entries<object>(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]): [string, any] => [`${method.toUpperCase()} ${path}`, operation]),
);
const operationOf = (name: string) => operations.find(([found]) => found === name)![1];

it("names each operation as a person would", () => {
  const summaries = Object.fromEntries(operations.map(([name, { summary }]) => [name, summary]));
  expect(summaries).toMatchObject({
    "GET /protected/api/v2/developer/apps": "List apps",
    "PATCH /protected/api/v2/developer/apps/{app_id}": "Update an app",
    "DELETE /protected/api/v2/developer/apps/{app_id}/keys/{key}": "Revoke a key",
    "GET /protected/api/v2/developer/apps/{app_id}/orgs": "List orgs",
    "GET /protected/api/v2/developer/apps/{app_id}/orgs/{org}": "Get an org",
    "POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/tokens": "Create a token of a user",
    "POST /api/v1/sandboxes/{sandbox}/keys": "Create a key of a sandbox",
    "DELETE /api/v1/sandboxes/{sandbox}": "Delete a sandbox",
    "GET /api/v1/users/me": "Get the current user",
    "GET /api/v1/users/{user}/orgs": "List orgs of a user",
    "GET /api/v1/orgs": "List orgs",
    "POST /api/v1/agents": "Create an agent",
    "POST /api/v1/auth/refresh": "Refresh a sign-in",
    "GET /api/v1/scripts/llm.txt": "Describe the script language to a model",
  });
});

it("makes no name of an address whose noun is no kind: such a route says its own", () => {
  const names = Object.values(kinds).flatMap(({ name, table }) => [`an? ${name}`, ...(table ? [table] : [])]);
  const made = new RegExp(`^(List|Get|Create|Set|Update|Delete|Revoke) (${names.join("|")})( of an? \\w+)?$`);
  const given = new Set(
    routers
      .flatMap(({ routes }) => routes)
      .map(({ handler }) => (findTargetHandler(handler) as any)[part]?.spec?.summary)
      .filter(Boolean),
  );
  expect(given.size).toBeGreaterThan(5);
  const unnamed = operations.filter(([, { summary }]) => !given.has(summary) && !made.test(summary));
  expect(unnamed.map(([name, { summary }]) => `${name}: ${summary}`)).toEqual([]);
});

/** What is the same however often it is asked for: a state that a row is brought to, a look at how things stand. */
const REPEATS =
  /\/(activate|deactivate|pause|resume|cancel|suspend|archive|unarchive|change_owner|verify|skip|reopen|refresh|validate)$/;

it("promises an Idempotency-Key on the POSTs that keep it, and on no other", () => {
  const promising = (of: any) => of.parameters?.some(({ name }: any) => name === "Idempotency-Key") === true;
  const without = operations
    .filter(([name, of]) => name.startsWith("POST ") && !promising(of))
    .flatMap(([name]) => (REPEATS.test(name) ? [] : [name]));
  expect(without).toEqual([
    // One more, which nobody else has seen.
    "POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/login_tokens",
    // What a key works for once: again, it is a 404 or a 409; and what is mailed once a minute.
    "POST /protected/api/v2/developer/apps/{app_id}/orgs/{org}/invitations/{invitation}/resend",
    // It only says where.
    "POST /protected/api/v2/developer/apps/{app_id}/orgs/{id}/sso/test",
    // A mail more, or a sign-in more: what is used up works once, and no answer that holds a credential is kept.
    ...[
      "login/code",
      "register/code",
      "login/link",
      "register/link",
      "request/link",
      "verify/link",
      "login",
      "register",
      "token",
    ].map((what) => `POST /api/v1/auth/${what}`),
    // What comes in works once, or changes nothing a second time.
    "POST /oauth/token",
    "POST /oauth/revoke",
    "POST /oauth/device/authorize",
    "POST /oauth/device/approve",
    "POST /oauth/device/deny",
    // A response is taken once.
    "POST /sso/{app}/{sandbox}/{org}/acs",
    "POST /sso/{app}/{sandbox}/{org}/slo",
    "POST /sso/{app}/{sandbox}/{org}/logout",
    "POST /sso/{app}/{sandbox}/{org}/backchannel",
    "POST /api/v1/orgs/{org}/invitations/{invitation}/resend",
    "POST /api/v1/invites/accept",
    "POST /api/v1/invitations/accept",
    "POST /api/v1/orgs/{org_id}/sso/test",
    // A lease's owner is known by its name: what it says again changes nothing.
    "POST /api/v1/agents/{agent}/work_items/claim",
    // Decided once: again, it is a 409.
    ...["approve", "deny", "resolve"].map(
      (verb) => `POST /api/v1/automation_runs/{automation_run}/commands/{command}/${verb}`,
    ),
    "POST /api/v1/agent_routines/runs/{run}/commands/{command}/approve",
    "POST /api/v1/agent_routines/runs/{run}/commands/{command}/deny",
    "POST /api/v1/agent_routines/runs/{run}/commands/{command}/resolve",
    "POST /api/v1/work_items/{work_item}/start",
    "POST /api/v1/work_items/{work_item}/heartbeat",
    "POST /api/v1/work_items/{work_item}/submit",
    "POST /api/v1/work_items/{work_item}/fail",
    // Nothing is made: a text comes back sealed.
    "POST /api/v1/config/encrypt_secret",
    "POST /api/v1/scripts/test",
    "POST /api/v1/workflows/expressions/run",
    // Nothing is kept to be answered again: a model says something else each time.
    "POST /api/v1/ai/chat/completions",
    "POST /api/v1/ai/chat/completions/stream",
    "POST /api/v1/ai/image/generations",
    "POST /api/v1/ai/image/edits",
    "POST /api/v1/ai/embedding/similarity_comparison",
    "POST /api/v1/ai/evaluation/evaluations",
    // Decided once: again, it is a 409.
    "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/approve",
    "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/deny",
    "POST /api/v1/agent_sessions/{agent_session}/tool_calls/{tool_call}/resolve",
    // A lease, which `request_id` renews; and once out of a queue is out of it.
    "POST /api/v1/event_subscriptions/{subscription}/claim",
    "POST /api/v1/event_subscription_deliveries/{delivery}/acknowledge",
    // Once while both go on: again, it is a 409.
    "POST /api/v1/inbound_webhooks/{webhook}/rotate_secret",
    // A provider has a name of its own for what it sends again.
    "POST /hooks/{token}",
    // The state that it comes to once is there; what was sent before is sent again under its own id.
    "POST /api/v1/webhook_endpoints/{endpoint}/rotate_secret",
    "POST /api/v1/webhook_endpoints/{endpoint}/test",
    "POST /api/v1/webhook_endpoints/{endpoint}/enable",
    "POST /api/v1/webhook_endpoints/{endpoint}/replay",
    "POST /api/v1/webhook_deliveries/{delivery}/replay",
    // A provider has a name of its own for each: again, it is a 409.
    "POST /scim/v2/Users",
    "POST /scim/v2/Groups",
  ]);
  expect(operations.filter(([name, of]) => !name.startsWith("POST ") && promising(of))).toEqual([]);
  expect(Object.keys(operationOf("POST /api/v1/agents").responses)).toContain("404");
  expect(Object.keys(operationOf("POST /api/v1/scripts/validate").responses)).not.toContain("404");
});

const bodyOf = (name: string) => operationOf(name).requestBody.content["application/json"].schema.properties;

it("says of a list how long it may be and what is in it", () => {
  expect(bodyOf("POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/tokens").scopes).toEqual({
    type: "array",
    items: { type: "string" },
    minItems: 1,
    maxItems: 200,
    default: ["full_access"],
  });
  const { grants } = bodyOf("POST /api/v1/agents").acl.anyOf[0].properties;
  expect(grants.anyOf[0]).toMatchObject({ type: "array", maxItems: 200 });
  expect(grants.anyOf[0].items.properties.actions).toMatchObject({ maxItems: 20, items: { maxLength: 64 } });
  const { parameters } = operationOf("GET /api/v1/activity_feed");
  expect(parameters.find(({ name }: any) => name === "agent[]").schema).toMatchObject({ type: "array", maxItems: 100 });
});

it("says what a body may have, and a part of it that may hold more", () => {
  expect(operationOf("POST /api/v1/agents").responses[413].description).toContain("8,000,000");
  expect(operationOf("POST /api/v1/auth/refresh").responses[413].description).toContain("2,048");
  expect(bodyOf("POST /api/v1/scripts/run").scope).toMatchObject({ "x-max-values": 100_000 });
});
