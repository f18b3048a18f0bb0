/**
 * Each way out, against a hundred requests that are under way by what it ends: no request that began after its answer is let in.
 * What it doesn't end goes on.
 */
import { decodeJwt } from "jose";
import { expect, it } from "vitest";
import { aBrowser } from "../harness/browser.ts";
import { anAgent, bearer, type Call, caller, must, sql, system, together } from "../harness/index.ts";
import { aStage as aProvider, patch, SCIM } from "../scim/stage.ts";
import { aKey } from "../sso/provider.ts";

const ME = "/api/v1/users/me";
const IN_FLIGHT = 100;

type Headers = Record<string, string>;
type Asked = { by: Headers; at: number; status: number };

/** Asks without a pause, so many at once, in turns by each of these credentials. */
function asking(credentials: Headers[]) {
  const asked: Asked[] = [];
  let stopped = false;
  const one = async (n: number) => {
    for (let i = n; !stopped; i++) {
      const by = credentials[i % credentials.length]!;
      const at = performance.now();
      const response = await fetch(system.base + ME, { headers: by });
      await response.arrayBuffer();
      asked.push({ by, at, status: response.status });
    }
  };
  const all = together(IN_FLIGHT, one);
  /** Until as many as are under way at once have been answered that began after this. */
  const answered = (since: number) =>
    expect
      .poll(() => asked.filter(({ at }) => at > since).length, { timeout: 30_000 })
      .toBeGreaterThanOrEqual(IN_FLIGHT);
  const stop = () => {
    stopped = true;
    return all;
  };
  return { asked, answered, stop };
}

/** A user of an org that has a provider: two browsers, and a program, by each of which it is signed in. */
async function aPerson() {
  const stage = await aProvider();
  const person = await stage.aPerson();
  const [browser, other] = [await signedIn(person.id), await signedIn(person.id)];
  const { access_token, refresh_token } = await stage.aToken(person.id);
  const program: Headers = bearer(access_token);
  const { asDeveloper, at, acme } = stage;
  const asBrowser: Call = caller(browser.headers);
  return { ...stage, person, browser, other, program, refresh_token, asBrowser, asDeveloper, at, acme };
}
type Person = Awaited<ReturnType<typeof aPerson>>;
const signedIn = (user: string) => aBrowser(sql, system.secrets.ROOT_SECRETS, user);

/** What a page of ours sends by its nth form. */
async function press(headers: Headers, path: string, nth = 0) {
  const text = await (await fetch(system.base + path, { headers })).text();
  const [, action, inner] = [...text.matchAll(/<form[^>]*action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g)][nth]!;
  const hidden = [...inner!.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)];
  const body = new URLSearchParams(hidden.map(([, name, value]) => [name!, value!]));
  const { status } = await fetch(system.base + action!, { method: "POST", headers, body, redirect: "manual" });
  expect(status).toBe(303);
}

/** A program that was let in by OAuth: what it asks by, and how it ends that itself. */
async function aClient({ asDeveloper, at, asBrowser }: Person) {
  await must(asDeveloper("PATCH", at, { settings: { auth: { third_party_oauth: true } } }), 200);
  const body = { name: "A terminal", scopes: ["users:read"] };
  const { client_id } = await must(asDeveloper("POST", `${at}/oauth_clients`, body), 201);
  const nobody = caller();
  const device = await must(nobody("POST", "/oauth/device/authorize", { client: client_id }), 200);
  await must(asBrowser("POST", "/oauth/device/approve", { user_code: device.user_code }), 200);
  const grant_type = "urn:ietf:params:oauth:grant-type:device_code";
  const tokens = await must(nobody("POST", "/oauth/token", { grant_type, device_code: device.device_code }), 200);
  return {
    by: bearer(tokens.access_token),
    revoke: () => nobody("POST", "/oauth/revoke", { token: tokens.refresh_token, client_id }),
  };
}

/** The org's connection, which has let somebody in before, and what enforces it. */
async function aConnection({ asDeveloper, at, acme, owners }: Person) {
  const { certificate } = await aKey();
  const said = { provider: "saml", entity_id: "https://idp.example", sso_url: "https://idp.example/sso", certificate };
  const put = (enforced: boolean) =>
    asDeveloper("PUT", `${at}/orgs/${acme}/sso`, { ...said, break_glass: [owners[acme]], enforced });
  await must(put(false), 200);
  await sql("update data.sso_connections set status = 'active' where org_id = $1", [acme]);
  return () => put(true);
}

/** What is ended, what goes on, and what ends it; `status`: of what is refused then. */
type Way = { dead: Headers[]; alive: Headers[]; end: () => Promise<unknown>; status?: number };
const everything = ({ browser, other, program }: Person) => [browser.headers, other.headers, program];

const ways: [name: string, (person: Person) => Promise<Way> | Way][] = [
  [
    "signing out on the page",
    ({ browser, other, program }) => ({
      ...{ dead: [browser.headers], alive: [other.headers, program] },
      end: () => press(browser.headers, "/logout"),
    }),
  ],
  [
    "ending another sign-in",
    ({ browser, other, program, asBrowser }) => ({
      ...{ dead: [program], alive: [browser.headers, other.headers] },
      end: () => must(asBrowser("DELETE", `${ME}/sessions/${decodeJwt(program.Authorization!.slice(7)).sid}`), 204),
    }),
  ],
  [
    "ending all other sign-ins",
    ({ browser, other, program, asBrowser }) => ({
      ...{ dead: [other.headers, program], alive: [browser.headers] },
      end: () => must(asBrowser("DELETE", `${ME}/sessions?keep=current`), 204),
    }),
  ],
  [
    "ending all sign-ins",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () => must(person.asBrowser("DELETE", `${ME}/sessions`), 204),
    }),
  ],
  [
    "the developer's ending them",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () => must(person.asDeveloper("DELETE", `${person.at}/users/${person.person.id}/sessions`), 204),
    }),
  ],
  [
    "setting a password",
    async ({ browser, other, program, asBrowser }) => {
      await sql("update data.token_families set auth_time = now() where id = $1", [browser.sign_in]);
      return {
        ...{ dead: [other.headers, program], alive: [browser.headers] },
        end: () => must(asBrowser("PUT", `${ME}/password`, { password: "correct horse battery" }), 204),
      };
    },
  ],
  [
    "an old refresh token that comes again",
    async ({ browser, other, refresh_token }) => {
      const refresh = (text: string) => caller()("POST", "/api/v1/auth/refresh", { refresh_token: text });
      const second = await must(refresh(refresh_token), 200);
      const third = await must(refresh(second.refresh_token), 200);
      return {
        ...{ dead: [bearer(third.token)], alive: [browser.headers, other.headers] },
        end: () => must(refresh(refresh_token), 401),
      };
    },
  ],
  [
    "a client's giving its token back",
    async (person) => {
      const { by, revoke } = await aClient(person);
      return { dead: [by], alive: everything(person), end: () => must(revoke(), 200) };
    },
  ],
  [
    "deactivation",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () => sql("update data.users set deactivated_at = now() where id = $1", [person.person.id]),
    }),
  ],
  [
    "the provider's deactivation (SCIM)",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () =>
        must(
          person.asProvider(
            "PATCH",
            `${SCIM}/Users/${person.person.id}`,
            patch({ op: "replace", path: "active", value: false }),
          ),
          200,
        ),
    }),
  ],
  [
    "the provider's deletion (SCIM)",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () => must(person.asProvider("DELETE", `${SCIM}/Users/${person.person.id}`), 204),
    }),
  ],
  [
    "the user's deletion",
    (person) => ({
      ...{ dead: everything(person), alive: [] },
      end: () => must(person.asDeveloper("DELETE", `${person.at}/users/${person.person.id}`), 204),
    }),
  ],
  [
    "the org's suspension",
    (person) => ({
      ...{ dead: everything(person), alive: [], status: 403 },
      end: () => must(person.asDeveloper("PATCH", `${person.at}/orgs/${person.acme}`, { status: "suspended" }), 200),
    }),
  ],
  [
    "enforcing SSO, minted tokens aside",
    async (person) => {
      const enforce = await aConnection(person);
      const { browser, other, program } = person;
      return {
        ...{ dead: [browser.headers, other.headers], alive: [program] },
        end: () => must(enforce(), 200),
      };
    },
  ],
];

it.each(ways)("after %s no request that begins is let in", { timeout: 60_000 }, async (_, way) => {
  const { dead, alive, end, status = 401 } = await way(await aPerson());
  const { asked, answered, stop } = asking([...dead, ...alive]);
  await answered(0);
  await end();
  const over = performance.now();
  await answered(over);
  await stop();
  const statuses = (of: Headers[], after: boolean) =>
    new Set(asked.filter(({ by, at }) => of.includes(by) && at > over === after).map((one) => one.status));
  expect([...statuses(dead, true)]).toEqual([status]);
  // Under way when it ended: either way, and never anything else.
  expect([200, status]).toEqual(expect.arrayContaining([...statuses(dead, false)]));
  expect(statuses(dead, false).has(200)).toBe(true);
  if (alive.length) expect([...statuses(alive, true), ...statuses(alive, false)]).toEqual([200, 200]);
});

it("streams of who is deactivated by SCIM end within 5 s, by cookie and by token", { timeout: 30_000 }, async () => {
  const { person, browser, program, asProvider } = await aPerson();
  const { id: agent } = await anAgent(caller(program), { model: "scripted/script" });
  const body = { agent, instructions: "Wait.", start_idle: true };
  const { id } = await must(caller(program)("POST", "/api/v1/agent_sessions", body), 201);
  const streams = await Promise.all(
    [browser.headers, program].map((headers) =>
      fetch(`${system.base}/api/v1/agent_sessions/${id}/events`, { headers }),
    ),
  );
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  const texts = streams.map((stream) => stream.text());
  await must(
    asProvider("PATCH", `${SCIM}/Users/${person.id}`, patch({ op: "replace", path: "active", value: false })),
    200,
  );
  const from = performance.now();
  for (const text of texts) expect(await text).toMatch(/event: error\ndata: .*"unauthenticated"/);
  expect(performance.now() - from).toBeLessThan(5_000);
});
