/** What is measured: each operation of the product, and the same asked of bench/floor.ts. */
import type { Request } from "./load.ts";
import type { Product } from "./system.ts";

export type Operation = { name: string; group: string; product: Request[]; floor: Request[] };
export const MINT = "mint a token";

export function operationsOf({ app, key, secret_key, people }: Product): Operation[] {
  const developer = `/protected/api/v2/developer/apps/${app}`;
  const as = (credential: string) => ({ Authorization: `Bearer ${credential}` });
  const each = (request: (person: Product["people"][number], query: string) => Request) =>
    people.map((person) => {
      const { org, user, token } = person;
      return request(person, new URLSearchParams({ app, org, user, token }).toString());
    });
  const body = '{"name":"Agent {n}","identity":"You answer what customers ask.","metadata":{"team":"support"}}';
  const org = '{"name":"Org {n}","slug":"bench-{n}","domain":"bench-{n}.example"}';
  return [
    {
      name: MINT,
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
      group: "agents",
      product: each(({ access_token }) => ({
        method: "GET",
        path: "/api/v1/agents?page_size=20",
        headers: as(access_token),
      })),
      floor: each((_, query) => ({ method: "GET", path: `/agents?page_size=20&${query}` })),
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
