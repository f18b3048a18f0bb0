/**
 * What the isolation tests know of each route: a maker for every id parameter and a sample for every body. A new
 * route asks for one by failing; `PUBLIC` may only get shorter.
 */
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
];

/** Routes that a secret key may ask, but not of a sandbox: 403 once all else is well. */
export const PRODUCTION_ONLY = ["PATCH /protected/api/v2/developer/apps/{app_id}", "POST /api/v1/sandboxes"];

/** Routes for a person, which no key can be: 403 `no_user`, whatever else the key is. */
export const PERSON_ONLY = ["GET /api/v1/users/me"];

/** What a sandbox's key can do to its own sandbox only once: the walk leaves it standing. */
export const SPENDS_ITSELF = ["DELETE /api/v1/sandboxes/{sandbox}"];

type Made = Record<string, string>;
/** `by` is the person who will ask; null for a developer. */
type Maker = (place: Place, made: Made, by: string | null) => Promise<string>;

const aUser = async (place: Place): Promise<string> =>
  (await post(place.asDeveloper, `${place.at}/users`, { name: place.word, org: place.org })).id;

/** A fresh row of the place for each id parameter, in the order of the address; `made` are those before it. */
export const makers: Record<string, Maker> = {
  app_id: async (place) => place.app,
  org: async (place) => {
    const slug = unique(place.word);
    return (await post(place.asDeveloper, `${place.at}/orgs`, { name: slug, slug, domain: `${slug}.example` })).id;
  },
  // A person may name only itself where it matters; a developer anybody.
  user: async (place, _, by) => by ?? aUser(place),
  user_id: aUser,
  token: async (place, { user }) => (await aToken(place, user!)).id,
  token_id: async (place, { user_id }) => (await aToken(place, user_id!)).id,
  key: async (place) => (await post(place.asDeveloper, `${place.at}/keys`, { type: "publishable" })).id,
  sandbox: async (place) => place.sandbox ?? (await aSandbox(place.asDeveloper)).id,
  agent: async (place) => {
    const body = { name: place.word, lookup_key: unique(place.word), org: place.org };
    return (await must(place.asDeveloper("POST", "/api/v1/agents", body), 200)).id;
  },
};

/** A body for each operation that takes one, such that a row of the place comes of it. */
export const samples: Record<string, (place: Place) => object> = {
  "PATCH /protected/api/v2/developer/apps/{app_id}": () => ({ name: "An app" }),
  "POST /protected/api/v2/developer/apps/{app_id}/keys": () => ({ type: "secret" }),
  "POST /protected/api/v2/developer/apps/{app_id}/orgs": ({ word }) => {
    const slug = unique(word);
    return { name: slug, slug, domain: `${slug}.example` };
  },
  "PATCH /protected/api/v2/developer/apps/{app_id}/orgs/{org}": ({ word }) => ({ description: word }),
  "POST /protected/api/v2/developer/apps/{app_id}/users": ({ word, org }) => ({
    email: `${unique(word)}@example.com`,
    org,
  }),
  "PATCH /protected/api/v2/developer/apps/{app_id}/users/{user}": ({ word }) => ({ alias: word }),
  "POST /protected/api/v2/developer/apps/{app_id}/users/{user_id}/tokens": () => ({}),
  "POST /api/v1/sandboxes": () => ({ name: "A sandbox", slug: unique("box") }),
  "POST /api/v1/sandboxes/{sandbox}/keys": () => ({ type: "secret" }),
  "PUT /api/v1/users/{user}/profile": ({ word }) => ({ full_name: word }),
  "POST /api/v1/users/{user}/tokens": ({ word }) => ({ name: word, expires_in_days: 7 }),
  "POST /api/v1/agents": ({ word }) => ({ name: word }),
  "PATCH /api/v1/agents/{agent}": ({ word }) => ({ description: word }),
  "POST /api/v1/scripts/validate": () => ({ script: "1" }),
  // All that a script sees of the place: that it sees nothing else, the walk looks at the answer for.
  "POST /api/v1/scripts/run": () => ({
    script: "[unwrap(agents.list({ page_size: 100 })).data, unwrap(users.list({ page_size: 100 })).data]",
  }),
  "POST /api/v1/scripts/test": () => ({ script: "1" }),
};

/**
 * Names in queries and bodies that mean a row of some tenant, by the maker whose rows they take. A name that isn't
 * here and could be one makes the walk fail.
 */
export const references: Record<string, string> = {
  ...{ org: "org", org_id: "org", user: "user", agent: "agent" },
  ...{ run_as_user: "user", run_as_agent: "agent" },
};

/** Names that look like references, but that no row stands behind. */
export const NOT_ROWS = ["correlation_id", "is_system_user", "lookup_key"];

export type Operation = {
  name: string;
  method: string;
  path: string;
  permission: string | undefined;
  parameters: string[];
  /** Names in the query that take a row's id, as the document spells them. */
  query: string[];
  /** All fields of the body; null where the operation takes none. */
  body: string[] | null;
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
export async function readOperations(): Promise<Operation[]> {
  const document = (await (await fetch(`${system.base}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Described>>;
  };
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([verb, described]): Operation => {
      const method = verb.toUpperCase();
      return {
        name: `${method} ${path}`,
        method,
        path,
        permission: described["x-permission"],
        parameters: [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!),
        query: (described.parameters ?? []).filter((one) => one.in === "query").map((one) => one.name),
        body: described.requestBody
          ? Object.keys(described.requestBody.content["application/json"]?.schema.properties ?? {})
          : null,
        success: Number(Object.keys(described.responses).find((status) => status.startsWith("2"))),
      };
    }),
  );
}

/** The address with these values in the place of its parameters. */
export const addressOf = ({ path }: Operation, values: Made) =>
  path.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
