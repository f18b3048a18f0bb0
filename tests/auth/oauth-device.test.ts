import { PlatformClient } from "@archastro/sdk";
import { decodeJwt } from "jose";
import { describe, expect, it } from "vitest";
import { type Answer, type App, anApp, bearer, caller, must, sql, system, together } from "../harness/index.ts";

const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const nobody = caller();

/** An app that lets OAuth clients ask, and a client of it. */
async function aClient(fields: object = {}, made?: App) {
  const app = made ?? (await anApp());
  await must(app.asDeveloper("PATCH", app.at, { settings: { auth: { third_party_oauth: true } } }), 200);
  const body = { name: "A terminal", scopes: ["agents:*", "users:read"], ...fields };
  const client = await must(app.asDeveloper("POST", `${app.at}/oauth_clients`, body), 201);
  return { ...app, client };
}

const start = (client: string, fields: object = {}, headers = {}) =>
  nobody("POST", "/oauth/device/authorize", { client, ...fields }, headers);
const poll = (device_code: string, fields: object = {}) =>
  nobody("POST", "/oauth/token", { grant_type: DEVICE_CODE, device_code, ...fields });
const why = async (answer: Promise<Answer>) => {
  const { status, body } = await answer;
  expect(body.message).toBe(body.error_description);
  return [status, body.error];
};

/** A client whose device waits, and its app. */
async function aDevice(fields: object = {}) {
  const made = await aClient();
  const device = await must(start(made.client.client_id, fields), 200);
  const owner = made.as(made.acme);
  const decide = (verb: "approve" | "deny", call = owner) =>
    call("POST", `/oauth/device/${verb}`, { user_code: device.user_code });
  return { ...made, device, owner, decide };
}

/** Lets seconds go by for all that waits in the app. */
const pass = (app: string, seconds: number) =>
  sql(
    `update data.one_time_secrets set expires_at = expires_at - $2 * interval '1 second', payload = case
       when payload ? 'polled_at' then jsonb_set(payload, '{polled_at}', to_jsonb((payload ->> 'polled_at')::timestamptz - $2 * interval '1 second'))
       else payload end
     where app_id = $1 and kind = 'device'`,
    [app, seconds],
  );

describe("POST /oauth/device/authorize", () => {
  it("answers two codes, where to type one, how long they work and how often to ask", async () => {
    const { client, app } = await aClient();
    const body = await must(start(client.client_id), 200);
    expect(body).toMatchObject({ expires_in: 900, interval: 5 });
    expect(body.user_code).toMatch(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    expect(body.verification_uri).toContain(`/device?app=${app}`);
    expect(body.verification_uri_complete).toBe(`${body.verification_uri}&user_code=${body.user_code}`);
  });

  it("takes a form, and client_id for client, as the standard has it", async () => {
    const { client } = await aClient();
    const form = { "Content-Type": "application/x-www-form-urlencoded" };
    const body = new URLSearchParams({ client_id: client.client_id, scope: "users:read" }).toString();
    await must(nobody("POST", "/oauth/device/authorize", body, form), 200);
    const twice = `${body}&scope=agents:read`;
    expect(await why(nobody("POST", "/oauth/device/authorize", twice, form))).toEqual([400, "invalid_request"]);
  });

  it("refuses an app that lets no OAuth client ask, which is every app at first", async () => {
    const app = await anApp();
    const client = await must(
      app.asDeveloper("POST", `${app.at}/oauth_clients`, { name: "T", scopes: ["agents:read"] }),
      201,
    );
    expect(await why(start(client.client_id))).toEqual([403, "third_party_oauth_not_enabled"]);
    const off = { settings: { auth: { third_party_oauth: false } } };
    await must(app.asDeveloper("PATCH", app.at, off), 200);
    expect(await why(start(client.client_id))).toEqual([403, "third_party_oauth_not_enabled"]);
  });

  it("refuses a client that isn't there, whatever its id looks like", async () => {
    const { client, at, asDeveloper } = await aClient();
    const [, app] = client.client_id.split("_");
    const absent = `cli_${app}__${"0".repeat(21)}1`;
    for (const id of ["", "x", client.id, absent, `${client.client_id}x`]) {
      expect([id, ...(await why(start(id)))]).toEqual([id, 400, "invalid_client"]);
    }
    const elsewhere = await aClient();
    const [, , box, own] = client.client_id.split("_");
    const foreign = ["cli", elsewhere.client.client_id.split("_")[1], box, own].join("_");
    expect(await why(start(foreign))).toEqual([400, "invalid_client"]);
    await must(asDeveloper("DELETE", `${at}/oauth_clients/${client.id}`), 204);
    expect(await why(start(client.client_id))).toEqual([400, "invalid_client"]);
  });

  it("refuses scopes that are unknown, or not the client's", async () => {
    const { client } = await aClient();
    for (const scope of ["threads:read", "agents:read threads:read", "nonsense", "full_access"]) {
      expect([scope, ...(await why(start(client.client_id, { scope })))]).toEqual([scope, 400, "invalid_scope"]);
    }
  });

  it("takes a publishable key of the same app beside it, and no secret one", async () => {
    const { client, publishable_key, secret_key } = await aClient();
    const elsewhere = await anApp();
    const by = (key: string) => start(client.client_id, {}, { "x-archastro-api-key": key });
    await must(by(publishable_key), 200);
    expect(await why(by(secret_key))).toEqual([403, "forbidden"]);
    expect(await why(start(client.client_id, {}, bearer(secret_key)))).toEqual([403, "forbidden"]);
    expect(await why(by(elsewhere.publishable_key))).toEqual([401, "unauthenticated"]);
    const gone = `${publishable_key.slice(0, -8)}00000000`;
    expect(await why(by(gone))).toEqual([401, "unauthenticated"]);
  });
});

describe("a device's code at POST /oauth/token", () => {
  it("waits until somebody has approved, and then signs that person in, with the client's scopes", async () => {
    const { app, device, client, owners, acme, decide } = await aDevice();
    expect(await why(poll(device.device_code))).toEqual([400, "authorization_pending"]);
    expect((await must(decide("approve"), 200)).status).toBe("approved");
    await pass(app, 6);
    const body = await must(poll(device.device_code, { client: client.client_id }), 200);
    expect(body).toMatchObject({
      token_type: "Bearer",
      expires_in: 3600,
      scope: "agents:read agents:write users:read",
    });
    expect(body.user.id).toBe(owners[acme]);
    const { scope, sub, auth_time } = decodeJwt(body.access_token);
    // To grant is to prove nobody anew.
    expect([scope, sub, auth_time]).toEqual([body.scope, owners[acme], undefined]);
    const as = caller(bearer(body.access_token));
    expect((await as("GET", "/api/v1/agents")).status).toBe(200);
    expect((await as("GET", "/api/v1/threads")).status).not.toBe(200);
    expect((await as("GET", `/api/v1/users/me/sessions`)).status).toBe(403);
  });

  it("is granted what was asked for, as far as the person's role holds it", async () => {
    const made = await aClient();
    const device = await must(start(made.client.client_id, { scope: "agents:read agents:write" }), 200);
    const viewer = made.as(made.acme, { role: "viewer" });
    await must(viewer("POST", "/oauth/device/approve", { user_code: device.user_code }), 200);
    expect((await must(poll(device.device_code), 200)).scope).toBe("agents:read");
  });

  it("tells who asks too early to slow down, by five seconds each time", async () => {
    const { app, device, decide } = await aDevice();
    expect(await why(poll(device.device_code))).toEqual([400, "authorization_pending"]);
    expect(await why(poll(device.device_code))).toEqual([400, "slow_down"]);
    await pass(app, 9);
    expect(await why(poll(device.device_code))).toEqual([400, "slow_down"]);
    await pass(app, 16);
    expect(await why(poll(device.device_code))).toEqual([400, "authorization_pending"]);
    await must(decide("approve"), 200);
    await must(poll(device.device_code), 200);
  });

  it("is refused once somebody has said no", async () => {
    const { device, decide } = await aDevice();
    expect((await must(decide("deny"), 200)).status).toBe("denied");
    expect(await why(poll(device.device_code))).toEqual([400, "access_denied"]);
    expect(await why(poll(device.device_code))).toEqual([400, "invalid_grant"]);
  });

  it("gives tokens once, however many ask at once", async () => {
    const { device, decide } = await aDevice();
    await must(decide("approve"), 200);
    const answers = await together(50, () => poll(device.device_code));
    expect(answers.filter(({ status }) => status === 200).length).toBe(1);
    expect(new Set(answers.flatMap(({ body }) => body.error ?? []))).toEqual(new Set(["invalid_grant"]));
    const { body } = answers.find(({ status }) => status === 200)!;
    expect((await caller(bearer(body.access_token))("GET", "/api/v1/agents")).status).toBe(200);
  });

  it("is over after 15 minutes, approved or not", async () => {
    const { app, device, decide, owner } = await aDevice();
    await must(decide("approve"), 200);
    await pass(app, 901);
    expect(await why(poll(device.device_code))).toEqual([400, "invalid_grant"]);
    expect(await why(decide("deny"))).toEqual([400, "invalid_grant"]);
    const look = owner("GET", `/oauth/device/authorization?code=${device.user_code}`);
    expect(await why(look)).toEqual([400, "invalid_grant"]);
  });

  it("is worth nothing to another client, nor changed", async () => {
    const made = await aDevice();
    const { device, client, decide, at, asDeveloper } = made;
    const other = await must(asDeveloper("POST", `${at}/oauth_clients`, { name: "B", scopes: ["agents:read"] }), 201);
    await must(decide("approve"), 200);
    expect(await why(poll(device.device_code, { client: other.client_id }))).toEqual([400, "invalid_grant"]);
    const last = device.device_code.at(-2) === "A" ? "B" : "A";
    const changed = `${device.device_code.slice(0, -2)}${last}${device.device_code.at(-1)}`;
    for (const code of [changed, "x", `odc_${device.device_code.slice(5)}`]) {
      expect(await why(poll(code))).toEqual([400, "invalid_grant"]);
    }
    await must(poll(device.device_code, { client_id: client.client_id }), 200);
  });

  it("gives nothing for a person, an org or a client that is gone or suspended meanwhile", async () => {
    const ends: [name: string, end: (made: Awaited<ReturnType<typeof aDevice>>, user: string) => Promise<Answer>][] = [
      ["the person", ({ asDeveloper, at }, user) => asDeveloper("DELETE", `${at}/users/${user}`)],
      ["the org", ({ asDeveloper, at, acme }) => asDeveloper("DELETE", `${at}/orgs/${acme}`)],
      [
        "a suspended org",
        ({ asDeveloper, at, acme }) => asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }),
      ],
      ["the client", ({ asDeveloper, at, client }) => asDeveloper("DELETE", `${at}/oauth_clients/${client.id}`)],
    ];
    for (const [name, end] of ends) {
      const made = await aDevice();
      const { id } = await made.aUser(made.acme, "member");
      const call = caller(bearer((await made.aToken(id)).access_token));
      await must(made.decide("approve", call), 200);
      expect((await end(made, id)).status).toBeLessThan(300);
      expect([name, ...(await why(poll(made.device.device_code)))]).toEqual([name, 400, "invalid_grant"]);
    }
  });
});

describe("a user code", () => {
  it("shows a person who asks for what, before anything is decided", async () => {
    const { device, owner } = await aDevice({ scope: "agents:read" });
    const typed = device.user_code.toLowerCase().replace("-", " ");
    const body = await must(owner("GET", `/oauth/device/authorization?code=${encodeURIComponent(typed)}`), 200);
    expect(body).toMatchObject({ client_name: "A terminal", scopes: ["agents:read"] });
    expect(Date.parse(body.expires_at) - Date.now()).toBeGreaterThan(800_000);
  });

  it("is decided once: the second who decides finds nothing, of 50 at once one does", async () => {
    const { device, decide } = await aDevice();
    const answers = await together(50, (i) => decide(i % 2 ? "approve" : "deny"));
    expect(answers.filter(({ status }) => status === 200).length).toBe(1);
    expect(await why(decide("approve"))).toEqual([400, "invalid_grant"]);
    expect((await poll(device.device_code)).status).toBe(
      answers.find(({ status }) => status === 200)!.body.status === "approved" ? 200 : 400,
    );
  });

  it("is nothing to a person of another app, to a key, to a restricted token, or to nobody", async () => {
    const { device, decide, as, acme, asDeveloper } = await aDevice();
    const other = await aClient();
    expect(await why(decide("approve", other.as(other.acme)))).toEqual([400, "invalid_grant"]);
    expect(await why(decide("approve", asDeveloper))).toEqual([403, "no_user"]);
    expect(await why(decide("approve", as(acme, { scopes: ["agents:*"] })))).toEqual([403, "insufficient_scope"]);
    expect(await why(decide("approve", nobody))).toEqual([401, "unauthenticated"]);
    expect(await why(poll(device.device_code))).toEqual([400, "authorization_pending"]);
  });

  it("serves a person of any org of the app, who then is the one that is signed in", async () => {
    const { device, decide, as, globex, owners } = await aDevice();
    await must(decide("approve", as(globex)), 200);
    expect((await must(poll(device.device_code), 200)).user.id).toBe(owners[globex]);
  });

  it("of a sandbox is found in that sandbox alone", async () => {
    const made = await aClient();
    const { id } = await must(made.asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: "box" }), 201);
    const { full_key } = await must(made.asDeveloper("POST", `/api/v1/sandboxes/${id}/keys`, { type: "secret" }), 200);
    const inside = caller(bearer(full_key));
    const client = await must(inside("POST", `${made.at}/oauth_clients`, { name: "S", scopes: ["agents:read"] }), 201);
    const device = await must(start(client.client_id), 200);
    expect(device.verification_uri).toContain(`app=${made.app}&sandbox=${id}`);
    expect(await why(made.as(made.acme)("POST", "/oauth/device/approve", { user_code: device.user_code }))).toEqual([
      400,
      "invalid_grant",
    ]);
    const slug = `in-${id.slice(-6).toLowerCase()}`;
    const org = (await must(inside("POST", `${made.at}/orgs`, { name: "S", slug, domain: `${slug}.example` }), 201)).id;
    const user = (await must(inside("POST", `${made.at}/users`, { name: "U", org, role: "member" }), 201)).id;
    const minted = await must(inside("POST", `${made.at}/users/${user}/tokens`, {}), 201);
    const person = caller(bearer(minted.access_token));
    await must(person("POST", "/oauth/device/approve", { user_code: device.user_code }), 200);
    expect((await must(poll(device.device_code), 200)).user.id).toBe(user);
  });
});

it("the SDK signs in on a device: a terminal asks, a person looks and approves, the terminal has tokens", async () => {
  const { client, publishable_key, aToken, owners, acme } = await aClient();
  const terminal = new PlatformClient({
    ...{ baseUrl: system.base, defaultHeaders: { "x-archastro-api-key": publishable_key } },
  });
  const person = PlatformClient.withToken(publishable_key, (await aToken(owners[acme]!)).access_token, system.base);
  const device = await terminal.v1.oauth.device.authorize({ client: client.client_id, scope: "agents:read" });
  const ask = () =>
    terminal.v1.oauth.token({ grant_type: DEVICE_CODE, client: client.client_id, device_code: device.device_code });
  await expect(ask()).rejects.toMatchObject({ errorCode: "authorization_pending" });
  const shown = await person.v1.oauth.device.authorization({ code: device.user_code });
  expect([shown.client_name, shown.scopes]).toEqual(["A terminal", ["agents:read"]]);
  expect((await person.v1.oauth.device.approve({ user_code: device.user_code })).status).toBe("approved");
  const { access_token } = await ask();
  const signedIn = PlatformClient.withToken(publishable_key, access_token, system.base);
  expect((await signedIn.v1.agents.list()).data).toEqual([]);
  expect(Object.keys((await terminal.v1.oauth.scopes()).scopes)).toContain("agents:read");
});
