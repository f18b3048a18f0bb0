/** What an endpoint is told, by whom it is signed, and what becomes of it when it doesn't answer. */
import fc from "fast-check";
import { Webhook as Standard } from "standardwebhooks";
import { Webhook as Svix } from "svix";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { reseal } from "../../lib/local/sealed-rows.ts";
import { secretsOf } from "../../lib/webhooks/queries.ts";
import { pull, tell } from "../events/stage.ts";
import { openDatabase } from "../harness/database.ts";
import { type App, anAgent, anApp, must, together } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";
import { until, wait } from "../sessions/stage.ts";
import { anEndpoint, aReceiver, at, deliveriesOf, type Received, type Receiver, says } from "./stage.ts";

let own: Own;
let base: string;
const root = newRoot();
const opened: Receiver[] = [];
beforeAll(async () => {
  own = await ownSystem(openDatabase());
  base = await own.start([await newSigningKey("one")], [root], { allowLoopback: "127.0.0.1" });
});
afterAll(async () => {
  for (const receiver of opened) receiver.close();
  await own.close();
});
const receiving = async (...answers: Parameters<typeof aReceiver>) => {
  const receiver = await aReceiver(...answers);
  opened.push(receiver);
  return receiver;
};
const newApp = (): Promise<App> => anApp({ base, newApp: own.newApp });
const query = <Row = any>(text: string, params: (string | number)[] = []) => own.database.query<Row>(text, params);
/** Acme's owner, a receiver, and an endpoint that is told of orders. */
async function told(fields: object = {}, ...answers: Parameters<typeof aReceiver>) {
  const app = await newApp();
  const receiver = await receiving(...answers);
  const owner = app.as(app.acme);
  return { ...app, receiver, owner, endpoint: await anEndpoint(owner, receiver, fields) };
}
const came = (receiver: Receiver, count: number) =>
  until(
    `${count} come to the receiver`,
    () => (receiver.received.length >= count ? receiver.received : null),
    20_000,
  ) as Promise<Received[]>;
const signedBy = (secret: string, { raw, headers }: Received) => {
  const isSigned = (Verifier: typeof Standard | typeof Svix) => {
    try {
      new Verifier(secret).verify(raw, headers as Record<string, string>);
      return true;
    } catch {
      return false;
    }
  };
  const [standard, svix] = [isSigned(Standard), isSigned(Svix)];
  expect(standard).toBe(svix);
  return standard;
};
/** What is waited for between attempts is over. */
const hurry = (endpoint: { id: string }, call: App["asDeveloper"]) =>
  must(call("POST", `${at(endpoint)}/replay`, { ...everAfter, statuses: ["pending"] }), 200);
const everAfter = { from: "2026-01-01T00:00:00Z", to: "2100-01-01T00:00:00Z" };
const is = (call: App["asDeveloper"], endpoint: { id: string }, fields: object) =>
  until(`it is ${JSON.stringify(fields)}`, async () => {
    const found = await must(call("GET", at(endpoint)), 200);
    return Object.entries(fields).every(([name, value]) => Object.is(found[name], value)) ? found : null;
  });

describe("an endpoint", () => {
  it("is told of what happens after it was made, signed so that strangers verify it", async ({ expect }) => {
    const { owner, acme, receiver, endpoint } = await told({ event_names: ["custom.*", "agent.created"] });
    expect(endpoint).toMatchObject({ org: acme, status: "enabled", ordering: "none", failing_since: null });
    expect(Buffer.from(endpoint.secret.slice("whsec_".length), "base64")).toHaveLength(32);
    const { id } = await tell(owner, 1);
    const [one] = await came(receiver, 1);
    const { events } = await pull(owner);
    const event = events.find((event) => event.id === id);
    expect(one!.body).toEqual({
      ...{ id, type: "custom.order", timestamp: event.created_at, org: acme },
      ...{ sequence: event.sequence, data: { n: 1 } },
    });
    expect(one!.id).toBe(id);
    expect(one!.headers).toMatchObject({ "content-type": "application/json", "user-agent": "agentry-webhooks" });
    expect(signedBy(endpoint.secret, one!)).toBe(true);
    expect(signedBy(`whsec_${Buffer.alloc(32).toString("base64")}`, one!)).toBe(false);
    expect(signedBy(endpoint.secret, { ...one!, raw: one!.raw.replace(":1", ":2") })).toBe(false);
    const [listed] = await expect
      .poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered"))
      .toHaveLength(1)
      .then(() => deliveriesOf(owner, endpoint));
    expect(listed).toMatchObject({ event: id, event_name: "custom.order", status: "delivered", attempt_count: 1 });
    const whole = await must(owner("GET", `/api/v1/webhook_deliveries/${listed.id}`), 200);
    expect(whole.attempts).toMatchObject([{ status: 200, answered: "thanks", error: null }]);
  });

  it("hears the names that it has, and beginnings of names, and no other", async ({ expect }) => {
    const { owner, receiver } = await told({ event_names: ["custom.order.*", "custom.b"] });
    for (const name of ["custom.order", "custom.bb", "custom.a", "custom.order.paid", "custom.b"])
      await tell(owner, name, { name });
    await came(receiver, 2);
    await wait(300);
    expect(receiver.received.map(({ body }) => body.type).sort()).toEqual(["custom.b", "custom.order.paid"]);
  });

  it.each([
    ["url", { url: "https://10.0.0.1/" }],
    ["url", { url: "ftp://example.com/" }],
    ["url", { url: "https://user:word@example.com/" }],
    ["event_names.0", { event_names: ["agent.exploded"] }],
    ["event_names.0", { event_names: ["agen.*"] }],
    ["ordering", { ordering: "some" }],
    ["org", { org: "org_0000000000000000000000" }],
  ])("can't have a %s of %j", async (field, fields) => {
    const { as, acme } = await newApp();
    const body = { url: "https://example.com/", event_names: ["custom.*"], ...fields };
    const made = await as(acme)("POST", "/api/v1/webhook_endpoints", body);
    expect([made.status, made.body.error?.fields[0].field]).toEqual([422, field]);
    if (field !== "url") return;
    const { id } = await anEndpoint(as(acme), { url: "https://example.com/" });
    expect((await as(acme)("PATCH", at({ id }), fields)).status).toBe(422);
  });

  it("is sent to where it was moved, of the names that it has by then, and to where it was before no more", async ({
    expect,
  }) => {
    const { owner, receiver, endpoint } = await told();
    const other = await receiving();
    await tell(owner, 1);
    await came(receiver, 1);
    await must(owner("PATCH", at(endpoint), { url: other.url, event_names: ["custom.b"] }), 200);
    await tell(owner, 2);
    await tell(owner, 3, { name: "custom.b" });
    await came(other, 1);
    await wait(200);
    expect([receiver, other].map(({ received }) => received.map(({ body }) => body.data.n))).toEqual([[1], [3]]);
  });

  it("is sent once what is handed on again, as after a crash", async ({ expect }) => {
    const { owner, acme, receiver, endpoint } = await told();
    await tell(owner, 1);
    const isOver = (count: number) =>
      expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(count);
    await isOver(1);
    await query("update data.event_heads set delivered = 0 where org_id = $1", [acme]);
    await tell(owner, 2);
    await isOver(2);
    await wait(200);
    expect(receiver.orders()).toEqual([1, 2]);
  });

  it("is asked nothing where its address is refused by the time that it is asked", async ({ expect }) => {
    const { owner, endpoint } = await told();
    await query("update data.webhook_endpoints set url = 'http://10.0.0.1/' where id = $1", [endpoint.id]);
    expect(await must(owner("POST", `${at(endpoint)}/test`), 200)).toMatchObject({
      ...{ status: null, error: "refused: the host is a private or reserved address" },
    });
  });

  it("shows its secret once: not to who asks again under the same key, nor later", async ({ expect }) => {
    const { as, acme } = await newApp();
    const body = { url: "https://example.com/", event_names: ["custom.none"] };
    const key = { "Idempotency-Key": "one" };
    const made = await must(as(acme)("POST", "/api/v1/webhook_endpoints", body, key), 201);
    const again = await must(as(acme)("POST", "/api/v1/webhook_endpoints", body, key), 201);
    expect(made.secret).toMatch(/^whsec_/);
    expect(again).toEqual({ ...made, secret: null });
    expect((await must(as(acme)("GET", at(made)), 200)).secret).toBeNull();
    expect((await must(as(acme)("PATCH", at(made), { ordering: "strict" }), 200)).secret).toBeNull();
  });

  it("is an org's twenty times, and no more; the app says otherwise", async ({ expect }) => {
    const { app, as, acme, globex } = await newApp();
    await query(`update data.apps set settings = '{"quotas": {"webhook_endpoints": 2}}' where id = $1`, [app]);
    const body = { url: "https://example.com/", event_names: ["custom.none"] };
    const made = await together(4, () => as(acme)("POST", "/api/v1/webhook_endpoints", body));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 422, 422]);
    expect(made.find(({ status }) => status === 422)!.body.error.code).toBe("limit_reached");
    await must(as(globex)("POST", "/api/v1/webhook_endpoints", body), 201);
  });
});

describe("of whom", () => {
  it("an org's endpoint is told of that org alone; the app's of every org, each with its own sequence", async ({
    expect,
  }) => {
    const { as, acme, globex, asDeveloper } = await newApp();
    const [mine, apps] = [await receiving(), await receiving()];
    await anEndpoint(as(acme), mine);
    const endpoint = await anEndpoint(asDeveloper, apps);
    expect(endpoint.org).toBeNull();
    await tell(as(globex), 2);
    await tell(as(acme), 1);
    await tell(asDeveloper, 3);
    await came(apps, 3);
    await came(mine, 1);
    await wait(300);
    expect(mine.orders()).toEqual([1]);
    expect(apps.orders().sort()).toEqual([1, 2, 3]);
    const ofGlobex = apps.received.find(({ body }) => body.org === globex)!;
    const { events } = await pull(as(globex));
    expect(ofGlobex.body.sequence).toBe(events.find(({ id }) => id === ofGlobex.id).sequence);
    expect(apps.received.map(({ body }) => body.org).sort()).toEqual([acme, globex, null].sort());
    // To the orgs the app's endpoint isn't there.
    expect((await must(as(acme)("GET", "/api/v1/webhook_endpoints"), 200)).data).toHaveLength(1);
    expect((await as(acme)("GET", at(endpoint))).status).toBe(404);
    const list = await expect
      .poll(() => deliveriesOf(asDeveloper, endpoint))
      .toHaveLength(3)
      .then(() => deliveriesOf(asDeveloper, endpoint));
    const other = await as(globex)("GET", `/api/v1/webhook_deliveries/${list[0].id}`);
    expect(other.status).toBe(404);
  });

  const NAMES = ["custom.order", "custom.order.paid", "custom.b"];
  const heard = fc.uniqueArray(fc.constantFrom(...NAMES, "custom.order.*", "custom.*"), { minLength: 1, maxLength: 2 });
  const place = fc.constantFrom("acme", "globex", "app");
  it("each endpoint is told of what its names say of its own place, once, and of nothing else", async () => {
    const endpoints = fc.array(fc.record({ place, heard }), { minLength: 4, maxLength: 6 });
    const events = fc.array(fc.record({ place, name: fc.constantFrom(...NAMES) }), { minLength: 6, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(endpoints, events, async (endpoints, events) => {
        const { as, acme, globex, asDeveloper } = await newApp();
        const calls = { acme: as(acme), globex: as(globex), app: asDeveloper };
        const receivers = await Promise.all(endpoints.map(() => receiving()));
        const make = ({ place, heard }: (typeof endpoints)[number], i: number) =>
          anEndpoint(calls[place], receivers[i]!, { event_names: heard });
        await Promise.all(endpoints.map(make));
        await Promise.all(events.map(({ place, name }, n) => tell(calls[place], n, { name })));
        const isHeard = (names: string[], name: string) =>
          names.some((one) => one === name || (one.endsWith("*") && name.startsWith(one.slice(0, -1))));
        const expected = endpoints.map((endpoint) =>
          events.flatMap(({ place, name }, n) =>
            (endpoint.place === "app" || endpoint.place === place) && isHeard(endpoint.heard, name) ? [n] : [],
          ),
        );
        const told = () =>
          receivers.map(({ received }) => received.map(({ body }) => body.data.n).sort((a, b) => a - b));
        await expect.poll(told, { timeout: 20_000 }).toEqual(expected);
        await wait(100);
        expect(told()).toEqual(expected);
      }),
      { numRuns: 2 },
    );
  });

  it("its deliveries show who is no admin those of events that they may read, and no number of one", async () => {
    const { owner, as, acme, owners, receiver, endpoint } = await told({ event_names: ["agent.created", "custom.*"] });
    const member = as(acme, { role: "member" });
    const mine = { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read"] }] };
    await anAgent(owner, { acl: mine });
    await tell(owner, 1);
    await came(receiver, 2);
    const [open, hidden] = await expect
      .poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered"))
      .toHaveLength(2)
      .then(() => deliveriesOf(owner, endpoint));
    expect([open.event_name, hidden.event_name]).toEqual(["custom.order", "agent.created"]);
    expect(open.sequence).toEqual(expect.any(Number));
    expect(await deliveriesOf(member, endpoint)).toEqual([{ ...open, sequence: null }]);
    const one = ({ id }: { id: string }) => `/api/v1/webhook_deliveries/${id}`;
    expect(await must(member("GET", one(open)), 200)).toMatchObject({ id: open.id, sequence: null });
    const absent = await member("GET", one({ id: `${hidden.id.slice(0, -4)}0000` }));
    const refused = await member("GET", one(hidden));
    expect([refused.status, refused.body.error]).toEqual([404, absent.body.error]);
    expect(await must(owner("GET", one(hidden)), 200)).toMatchObject({ sequence: hidden.sequence });
  });
});

describe("a secret", () => {
  it("signs beside the one before for as long as was asked; a third is a 409", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told();
    const { secret } = await must(owner("POST", `${at(endpoint)}/rotate_secret`, { overlap_seconds: 3 }), 200);
    expect(secret).not.toBe(endpoint.secret);
    const third = await owner("POST", `${at(endpoint)}/rotate_secret`, {});
    expect([third.status, third.body.error.code]).toEqual([409, "rotation_under_way"]);
    await tell(owner, 1);
    const [both] = await came(receiver, 1);
    expect([endpoint.secret, secret].map((one) => signedBy(one, both!))).toEqual([true, true]);
    await wait(3_100);
    await tell(owner, 2);
    const [, one] = await came(receiver, 2);
    expect([endpoint.secret, secret].map((by) => signedBy(by, one!))).toEqual([false, true]);
    const next = await must(owner("POST", `${at(endpoint)}/rotate_secret`, { overlap_seconds: 0 }), 200);
    await tell(owner, 3);
    const [, , last] = await came(receiver, 3);
    expect([secret, next.secret].map((by) => signedBy(by, last!))).toEqual([false, true]);
    const day = await must(owner("POST", `${at(endpoint)}/rotate_secret`, {}), 200);
    expect(Date.parse(day.overlap_expires_at) - Date.now()).toBeGreaterThan(86_000_000);
    expect((await owner("POST", `${at(endpoint)}/rotate_secret`, { overlap_seconds: 604_801 })).status).toBe(422);
  });

  it("is rotated by one of those who do so at once; whatever is sent meanwhile, one of the two verifies", async ({
    expect,
  }) => {
    const { owner, receiver, endpoint } = await told();
    const rotating = together(5, () => owner("POST", `${at(endpoint)}/rotate_secret`, {}));
    await together(10, (n) => tell(owner, n));
    const rotated = await rotating;
    expect(rotated.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409]);
    const secrets = [endpoint.secret, rotated.find(({ status }) => status === 200)!.body.secret];
    for (const one of await came(receiver, 10)) expect(secrets.some((secret) => signedBy(secret, one))).toBe(true);
  });
});

describe.concurrent("what isn't answered with a 2xx", () => {
  it("is sent again some seconds later, under the same id, with a timestamp of its own", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({}, says(500, {}, "no"));
    const { id } = await tell(owner, 1);
    await came(receiver, 1);
    receiver.answer(says(204));
    const [first, second] = await came(receiver, 2);
    expect([first!.id, second!.id]).toEqual([id, id]);
    expect(second!.at - first!.at).toBeGreaterThan(3_900);
    expect(second!.at - first!.at).toBeLessThan(9_000);
    expect(second!.headers["webhook-timestamp"]).not.toBe(first!.headers["webhook-timestamp"]);
    for (const one of [first!, second!]) expect(signedBy(endpoint.secret, one)).toBe(true);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(1);
    const [{ id: delivery }] = await deliveriesOf(owner, endpoint);
    const { attempts } = await must(owner("GET", `/api/v1/webhook_deliveries/${delivery}`), 200);
    expect(attempts.map(({ status, answered }: any) => [status, answered])).toEqual([
      [500, "no"],
      [204, ""],
    ]);
  });

  it("waits as long as the receiver asks, and holds up nothing else", async ({ expect }) => {
    const answers: Parameters<typeof aReceiver>[0] = (response, { body }) =>
      (body.data.n === 1 ? says(503, { "Retry-After": "3600" }) : says(200))(response, {} as never, 0);
    const { owner, receiver, endpoint } = await told({}, answers);
    await tell(owner, 1);
    await came(receiver, 1);
    await tell(owner, 2);
    await came(receiver, 2);
    const waiting = async () => deliveriesOf(owner, endpoint, "?status[]=pending");
    await expect.poll(async () => (await waiting())[0]?.attempt_count).toBe(1);
    const [{ next_attempt_at }] = await waiting();
    expect(Date.parse(next_attempt_at) - Date.now()).toBeGreaterThan(3_500_000);
  });

  it("follows no redirect, and is sent no second time where it leads", async ({ expect }) => {
    const elsewhere = await receiving();
    const { owner, receiver, endpoint } = await told({}, says(302, { Location: elsewhere.url }));
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(async () => (await deliveriesOf(owner, endpoint))[0]?.attempt_count).toBe(1);
    expect((await deliveriesOf(owner, endpoint))[0]).toMatchObject({ status: "pending" });
    expect(elsewhere.received).toEqual([]);
  });

  it("ends the endpoint where the receiver says that it is gone; enabled, what waited goes on", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({}, says(410));
    await tell(owner, 1);
    await is(owner, endpoint, { status: "disabled", disabled_reason: "gone" });
    receiver.answer(says(200));
    await wait(6_500);
    expect(receiver.received).toHaveLength(1);
    await must(owner("POST", `${at(endpoint)}/enable`, {}), 200);
    await came(receiver, 2);
  });
});

describe.concurrent("a receiver", () => {
  it("that drips, or answers 10 MB, has been told with its status; of its answer a KB is kept, without the secret", async ({
    expect,
  }) => {
    let secret = "";
    const { owner, receiver, endpoint } = await told({}, (response) => {
      response.writeHead(200);
      response.write(`${secret} ${Buffer.from(secret).toString("base64")} `);
      response.end(Buffer.alloc(10_000_000, "x"));
    });
    secret = endpoint.secret;
    const shown = async (n: number) => {
      await tell(owner, n);
      await came(receiver, n);
      await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(n);
      const [{ id }] = await deliveriesOf(owner, endpoint);
      return (await must(owner("GET", `/api/v1/webhook_deliveries/${id}`), 200)).attempts[0];
    };
    const large = await shown(1);
    expect(large.answered.length).toBeLessThanOrEqual(1024);
    expect(large.answered).toMatch(/^\*\*\*\* \*\*\*\*/);
    expect(large.answered).not.toContain(secret.slice(10, 30));
    const dripping: NodeJS.Timeout[] = [];
    receiver.answer((response) => {
      response.writeHead(200);
      dripping.push(setInterval(() => response.write("."), 100));
    });
    const begun = Date.now();
    const slow = await shown(2);
    for (const drip of dripping) clearInterval(drip);
    expect(Date.now() - begun).toBeLessThan(10_000);
    expect(slow).toMatchObject({ status: 200, answered: expect.stringMatching(/^\.+$/) });
  });

  it("that hangs is given up after 15 seconds, and meanwhile has six of them; another endpoint waits for nothing", {
    timeout: 60_000,
  }, async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({}, () => {});
    const other = await receiving();
    await anEndpoint(owner, other);
    await together(8, (n) => tell(owner, n));
    await came(other, 8);
    await came(receiver, 6);
    await wait(1_000);
    expect([receiver.received.length, receiver.most()]).toEqual([6, 6]);
    await came(receiver, 8);
    expect(receiver.received[6]!.at - receiver.received[0]!.at).toBeGreaterThan(14_000);
    await expect
      .poll(async () => (await deliveriesOf(owner, endpoint)).filter((one) => one.attempt_count).length)
      .toBe(6);
    const list = await deliveriesOf(owner, endpoint);
    const { id } = list.find(({ attempt_count }) => attempt_count);
    const [attempt] = (await must(owner("GET", `/api/v1/webhook_deliveries/${id}`), 200)).attempts;
    expect(attempt).toMatchObject({ status: null, answered: null, error: "no answer within 15 seconds" });
    await must(owner("DELETE", at(endpoint)), 204);
  });

  it("has as many at once as its endpoint's share of the org's", async ({ expect }) => {
    const { app, owner, receiver } = await told({}, (response) => void setTimeout(() => response.end(), 300));
    await query(`update data.apps set settings = '{"quotas": {"webhook_attempts_at_once": 4}}' where id = $1`, [app]);
    await anEndpoint(owner, { url: "https://example.com/" }, { event_names: ["custom.none"] });
    await together(8, (n) => tell(owner, n));
    await came(receiver, 8);
    expect(receiver.most()).toBe(2);
  });
});

describe.concurrent("an endpoint at which as many wait as may", () => {
  it("lists what comes then as dead, and is given it by a replay when there is room", async ({ expect }) => {
    let isDown = true;
    const { app, owner, receiver, endpoint } = await told({}, (response) =>
      response.writeHead(isDown ? 500 : 200).end(),
    );
    await query(`update data.apps set settings = '{"quotas": {"webhook_deliveries_waiting": 3}}' where id = $1`, [app]);
    // Changed, it looks its quotas up anew.
    await must(owner("PATCH", at(endpoint), { ordering: "none", event_names: ["custom.order"] }), 200);
    for (const n of [0, 1, 2, 3, 4]) await tell(owner, n);
    const listed = () => deliveriesOf(owner, endpoint);
    await expect.poll(async () => (await listed()).filter(({ status }) => status === "dead")).toHaveLength(2);
    const dead = (await listed()).filter(({ status }) => status === "dead");
    expect(dead.map(({ attempt_count, next_attempt_at }) => [attempt_count, next_attempt_at])).toEqual([
      [0, null],
      [0, null],
    ]);
    const reached = async () => (await pull(owner)).events.filter((one: any) => one.event_name === "quota.reached");
    await expect.poll(reached).toMatchObject([{ payload: { quota: "webhook_deliveries_waiting", limit: 3 } }]);
    const again = { ...everAfter, statuses: ["dead"] };
    for (const refused of [
      await owner("POST", `${at(endpoint)}/replay`, again),
      await owner("POST", `/api/v1/webhook_deliveries/${dead[0].id}/replay`),
    ]) {
      expect([refused.status, refused.body.error.code]).toEqual([422, "limit_reached"]);
    }
    isDown = false;
    await expect
      .poll(async () => (await listed()).filter(({ status }) => status === "pending"), { timeout: 15_000 })
      .toEqual([]);
    expect((await must(owner("POST", `${at(endpoint)}/replay`, again), 200)).count).toBe(2);
    await expect.poll(async () => (await listed()).map(({ status }) => status)).toEqual(Array(5).fill("delivered"));
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(5);
  });
});

describe.concurrent("in strict order", () => {
  it("an event is sent when the one before it was delivered, whatever fails", async ({ expect }) => {
    const failing = new Set([1, 4]);
    const { owner, receiver } = await told({ ordering: "strict" }, (response, { body }) =>
      response.writeHead(failing.delete(body.data.n) ? 500 : 200).end(),
    );
    for (const n of [0, 1, 2, 3, 4, 5]) await tell(owner, n);
    await came(receiver, 8);
    expect(receiver.orders()).toEqual([0, 1, 1, 2, 3, 4, 4, 5]);
    expect(receiver.most()).toBe(1);
  });
});

describe.concurrent("a disabled endpoint", () => {
  it("is sent nothing; enabled, it says what it has missed, which a replay brings without a gap", async ({
    expect,
  }) => {
    const { owner, acme, receiver, endpoint } = await told();
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(1);
    const disabled = await must(owner("PATCH", at(endpoint), { status: "disabled" }), 200);
    expect(disabled).toMatchObject({ status: "disabled", disabled_reason: "asked", disabled_at: expect.any(String) });
    const lost = await together(5, (n) => tell(owner, n + 2));
    // Its Dispatcher has passed them.
    const passed = "select 1 from data.event_heads where org_id = $1 and delivered = sequence and sequence > 5";
    await expect.poll(() => query(passed, [acme])).toHaveLength(1);
    expect(await must(owner("PATCH", at(endpoint), { status: "disabled" }), 200)).toEqual(disabled);
    await tell(owner, 9, { name: "custom.other" });
    await wait(300);
    expect(receiver.orders()).toEqual([1]);
    const early = await owner("POST", `${at(endpoint)}/replay`, { from_sequence: 1, to_sequence: 99 });
    expect([early.status, early.body.error.code]).toEqual([409, "endpoint_disabled"]);
    const { missed, ...enabled } = await must(owner("POST", `${at(endpoint)}/enable`, {}), 200);
    expect(enabled).toMatchObject({ status: "enabled", disabled_reason: null, disabled_at: null });
    const sequences = (await pull(owner)).events.filter(({ id }) => lost.some((one) => one.id === id));
    const all = sequences.map(({ sequence }) => sequence);
    expect(missed).toEqual({ from_sequence: Math.min(...all), to_sequence: Math.max(...all), count: 5 });
    const { count: _, ...range } = missed;
    expect(await must(owner("POST", `${at(endpoint)}/replay`, range), 200)).toEqual({
      ...{ count: 5, next_from_sequence: null, next_from: null },
    });
    await came(receiver, 6);
    expect(receiver.orders().sort()).toEqual([1, 2, 3, 4, 5, 6]);
    // Who enables it once more, passes nothing over that is numbered and not yet sent.
    const heard = "select heard_after from data.webhook_endpoints where id = $1";
    const before = await query(heard, [endpoint.id]);
    expect((await must(owner("POST", `${at(endpoint)}/enable`, {}), 200)).missed.count).toBe(0);
    expect(await query(heard, [endpoint.id])).toEqual(before);
  });

  it("loses nothing of what is told while it is disabled, enabled and replayed", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told();
    const ids: string[] = [];
    const telling = together(4, async (writer) => {
      for (let n = 0; n < 8; n++) ids.push((await tell(owner, `${writer} ${n}`)).id);
    });
    for (let round = 0; round < 3; round++) {
      await must(owner("PATCH", at(endpoint), { status: "disabled" }), 200);
      await wait(60);
      const { missed } = await must(owner("POST", `${at(endpoint)}/enable`, {}), 200);
      const { count, ...range } = missed;
      if (count) await must(owner("POST", `${at(endpoint)}/replay`, range), 200);
    }
    await telling;
    const missing = () => ids.filter((id) => !receiver.received.some((one) => one.id === id));
    await expect.poll(missing).toEqual([]);
  });
});

describe.concurrent("a replay", () => {
  it("takes a range by sequence or by time, names, and what became of them", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({ event_names: ["custom.order", "custom.b"] });
    await tell(owner, 1);
    await tell(owner, 2, { name: "custom.b" });
    await tell(owner, 3, { name: "custom.c" });
    await came(receiver, 2);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(2);
    const replay = (body: object) => owner("POST", `${at(endpoint)}/replay`, body);
    const count = async (body: object) => (await must(replay(body), 200)).count;
    const [first] = [...receiver.received].sort((a, b) => a.body.sequence - b.body.sequence);
    const { sequence } = first!.body;
    expect(await count({ from_sequence: sequence, to_sequence: sequence })).toBe(1);
    await came(receiver, 3);
    expect(receiver.received[2]!.id).toBe(first!.id);
    expect(await count({ ...everAfter, event_names: ["custom.c"] })).toBe(0);
    expect(await count({ ...everAfter, event_names: ["custom.b"] })).toBe(1);
    await came(receiver, 4);
    const attempts = async () => (await deliveriesOf(owner, endpoint)).map((one) => one.attempt_count);
    await expect.poll(attempts).toEqual([2, 2]);
    expect(await count({ ...everAfter, statuses: ["dead", "pending"] })).toBe(0);
    expect(await count({ ...everAfter, to: "2026-01-02T00:00:00Z" })).toBe(0);
    expect(await attempts()).toEqual([2, 2]);
    for (const body of [
      {},
      { from_sequence: 1 },
      { from_sequence: 1, to: everAfter.to },
      { ...everAfter, to_sequence: 1 },
    ])
      expect((await replay(body)).status).toBe(422);
    const [{ id }] = await deliveriesOf(owner, endpoint);
    expect(await must(owner("POST", `/api/v1/webhook_deliveries/${id}/replay`), 200)).toMatchObject({
      status: "pending",
    });
    await came(receiver, 5);
  });

  it("takes five thousand, page by page, and says where the rest begins", { timeout: 60_000 }, async ({ expect }) => {
    const { at: app, acme, owner, asDeveloper, endpoint } = await told();
    await pull(owner);
    // Suspended: all is taken in, and nothing is sent.
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "suspended" }), 200);
    await query(
      `with h as (update data.event_heads set sequence = sequence + 5001, delivered = sequence + 5001 where org_id = $1 returning *)
        insert into data.events (app_id, sandbox_id, org_id, id, name, payload, sequence, created_at)
          select app_id, sandbox_id, org_id, 'evt_' || left(app.id_at(at), 12) || lpad(n::text, 10, '0'), 'custom.order', '{}',
              h.sequence - 5001 + n, at
            from h, generate_series(1, 5001) n, lateral (select date_trunc('milliseconds', now()) - interval '1 day' + n * interval '1 ms') a (at)`,
      [acme],
    );
    const [{ first, from, to }] = await query(
      `select min(sequence)::int as first, min(created_at) as from, (array_agg(created_at order by sequence))[250] as to
        from data.events where org_id = $1 and payload = '{}' and name = 'custom.order'`,
      [acme],
    );
    const replay = (body: object) => must(asDeveloper("POST", `${at(endpoint)}/replay`, body), 200);
    const kept = async () =>
      (await query("select count(*)::int as n from data.webhook_deliveries where endpoint_id = $1", [endpoint.id]))[0]
        .n;
    const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    expect(await replay(range)).toMatchObject({ count: 250, next_from: null });
    await expect.poll(kept, { timeout: 20_000 }).toBe(250);
    const rest = { count: 5000, next_from_sequence: first + 5000, next_from: null };
    expect(await replay({ from_sequence: first, to_sequence: first + 9999 })).toEqual(rest);
    const last = { from_sequence: first + 5000, to_sequence: first + 9999 };
    expect(await replay(last)).toEqual({ count: 1, next_from_sequence: null, next_from: null });
    await expect.poll(kept, { timeout: 20_000 }).toBe(5001);
    await must(asDeveloper("DELETE", at(endpoint)), 204);
  });

  it("by a key, which sees every org, is of the endpoint's own", async ({ expect }) => {
    const { as, globex, asDeveloper, owner, receiver, endpoint } = await told();
    await tell(as(globex), 2);
    await tell(owner, 1);
    await pull(as(globex));
    await came(receiver, 1);
    for (const range of [everAfter, { from_sequence: 1, to_sequence: 999 }]) {
      expect((await must(asDeveloper("POST", `${at(endpoint)}/replay`, range), 200)).count).toBe(1);
    }
    await came(receiver, 2);
    await wait(200);
    expect(new Set(receiver.orders())).toEqual(new Set([1]));
  });

  it("of what is kept no longer is a 410", async ({ expect }) => {
    const { owner, receiver, endpoint, acme } = await told();
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(1);
    const { sequence } = receiver.received[0]!.body;
    const expire = (through: number) =>
      query("update data.event_heads set expired = $2 where org_id = $1", [acme, through]);
    const replay = () => owner("POST", `${at(endpoint)}/replay`, { from_sequence: sequence, to_sequence: 999 });
    await expire(sequence - 1);
    expect(await must(replay(), 200)).toMatchObject({ count: 1 });
    await came(receiver, 2);
    await expire(sequence);
    await query("delete from data.events where org_id = $1", [acme]);
    const range = await replay();
    expect([range.status, range.body.error.code]).toEqual([410, "events_expired"]);
    const [{ id }] = await deliveriesOf(owner, endpoint);
    expect((await owner("POST", `/api/v1/webhook_deliveries/${id}/replay`)).status).toBe(410);
  });
});

describe.concurrent("an endpoint that fails", () => {
  const failing = "select failing_since from data.webhook_endpoints where id = $1";
  const since = (endpoint: { id: string }, ago: string) =>
    query(`update data.webhook_endpoints set failing_since = now() - $2::interval where id = $1`, [endpoint.id, ago]);

  it("says since when, until an attempt succeeds; is told of after an hour, a day and four days; ends after five", async ({
    expect,
  }) => {
    const { owner, receiver, endpoint, asDeveloper } = await told({}, says(500));
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(async () => (await query(failing, [endpoint.id]))[0].failing_since).not.toBeNull();
    const events = async () =>
      (await pull(owner)).events.filter(({ event_name }) => /webhook_endpoint\.(failing|disabled)/.test(event_name));
    for (const [n, ago] of ["59 minutes", "61 minutes", "25 hours", "97 hours"].entries()) {
      await since(endpoint, ago);
      const { length } = receiver.received;
      await hurry(endpoint, asDeveloper);
      await came(receiver, length + 1);
      await expect.poll(async () => (await events()).length).toBe(n);
    }
    await wait(300);
    expect(await events()).toHaveLength(3);
    receiver.answer(says(200));
    await hurry(endpoint, asDeveloper);
    await expect.poll(async () => (await query(failing, [endpoint.id]))[0].failing_since).toBeNull();
    receiver.answer(says(500));
    await tell(owner, 2);
    await expect.poll(async () => (await query(failing, [endpoint.id]))[0].failing_since).not.toBeNull();
    await since(endpoint, "121 hours");
    await hurry(endpoint, asDeveloper);
    await is(owner, endpoint, { status: "disabled", disabled_reason: "failing" });
    const told4 = await events();
    expect(told4.at(-1)).toMatchObject({ event_name: "webhook_endpoint.disabled", payload: { reason: "failing" } });
    // As if that had been told of, too.
    await query("update data.webhook_endpoints set failing_told = 3 where id = $1", [endpoint.id]);
    // What waits goes on when it is enabled.
    receiver.answer(says(200));
    await must(owner("POST", `${at(endpoint)}/enable`, {}), 200);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(2);
    await is(owner, endpoint, { status: "enabled", failing_since: null });
    // It fails anew, and is told of anew.
    receiver.answer(says(500));
    await tell(owner, 3);
    await expect.poll(async () => (await query(failing, [endpoint.id]))[0].failing_since).not.toBeNull();
    await since(endpoint, "61 minutes");
    await hurry(endpoint, asDeveloper);
    await expect.poll(async () => (await events()).length).toBe(told4.length + 1);
  });
});

describe.concurrent("enabled, or active again, an endpoint", () => {
  const failing = async (endpoint: { id: string }) =>
    (await query("select failing_since from data.webhook_endpoints where id = $1", [endpoint.id]))[0].failing_since;
  /** Its one delivery has failed, and comes again in an hour: nothing of it is due. */
  async function failed() {
    const all = await told({}, says(503, { "Retry-After": "3600" }));
    await tell(all.owner, 1);
    await expect.poll(() => failing(all.endpoint)).not.toBeNull();
    return all;
  }

  it("begins to fail anew, though nothing was due meanwhile", async ({ expect }) => {
    const { owner, receiver, endpoint } = await failed();
    await must(owner("PATCH", at(endpoint), { status: "disabled" }), 200);
    await wait(300);
    await must(owner("POST", `${at(endpoint)}/enable`, {}), 200);
    receiver.answer((response) => void setTimeout(() => response.end(), 1_000));
    await tell(owner, 2);
    await came(receiver, 2);
    await wait(500);
    expect(await failing(endpoint)).toBeNull();
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(1);
  });

  it("isn't disabled for days in which its org was suspended", async ({ expect }) => {
    const { owner, receiver, endpoint, asDeveloper, at: app, acme } = await failed();
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "suspended" }), 200);
    await query("update data.webhook_endpoints set failing_since = now() - interval '6 days' where id = $1", [
      endpoint.id,
    ]);
    await tell(asDeveloper, 2, { org: acme });
    await expect.poll(() => deliveriesOf(asDeveloper, endpoint)).toHaveLength(2);
    await wait(500);
    receiver.answer(says(200));
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "active" }), 200);
    await came(receiver, 2);
    await is(owner, endpoint, { status: "enabled", failing_since: null });
  });

  it("isn't disabled by what its address before says, that it is gone", async ({ expect }) => {
    const gone: (() => void)[] = [];
    const { owner, receiver, endpoint } = await told(
      {},
      (response) => void gone.push(() => says(410)(response, {} as never, 0)),
    );
    await tell(owner, 1);
    await came(receiver, 1);
    const other = await receiving();
    await must(owner("PATCH", at(endpoint), { url: other.url }), 200);
    await tell(owner, 2);
    await came(other, 1);
    for (const say of gone) say();
    await came(other, 2);
    await is(owner, endpoint, { status: "enabled" });
    expect(new Set(other.orders())).toEqual(new Set([1, 2]));
  });
});

describe.concurrent("a suspended org", () => {
  it("is sent nothing from within five seconds on; lifted, it goes on where it stood", {
    timeout: 60_000,
  }, async ({ expect }) => {
    const { owner, receiver, endpoint, asDeveloper, at: app, acme } = await told({}, says(500));
    await tell(owner, 1);
    await came(receiver, 1);
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "suspended" }), 200);
    await wait(2_500);
    receiver.answer(says(200));
    const { length } = receiver.received;
    await tell(asDeveloper, 2, { org: acme });
    await wait(5_000);
    expect(receiver.received.length).toBe(length);
    const test = await asDeveloper("POST", `${at(endpoint)}/test`);
    expect([test.status, test.body.error.code]).toEqual([403, "org_suspended"]);
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "active" }), 200);
    await came(receiver, length + 2);
    expect(new Set(receiver.orders())).toEqual(new Set([1, 2]));
  });
});

describe("a test", () => {
  it("sends a sample now, once, signed, and says what came of it", async ({ expect }) => {
    const { owner, receiver, endpoint, acme } = await told({}, says(418, {}, "tea"));
    const tested = await must(owner("POST", `${at(endpoint)}/test`), 200);
    expect(tested).toMatchObject({ status: 418, answered: "tea", error: null });
    expect(receiver.received).toHaveLength(1);
    expect(signedBy(endpoint.secret, receiver.received[0]!)).toBe(true);
    expect(receiver.received[0]!.body).toMatchObject({
      ...{ type: "webhook_endpoint.test", org: acme, sequence: null, data: { endpoint: endpoint.id } },
    });
    receiver.close();
    expect(await must(owner("POST", `${at(endpoint)}/test`), 200)).toMatchObject({
      ...{ status: null, answered: null, error: expect.any(String) },
    });
    expect(await deliveriesOf(owner, endpoint)).toEqual([]);
  });

  it("is a 429 while as much is under way as may be", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({}, () => {});
    await together(6, (n) => tell(owner, n));
    await came(receiver, 6);
    const test = await owner("POST", `${at(endpoint)}/test`);
    expect([test.status, test.body.error.code]).toEqual([429, "too_many_requests"]);
    expect(receiver.received).toHaveLength(6);
    await must(owner("DELETE", at(endpoint)), 204);
  });
});

describe.concurrent("deleted", () => {
  it("an endpoint is sent nothing more, and the sweep erases its object", async ({ expect }) => {
    const { owner, receiver, endpoint } = await told({}, says(500));
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(() => deliveriesOf(owner, endpoint)).toHaveLength(1);
    const [{ id }] = await deliveriesOf(owner, endpoint);
    await must(owner("DELETE", at(endpoint)), 204);
    expect((await owner("GET", `/api/v1/webhook_deliveries/${id}`)).status).toBe(404);
    expect((await owner("GET", `${at(endpoint)}/deliveries`)).status).toBe(404);
    const left = () => query("select from app.erasures where id = $1", [endpoint.id]);
    expect(await left()).toHaveLength(1);
    await own.fireCrons();
    await expect.poll(left).toEqual([]);
    await wait(6_000);
    expect(receiver.received).toHaveLength(1);
  });

  it("deliveries are, when they were kept thirty days, or as long as the app says", async ({ expect }) => {
    const { app, owner, receiver, endpoint } = await told();
    await tell(owner, 1);
    await came(receiver, 1);
    await expect.poll(() => deliveriesOf(owner, endpoint, "?status[]=delivered")).toHaveLength(1);
    const aged = (days: number) =>
      query(
        "update data.webhook_deliveries set id = 'whd_' || app.id_at(now() - $2 * interval '1 day') where endpoint_id = $1",
        [...[endpoint.id, days]],
      );
    await aged(29);
    await query("select app.sweep()");
    expect(await deliveriesOf(owner, endpoint)).toHaveLength(1);
    await query(`update data.apps set settings = '{"retention_days": {"webhook_deliveries": 28}}' where id = $1`, [
      app,
    ]);
    // While another sweep is under way, that of the minute, this one does nothing.
    await expect
      .poll(async () => {
        await query("select app.sweep()");
        return deliveriesOf(owner, endpoint);
      })
      .toEqual([]);
  });
});

describe("a secret at rest", () => {
  it("is in no row as it stands; it is sealed anew, in the row that it was made for and in no other", async ({
    expect,
  }) => {
    const { owner, endpoint } = await told();
    const { secret } = await must(owner("POST", `${at(endpoint)}/rotate_secret`, {}), 200);
    await must(owner("POST", `${at(endpoint)}/test`), 200);
    const tables = await query<{ name: string }>(
      "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('data', 'app')",
    );
    for (const { name } of tables) {
      for (const one of [endpoint.secret, secret]) {
        const hex = Buffer.from(one).toString("hex");
        const shown = "select left(t::text, 100) from $t t where strpos(t::text, $1) > 0 or strpos(t::text, $2) > 0";
        expect(await query(shown.replace("$t", name), [one.slice("whsec_".length), hex])).toEqual([]);
      }
    }
    const row = async () => (await query("select * from data.webhook_endpoints where id = $1", [endpoint.id]))[0];
    const fresh = newRoot();
    expect(await reseal(own.database, `${fresh},${root}`)).toBeGreaterThan(0);
    const now = Date.now();
    const kept = { ...(await row()), overlap_expires_at: new Date(now + 1000).toISOString() };
    expect(await secretsOf(fresh, kept, now)).toEqual([secret, endpoint.secret]);
    expect(await secretsOf(fresh, kept, now + 1000)).toEqual([secret]);
    await expect(secretsOf(root, kept, now)).rejects.toThrow("root secret");
    await expect(secretsOf(fresh, { ...kept, org_id: "org_0000000000000000000000" }, now)).rejects.toThrow("not open");
    await reseal(own.database, `${root},${fresh}`);
  });
});
