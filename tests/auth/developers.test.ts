/** How developers sign in, on their pages, and what their sign-in opens. */
import { describe, expect, it } from "vitest";
import { makeDeveloperSession } from "../../lib/auth/sessions.ts";
import { type Id, newId } from "../../lib/ids.ts";
import { addDeveloper, appOf, listDevelopers, removeDeveloper } from "../../lib/local/apps.ts";
import { readDocument } from "../harness/contract.ts";
import { openEmbedded } from "../harness/database.ts";
import { anApp, caller, developer, must, sql, system, together, unique } from "../harness/index.ts";
import { type Mailed, mailTo, nextMail } from "./mailbox.ts";

const SAME = { "Sec-Fetch-Site": "same-origin" };
const codeIn = ({ text }: Mailed) => text.match(/^[A-Z]{4}-[A-Z]{4}$/m)?.[0] ?? "none";
const cookieIn = (response: Response) =>
  response.headers.get("Set-Cookie")?.match(/^__Host-agentry-dev=([^;]*)/)?.[1] ?? null;

/** A request of a browser's, which follows nothing. */
const send = (path: string, form: Record<string, string> | null, headers: Record<string, string> = {}) =>
  fetch(system.base + path, {
    redirect: "manual",
    method: form ? "POST" : "GET",
    headers: { ...(form && { "Content-Type": "application/x-www-form-urlencoded", ...SAME }), ...headers },
    ...(form && { body: new URLSearchParams(form) }),
  });
const formIn = (text: string) => text.match(/name="form" value="([^"]*)"/)![1]!;

async function start() {
  const made = await anApp();
  const email = `${unique("dev")}@example.com`;
  const id = newId("developer");
  await sql("insert into data.developers (app_id, id, email) values ($1, $2, $3)", [made.app, id, email]);
  const login = `/developer/login/${made.app}`;
  const form = formIn(await (await send(login, null)).text());
  const ask = (to: string, headers = {}) => send(login, { form, email: to }, headers);
  const enter = (to: string, code: string, headers = {}) => send(login, { form, email: to, code }, headers);
  const codeFor = async (to: string) => {
    const before = mailTo(to).length;
    expect((await ask(to)).status).toBe(200);
    return codeIn(await nextMail(to, before + 1));
  };
  const signIn = async () => {
    const cookie = cookieIn(await enter(email, await codeFor(email)))!;
    const headers = { Cookie: `__Host-agentry-dev=${cookie}` };
    return { cookie, headers, call: caller({ ...headers, ...SAME }) };
  };
  return { ...made, id, email, login, ask, enter, codeFor, signIn };
}

/** Every operation that is a developer's, as its address in this app, ids made up. */
async function developers(app: string) {
  const { document } = await readDocument(system.base);
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item as object)
      .filter(([, operation]) => operation["x-permission"]?.startsWith("developer:"))
      .map(([method]) => ({
        method: method.toUpperCase(),
        path: path.replace("{app_id}", app).replaceAll(/\{\w+\}/g, "x"),
      })),
  );
}

describe("a developer", () => {
  it("takes the code from the mailbox, is in, sees the app, signs out, and is out", async () => {
    const { app, email, login, enter, codeFor } = await start();
    const entered = await enter(email.toUpperCase(), (await codeFor(email)).toLowerCase().replace("-", " "));
    expect([entered.status, entered.headers.get("Location")]).toEqual([303, "/developer"]);
    expect(entered.headers.get("Set-Cookie")).toMatch(
      /^__Host-agentry-dev=dev_[\w.-]+; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Lax$/,
    );
    const headers = { Cookie: `__Host-agentry-dev=${cookieIn(entered)}` };
    const home = await (await send("/developer", null, headers)).text();
    expect([home.includes(app), home.includes(email), home.includes("/openapi.json")]).toEqual([true, true, true]);
    expect((await send("/developer/logout", { form: "x" }, headers)).status).toBe(403);
    const out = await send("/developer/logout", { form: formIn(home) }, headers);
    expect([out.status, out.headers.get("Location"), cookieIn(out)]).toEqual([303, login, ""]);
    expect((await send("/developer", null, headers)).headers.get("Location")).toBe(login);
    expect((await caller({ ...headers, ...SAME })("GET", developer(app))).status).toBe(401);
  });

  it("may then what a secret key of production may, below the app's own address", async () => {
    const { app, at, acme, signIn, asDeveloper } = await start();
    const { call } = await signIn();
    expect((await must(call("GET", at), 200)).id).toBe(app);
    const slug = unique("made");
    const { id } = await must(call("POST", `${at}/orgs`, { name: "Made", slug, domain: `${slug}.example` }), 201);
    await must(call("PATCH", `${at}/orgs/${acme}`, { name: "Acme!" }), 200);
    expect((await must(asDeveloper("GET", `${at}/orgs/${id}`), 200)).name).toBe("Made");
    for (const { path, method } of await developers(app)) {
      expect([path, [401, 403].includes((await call(method, path)).status)]).toEqual([path, false]);
    }
  });

  it("may nothing else by it: what isn't a developer's knows no such credential", async () => {
    const { call } = await (await start()).signIn();
    for (const path of ["/api/v1/agents", "/api/v1/users/me", "/api/v1/activity_feed"]) {
      expect((await call("GET", path)).status).toBe(401);
    }
  });

  it("finds another app absent, on every route", async () => {
    const { call } = await (await start()).signIn();
    const other = await anApp();
    const absent = (await call("GET", developer(newId("app")))).body.error;
    for (const { method, path } of await developers(other.app)) {
      if (!path.includes(other.app)) continue;
      const { status, body } = await call(method, path);
      expect([path, status, body.error]).toEqual([path, 404, absent]);
    }
  });

  it.each([
    ["another site", { "Sec-Fetch-Site": "cross-site" }],
    ["a sibling host", { "Sec-Fetch-Site": "same-site" }],
    ["a foreign origin, by a browser that says no more", { Origin: "https://evil.example" }],
  ])("is refused on every route where %s has sent the cookie: 403", async (_, from) => {
    const { app, signIn } = await start();
    const call = caller({ ...(await signIn()).headers, ...from });
    const routes = await developers(app);
    expect(routes.length).toBeGreaterThan(40);
    for (const { method, path } of routes) {
      const { status, body } = await call(method, path);
      expect([path, status, body.error.code]).toEqual([path, 403, "cross_origin"]);
    }
    const home = await (await send("/developer", null, (await signIn()).headers)).text();
    const forged = { ...(await signIn()).headers, "Sec-Fetch-Site": "", ...from };
    expect((await send("/developer/logout", { form: formIn(home) }, forged)).status).toBe(403);
  });

  it("who is taken away is out on the next request, and is one no more", async () => {
    const { at, app, email, signIn, codeFor, enter } = await start();
    const { call, headers } = await signIn();
    const code = await codeFor(email);
    await sql("delete from data.developers where app_id = $1", [app]);
    expect((await call("GET", at)).status).toBe(401);
    expect((await send("/developer", null, headers)).status).toBe(303);
    expect((await enter(email, code)).status).toBe(401);
  });

  it("is out when the sign-in is idle for too long; using it moves that on, never past its end", async () => {
    const { app, at, signIn } = await start();
    const { call } = await signIn();
    const { call: idle } = await signIn();
    const age = (what: string, id: string) => sql(`update data.developer_sessions set ${what} where id = $1`, [id]);
    const [older, newest] = await sql("select id from data.developer_sessions where app_id = $1 order by id", [app]);
    await age("expires_at = now()", newest.id);
    expect((await idle("GET", at)).status).toBe(401);
    const ends = "ends_at = now() + interval '1 day', expires_at = now() + interval '1 hour', last_used_at = null";
    await age(ends, older.id);
    await must(call("GET", at), 200);
    const reached = () =>
      sql("select expires_at = ends_at as at_its_end from data.developer_sessions where id = $1", [older.id]);
    await expect.poll(reached).toEqual([{ at_its_end: true }]);
  });

  it.each([
    ["another app", 0, "app"],
    ["another developer", 1, "developer"],
    ["another sign-in", 2, "developer_session"],
  ] as const)("forges no cookie of %s", async (_, at, kind) => {
    const { app, id, signIn } = await start();
    const { cookie } = await signIn();
    const said = { app: app as Id<"app">, developer: id, session: newId("developer_session") };
    const made = await makeDeveloperSession(system.secrets.ROOT_SECRETS, said);
    const parts = Buffer.from(cookie.slice(4).split(".")[0]!, "base64url").toString().split(".");
    parts[at] = newId(kind);
    const forged = `dev_${Buffer.from(parts.join(".")).toString("base64url")}.${cookie.split(".")[1]}`;
    for (const value of [forged, made, cookie.slice(0, -1), cookie.replace("dev_", "ses_"), ""]) {
      const call = caller({ Cookie: `__Host-agentry-dev=${value}`, ...SAME });
      expect((await call("GET", developer(app))).status).toBe(401);
    }
  });

  it("counts where a person's sign-in comes along, be that good or not", async () => {
    const { at, app, signIn } = await start();
    const { headers } = await signIn();
    const both = caller({ Cookie: `${headers.Cookie}; __Host-agentry=ses_x.y`, ...SAME });
    expect((await must(both("GET", at), 200)).id).toBe(app);
  });
});

describe("a developer's code", () => {
  it("works once: of many at once, one", async () => {
    const { email, codeFor, enter } = await start();
    const code = await codeFor(email);
    const answers = await together(10, async () => (await enter(email, code)).status);
    expect(answers.filter((status) => status === 303)).toHaveLength(1);
    const late = await enter(email, code);
    expect([late.status, cookieIn(late)]).toEqual([401, null]);
    expect(await late.text()).toMatch(/role="alert"[^>]*>This code is wrong, was used or has expired/);
  });

  it("bears five tries, whatever was typed", async () => {
    const { email, codeFor, enter } = await start();
    const code = await codeFor(email);
    const wrong = code === "BBBB-BBBB" ? "CCCC-CCCC" : "BBBB-BBBB";
    for (const typed of [wrong, "0", wrong, wrong]) expect((await enter(email, typed)).status).toBe(401);
    const again = await codeFor(email);
    for (const typed of [wrong, "0", wrong, wrong, wrong]) expect((await enter(email, typed)).status).toBe(401);
    expect((await enter(email, again)).status).toBe(401);
    expect((await enter(email, await codeFor(email))).status).toBe(303);
  });

  it("is over after ten minutes, and when another one is asked for", async () => {
    const { app, email, codeFor, enter } = await start();
    const first = await codeFor(email);
    const second = await codeFor(email);
    expect((await enter(email, first)).status).toBe(401);
    await sql("update data.one_time_secrets set expires_at = expires_at - interval '10 minutes' where app_id = $1", [
      app,
    ]);
    expect((await enter(email, second)).status).toBe(401);
  });

  it("is of its app alone", async () => {
    const one = await start();
    const other = await start();
    await sql("insert into data.developers (app_id, id, email) values ($1, $2, $3)", [
      ...[other.app, newId("developer"), one.email],
    ]);
    await other.codeFor(one.email);
    expect((await other.enter(one.email, await one.codeFor(one.email))).status).toBe(401);
  });

  it("is mailed to a developer alone; to every address it is asked for alike, and no code of a person's is one", async () => {
    const { app, email, ask, acme, aUser } = await start();
    const person = (await aUser(acme, "owner")).email;
    const nobody = `${unique("nobody")}@example.com`;
    const shown = async (to: string) => {
      const answer = await ask(to);
      const text = (await answer.text()).replaceAll(to, "…").replace(/name="form" value="[^"]*"/, "");
      return [answer.status, text, [...answer.headers.keys()]];
    };
    const [known, ...others] = [await shown(email), await shown(person), await shown(nobody)];
    expect(others).toEqual([known, known]);
    for (const one of [person, nobody]) {
      expect((await nextMail(one)).text).toContain("No developer of it has this address.");
    }
    const kinds = await sql("select kind from data.one_time_secrets where app_id = $1 order by 1", [app]);
    expect(kinds.map(({ kind }) => kind)).toEqual(["developer", "developer", "developer"]);
  });

  it("is mailed ten times an hour: 429, and when to try again", async () => {
    const { email, ask, app } = await start();
    for (let i = 0; i < 10; i++) expect((await ask(email)).status).toBe(200);
    const { status, headers } = await ask(email);
    expect([status, Number(headers.get("Retry-After")) > 3000]).toEqual([429, true]);
    expect((await send(`/login/${app}`, null)).status).toBe(200);
  });
});

describe("the developers' pages", () => {
  it("ask which app, and lead there; of an app that isn't there they are a 404", async () => {
    const { app, login } = await start();
    const asked = await (await send("/developer/login", null)).text();
    expect(asked).toContain('<input id="app" name="app"');
    expect((await send(`/developer/login?app=${app}`, null)).headers.get("Location")).toBe(login);
    expect((await send("/developer/login?app=x", null)).status).toBe(400);
    for (const path of ["/developer/login/x", `/developer/login/${newId("app")}`]) {
      expect((await send(path, null)).status).toBe(404);
    }
    expect((await send("/developer", null)).headers.get("Location")).toBe("/developer/login");
  });

  it("have no script, and take no form of others: 403", async () => {
    const { login, email, ask, enter, codeFor, signIn } = await start();
    for (const path of ["/developer/login", login, "/developer"]) {
      const { headers, status, text } = await send(path, null, (await signIn()).headers).then(async (response) => ({
        ...{ headers: response.headers, status: response.status, text: await response.text() },
      }));
      expect(headers.get("Content-Security-Policy")).toMatch(/^default-src 'none'; style-src 'self'/);
      expect([status, headers.get("Access-Control-Allow-Origin")]).toEqual([200, null]);
      expect(text).not.toMatch(/<script|\son\w+=|\sstyle=/i);
    }
    const code = await codeFor(email);
    for (const site of ["cross-site", "same-site"]) {
      expect((await ask(email, { "Sec-Fetch-Site": site })).status).toBe(403);
      expect((await enter(email, code, { "Sec-Fetch-Site": site })).status).toBe(403);
    }
    for (const form of ["", "x", `${"A".repeat(43)}=`]) expect((await send(login, { form, email })).status).toBe(403);
    expect((await enter(email, code)).status).toBe(303);
  });
});

it("the operator's command adds, lists and takes away the developers of one app", async () => {
  const database = await openEmbedded();
  try {
    const [one, other] = [newId("app"), newId("app")];
    const add = "insert into data.apps (id, name) values ($1, 'x')";
    const place = "insert into data.tenants (app_id) values ($1)";
    for (const app of [one, other]) for (const statement of [add, place]) await database.query(statement, [app]);
    const id = await addDeveloper(database, one, "Ada@example.com");
    expect(await addDeveloper(database, one, "ada@example.com")).toBe(id);
    await addDeveloper(database, other, "ada@example.com");
    expect((await listDevelopers(database, one)).map((row) => [row.id, row.name])).toEqual([[id, "Ada@example.com"]]);
    expect(await removeDeveloper(database, one, "ADA@example.com")).toBe(id);
    expect(await removeDeveloper(database, one, "ada@example.com")).toBeNull();
    expect(await listDevelopers(database, other)).toHaveLength(1);
    expect([await appOf(database, one), await appOf(database, undefined)]).toEqual([one, null]);
    await database.query("delete from data.apps where id = $1", [other]);
    expect([await appOf(database, undefined), await appOf(database, other)]).toEqual([one, null]);
  } finally {
    await database.close();
  }
});
