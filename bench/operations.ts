/** What is measured: each operation of the product, and the same asked of bench/floor.ts. */
import type { Request } from "./load.ts";
import type { Product } from "./system.ts";

/**
 * `trips`: how many round trips the product takes; one, where nothing is said. `own_cpu_ms`: what the Worker may take of
 * a processor, besides what any Worker takes for such a fetch.
 */
export type Operation = {
  name: string;
  group: string;
  product: Request[];
  floor: Request[];
  trips?: number;
  own_cpu_ms?: number;
};
/** Requests of a large body: they go to the loading process whole. */
const FEW = 8;
export const MINT = "mint a token";

const PARAMETERS = {
  type: "object",
  properties: { order: { type: "string", description: "Its number, as on the receipt" }, lines: { type: "integer" } },
  required: ["order"],
};

/** An AgentTemplate of 100 KB: what is long in one is its tools. */
function longTemplate(): string {
  const description = "Looks up an order by its number, and says what was ordered, when, and where it is now. ".repeat(
    10,
  );
  const tools = Array.from({ length: 90 }, (_, i) => ({
    ...{ tool_type: "custom", name: `look_up_${i}`, description, parameters: PARAMETERS },
    ...{ handler_type: "http", config_ref: `look_up_${i}` },
  }));
  return JSON.stringify({ kind: "AgentTemplate", name: "Order desk", tools });
}

/** An agent with thirty resources: ten configs, and what refers to them. */
function bundleOf() {
  const each = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
  const scripts = each(6, (i) => ({
    ...{ kind: "Script", lookup_key: `script-${i}-`, mime_type: "text/plain" },
    raw_content: `let order = $.order\nlet lines = array.range(0, ${i + 5})\narray.map(lines, fn(n) { n * 2 })\n`,
  }));
  const skills = each(4, (i) => ({
    ...{ kind: "Skill", lookup_key: `skill-${i}-`, mime_type: "text/markdown" },
    raw_content: `---\nname: refunds-${i}\ndescription: How refunds are made.\n---\n${"Look at the receipt first.\n".repeat(50)}`,
  }));
  const [description, schedule] = ["Looks up an order by its number.", "0 9 * * MON-FRI"];
  return {
    template: {
      ...{ kind: "AgentTemplate", name: "Order desk", identity: "You answer what customers ask.", model: "a-model" },
      tools: each(6, (i) => ({
        ...{ tool_type: "custom", name: `look_up_${i}`, description, parameters: PARAMETERS },
        ...{ handler_type: "script", config_ref: `script-${i}-` },
      })),
      skills: each(4, (i) => ({ config_ref: `skill-${i}-` })),
      routines: each(3, (i) => ({ name: `Digest ${i}`, handler_type: "script", config_ref: `script-${i}-`, schedule })),
      schedules: each(2, () => ({
        schedule_type: "recurring",
        cron_expression: schedule,
        instructions: "Look around.",
      })),
      installations: each(2, () => ({ install_type: "archastro/knowledge" })),
      computers: each(1, () => ({ name: "Workshop" })),
      setup_actions: each(2, (i) => ({ action_type: "env_var", title: "Set the key", params: { key: `KEY_${i}` } })),
    },
    configs: [...scripts, ...skills],
    lookup_key_suffix: "{n}",
  };
}

export function operationsOf({ app, key, secret_key, people }: Product): Operation[] {
  const developer = `/protected/api/v2/developer/apps/${app}`;
  const as = (credential: string) => ({ Authorization: `Bearer ${credential}` });
  const each = (request: (person: Product["people"][number], query: string) => Request | Request[]) =>
    people.flatMap((person) => {
      const { org, user, token } = person;
      return request(person, new URLSearchParams({ app, org, user, token }).toString());
    });
  const variable = '{"key":"V_{n}","value":"a-secret-of-thirty-two-characters"}';
  const raw_content = longTemplate();
  const config = (kind: string, mime_type: string) => JSON.stringify({ kind, mime_type, raw_content });
  const bundle = JSON.stringify({ template_bundle: bundleOf() });
  const body = '{"name":"Agent {n}","identity":"You answer what customers ask.","metadata":{"team":"support"}}';
  const org = '{"name":"Org {n}","slug":"bench-{n}","domain":"bench-{n}.example"}';
  return [
    {
      name: MINT,
      own_cpu_ms: 0.5,
      group: "developer",
      product: each(({ user }) => ({
        method: "POST",
        path: `${developer}/users/${user}/tokens`,
        headers: as(secret_key),
        body: '{"scopes":["full_access"],"expires_in":3600}',
      })),
      floor: each(({ user }) => ({
        method: "POST",
        path: `/users/${user}/tokens?app=${app}&key=${key}`,
        body: '{"scopes":["full_access"],"expires_in":3600}',
      })),
    },
    {
      name: "get an agent",
      own_cpu_ms: 0.25,
      group: "agents",
      product: each(({ agent, access_token }) => ({
        method: "GET",
        path: `/api/v1/agents/${agent}`,
        headers: as(access_token),
      })),
      floor: each(({ agent }, query) => ({ method: "GET", path: `/agents/${agent}?${query}` })),
    },
    {
      name: "list 20 agents",
      own_cpu_ms: 0.5,
      group: "agents",
      product: each(({ access_token }) => ({
        method: "GET",
        path: "/api/v1/agents?page_size=20",
        headers: as(access_token),
      })),
      floor: each((_, query) => ({ method: "GET", path: `/agents?page_size=20&${query}` })),
    },
    {
      name: "get an agent with an access list",
      group: "agents",
      product: each(({ listed, access_token }) => ({
        method: "GET",
        path: `/api/v1/agents/${listed}`,
        headers: as(access_token),
      })),
      floor: each(({ listed }, query) => ({ method: "GET", path: `/agents/${listed}?${query}` })),
    },
    {
      name: "list 10 tools",
      group: "agents",
      product: each(({ agent, access_token }) => ({
        method: "GET",
        path: `/api/v1/agents/${agent}/agent_tools`,
        headers: as(access_token),
      })),
      floor: each(({ agent }, query) => ({ method: "GET", path: `/agents/${agent}/agent_tools?${query}` })),
    },
    {
      name: "create an agent",
      group: "agents",
      product: each(({ access_token }) => ({
        method: "POST",
        path: "/api/v1/agents",
        headers: as(access_token),
        body,
      })),
      floor: each((_, query) => ({ method: "POST", path: `/agents?${query}`, body })),
    },
    {
      name: "create an org",
      group: "developer",
      product: [{ method: "POST", path: `${developer}/orgs`, headers: as(secret_key), body: org }],
      floor: [{ method: "POST", path: `/orgs?app=${app}&key=${key}`, body: org }],
    },
    {
      name: "create an env var",
      group: "agents",
      product: each(({ holders, access_token }) =>
        holders.map(
          (agent): Request => ({
            method: "POST",
            path: `/api/v1/agents/${agent}/agent_env_vars`,
            headers: as(access_token),
            body: variable,
          }),
        ),
      ),
      floor: each(({ holders }, query) =>
        holders.map(
          (agent): Request => ({
            method: "POST",
            path: `/agents/${agent}/agent_env_vars?${query}`,
            body: variable,
          }),
        ),
      ),
    },
    {
      name: "save a config of 100 KB",
      group: "configs",
      product: each(({ access_token }) => ({
        method: "POST",
        path: "/api/v1/config",
        headers: as(access_token),
        body: config("AgentTemplate", "application/json"),
      })).slice(0, FEW),
      // The same text, of which nothing is judged.
      floor: each((_, query) => ({
        method: "POST",
        path: `/config?${query}`,
        body: config("File", "text/plain"),
      })).slice(0, FEW),
      // A body above 64 KB is read when the database has seen the credential.
      trips: 2,
    },
    {
      name: "install 30 resources",
      group: "agents",
      product: each(({ access_token }) => ({
        method: "POST",
        path: "/api/v1/agents",
        headers: as(access_token),
        body: bundle,
      })),
      floor: each((_, query) => ({ method: "POST", path: `/agents?${query}`, body: bundle })),
    },
  ];
}

/** Answers that need no database: what Hono costs, and what a signature costs. */
export function bareOf({ app, people }: Product): { name: string; requests: Request[] }[] {
  const { org, user, token } = people[0]!;
  const query = new URLSearchParams({ app, org, user, token });
  return [
    { name: "bare Hono", requests: [{ method: "GET", path: "/" }] },
    { name: "sign one token", requests: [{ method: "GET", path: `/sign?${query}` }] },
  ];
}
