/** A browser's cookie, sent to every route there is by a page that isn't ours. */
import { beforeAll, expect, it } from "vitest";
import { groups } from "../../functions/groups.ts";
import { aBrowser } from "../harness/browser.ts";
import { anApp, caller, must, sql, system } from "../harness/index.ts";

/** What the forms of our pages send. A new form asks for its own here, by failing. */
const FORMS: Record<string, Record<string, string>> = {
  "/login/link": { form: "x", token: "x" },
  "/login/:app": { form: "x", email: "ann@initech.example" },
  "/login/:app/:slug": { form: "x", email: "ann@initech.example" },
  "/login/:app/:sandbox/:slug": { form: "x", email: "ann@initech.example" },
  "/developer/login/:app": { form: "x", email: "eve@agency.example" },
  "/developer/logout": { form: "x" },
  "/invitation": { form: "x", key: "x" },
  "/logout": { form: "x" },
  "/oauth/authorize": { form: "x", decision: "approved" },
  "/device": { form: "x", decision: "approved", user_code: "BCDF-GHJK" },
};

type Route = { group: string; method: string; path: string };
const all: Route[] = Object.entries(groups).flatMap(([group, routers]) =>
  routers.flatMap(({ routes }) => routes.map(({ method, path }) => ({ group, method, path }))),
);
const routes = [...new Map(all.map((one) => [`${one.method} ${one.path}`, one])).values()].filter(
  // Who follows a link to a page of ours comes from anywhere: it shows, and does nothing.
  ({ group, method }) => method !== "ALL" && !(group === "pages" && method === "GET"),
);

let cookie: string;
let headers: Record<string, string>;
let values: Record<string, string>;
beforeAll(async () => {
  const { app, acme, owners } = await anApp();
  ({ headers } = await aBrowser(sql, system.secrets.ROOT_SECRETS, owners[acme]!));
  cookie = headers.Cookie!;
  values = { app, app_id: app, org: acme, sandbox: "-", user: "me" };
});

const ask = async ({ group, method, path }: Route, from: Record<string, string>) => {
  const address = path.replace(/:(\w+)(\{[^}]*\})?/g, (_, name) => values[name] ?? "x").replace("*", "x");
  const form = group === "pages" ? FORMS[path] : undefined;
  // What is decided there is decided for a client of the app.
  const query = path === "/oauth/authorize" ? `?client_id=cli_${values.app!.slice(4)}__x` : "";
  const response = await fetch(system.base + address + query, {
    ...{ method, redirect: "manual" },
    headers: { "X-Request-Id": "the-same-one", ...(!form && { "Content-Type": "application/json" }), ...from },
    ...(form ? { body: new URLSearchParams(form) } : method !== "GET" && { body: "{}" }),
  });
  return { status: response.status, text: await response.text() };
};

it.each([
  ["another site", { "Sec-Fetch-Site": "cross-site" }],
  ["a sibling host", { "Sec-Fetch-Site": "same-site" }],
  ["another site in an old browser", { Origin: "https://evil.example" }],
])(
  "counts for nothing where %s has sent it: each route refuses it, or takes it as one that means nobody",
  async (_, from) => {
    const refusing: string[] = [];
    for (const route of routes) {
      const name = `${route.method} ${route.path}`;
      const { status, text } = await ask(route, { ...from, Cookie: cookie });
      if (status === 403 && text.includes("counts only for requests that pages of this host make")) refusing.push(name);
      else
        expect({ name, status, text }).toEqual({
          name,
          ...(await ask(route, { ...from, Cookie: "__Host-agentry=x" })),
        });
    }
    type Paths = Record<string, Record<string, { security?: object[] }>>;
    const { paths } = (await (await fetch(`${system.base}/openapi.json`)).json()) as { paths: Paths };
    const guarded = Object.entries(paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([, { security = [] }]) => security.some((one) => "session" in one))
        .map(([verb]) => `${verb.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ":$1")}`),
    );
    expect(guarded.length).toBeGreaterThan(100);
    const pages = routes.filter(({ group }) => group === "pages").map(({ method, path }) => `${method} ${path}`);
    expect(refusing).toEqual(expect.arrayContaining([...guarded, ...pages, "POST /sso/:app/:sandbox/:org/logout"]));
    await must(caller(headers)("GET", "/api/v1/users/me"), 200);
  },
);
