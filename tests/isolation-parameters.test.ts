/** What a parameter's key means: one thing, in the document and in the whole of the public contract. */
import { describe, expect, it } from "vitest";
import { hasContract, readContract } from "./harness/contract.ts";
import { addressOf, operations, parametersOf } from "./isolation/operations.ts";

type Described = { method: string; path: string; path_params: string[]; response: { schema: string | null } };

it.each([
  ["/api/v1/agents", []],
  ["/api/v1/users/{user}/tokens/{token}", ["users/{user}", "tokens/{token}"]],
  ["/x/apps/{app_id}/users/{user_id}/tokens/{token_id}", ["apps/{app_id}", "users/{user_id}", "tokens/{token_id}"]],
  ["/api/v1/agents/{agent}/work_items/claim", ["agents/{agent}"]],
  ["/api/v1/definitions/{app_id}/{service}/x", ["definitions/{app_id}", "definitions/{app_id}/{service}"]],
])("the keys of %s", (path, keys) => {
  expect(parametersOf(path)).toEqual(keys);
});

it("each value goes to its own place in an address, though two parameters bear one name", () => {
  const path = "/api/v1/teams/{id}/members/{id}";
  const values = { "members/{id}": "two", "teams/{id}": "one" };
  expect(addressOf({ ...operations[0]!, path, parameters: parametersOf(path) }, values)).toBe(
    "/api/v1/teams/one/members/two",
  );
});

describe.runIf(hasContract)("over the contract's operations", () => {
  const contract = hasContract ? (readContract("operations.json") as Described[]) : [];

  it("has a key for every parameter, in its order, and never the same for two of one address", () => {
    expect(contract.length).toBe(373);
    for (const { path, path_params } of contract) {
      const keys = parametersOf(path);
      expect(keys.map((key) => key.match(/\{(\w+)\}$/)?.[1])).toEqual(path_params);
      expect(new Set(keys).size, path).toBe(keys.length);
    }
  });

  it("means one thing by a key, as the answers to GET tell it", () => {
    const shown = Map.groupBy(
      contract.filter(({ method, path, response }) => method === "GET" && path.endsWith("}") && response.schema),
      ({ path }) => parametersOf(path).at(-1)!,
    );
    const schemas = [...shown].map(([key, gets]) => [key, new Set(gets.map(({ response }) => response.schema)).size]);
    expect(schemas.length).toBeGreaterThan(30);
    expect(schemas.filter(([, size]) => size !== 1)).toEqual([]);
  });

  it("keeps apart the things that bear one name, of which these are all", () => {
    const keys = new Set([...contract, ...operations].flatMap(({ path }) => parametersOf(path)));
    const byName = Map.groupBy(keys, (key) => key.match(/\{(\w+)\}$/)![1]!);
    const shared = [...byName].filter(([, keys]) => keys.length > 1).map(([name, keys]) => [name, keys.sort()]);
    expect(Object.fromEntries(shared)).toEqual({
      // The developer's app; the app that defines a service.
      app_id: ["apps/{app_id}", "private_service_definitions/{app_id}"],
      // What a queue hands out; what an endpoint is sent.
      delivery: ["event_subscription_deliveries/{delivery}", "webhook_deliveries/{delivery}"],
      // A secret key; a name in the key-value store.
      key: ["keys/{key}", "kv/{key}"],
      // An org; the one whose SSO an address of production is.
      org: ["-/{org}", "orgs/{org}"],
      private_service_id: [
        "private_service_definitions/{app_id}/{private_service_id}",
        "private_services/{private_service_id}",
      ],
      source: ["installation_sources/{source}", "knowledge_sources/{source}"],
      // What the address of an inbound webhook ends with; what an invited developer was sent; an access token.
      token: ["hooks/{token}", "invites/{token}", "tokens/{token}"],
      // A user as its provider sees it; as a member of a team; a user.
      user: ["Users/{user}", "members/{user}", "users/{user}"],
    });
  });
});
