/** What comes to an address of a webhook: whom it believes, what it writes, and what it starts. */
import { beforeAll, describe, expect, it } from "vitest";
import { pull } from "../events/stage.ts";
import { aSecret } from "../harness/canary.ts";
import {
  type Answer,
  type App,
  anAgent,
  anApp,
  bearer,
  type Call,
  must,
  sql,
  system,
  together,
  unique,
} from "../harness/index.ts";
import { type Headers, senders } from "./senders.ts";

const AT = "/api/v1/inbound_webhooks";
let app: App;
let owner: Call;
beforeAll(async () => {
  app = await anApp();
  owner = app.as(app.acme);
  await must(app.asDeveloper("PATCH", app.at, { settings: { quotas: { inbound_webhooks: 1000 } } }), 200);
});

const pathOf = (url: string) => new URL(url).pathname;
const make = (fields: object, call = owner): Promise<any> => must(call("POST", AT, { name: "A hook", ...fields }), 201);
const send = (hook: { url: string }, body: string, headers: Headers = {}): Promise<Answer> =>
  app.asNobody("POST", pathOf(hook.url), body, headers);
const receiptOf = async (answer: Promise<Answer>): Promise<any> =>
  must(owner("GET", `/api/v1/webhook_receipts/${(await must(answer, 202)).receipt}`), 200);
const eventsOf = (hook: { id: string }): Promise<any[]> =>
  sql("select id, name, payload from data.events where payload ->> 'webhook' = $1 order by position", [hook.id]);
const runsOf = (event: string): Promise<any[]> =>
  sql("select * from data.agent_routine_runs where event_id = $1", [event]);
/** A refusal without what names its request. */
const toTheByte = ({ status, headers, text, body }: Answer) => ({
  ...{ status, text: text.replaceAll(body.request_id, "…") },
  headers: [...headers].filter(([name]) => !["x-request-id", "date"].includes(name)),
});

const aRoutine = async (fields: object = {}, call = owner): Promise<any> => {
  const { id } = await anAgent(call);
  const routine = {
    name: "R",
    handler_type: "script",
    script: "$",
    schedule: "0 9 1 1 *",
    status: "active",
    ...fields,
  };
  return must(call("POST", `/api/v1/agents/${id}/agent_routines`, routine), 200);
};
const anAutomation = async (said: object = {}): Promise<any> => {
  const save = (kind: string, mime_type: string, raw_content: string) =>
    must(owner("POST", "/api/v1/config", { kind, mime_type, raw_content, lookup_key: unique("c") }), 201);
  const { id } = await save("Script", "text/plain", "$");
  return save("Automation", "application/json", JSON.stringify({ name: "A", config_ref: id, ...said }));
};

describe.each(Object.entries(senders))("%s", (_, { provider, fields, secret, body, sign, bears, timed }) => {
  let hook: any;
  let key: string;
  beforeAll(async () => {
    key = secret();
    hook = await make({ provider, secret: key, ...fields });
  });
  const signed = async (id: string, { at = new Date(), by = key, text = body(id) } = {}) =>
    [text, await sign(by, text, id, at)] as const;

  it("is believed, and told as it came, without what makes it believed", async () => {
    const id = unique("d");
    const receipt = await receiptOf(send(hook, ...(await signed(id))));
    expect(receipt).toMatchObject({
      webhook: hook.id,
      delivery_id: id,
      status: "received",
      run: null,
      replay_of: null,
    });
    const { token: _, ...came } = JSON.parse(body(id));
    expect(receipt.body).toEqual(came);
    const event = (await eventsOf(hook)).find((one) => one.payload.receipt === receipt.id);
    expect(event).toMatchObject({ id: receipt.event, name: "webhook.inbound" });
    expect(event.payload).toEqual({
      ...{ webhook: hook.id, receipt: receipt.id, name: "A hook", provider, delivery_id: id },
      ...{ headers: receipt.headers, body: receipt.body },
    });
    expect(Object.keys(receipt.headers)).not.toContain(bears);
  });

  it("comes once, however often it is sent", async () => {
    const id = unique("again");
    const first = await must(send(hook, ...(await signed(id))), 202);
    const later = { at: new Date(Date.now() + 60_000) };
    expect(await must(send(hook, ...(await signed(id, later))), 202)).toEqual(first);
    const told = (await eventsOf(hook)).filter(({ payload }) => payload.delivery_id === id);
    expect(told.filter(({ name }) => name === "webhook.inbound")).toHaveLength(1);
    // After seven days nobody sends it again: it is another.
    const age = "update data.webhook_receipts set created_at = now() - $2::interval where id = $1";
    await sql(age, [first.receipt, "6 days 23 hours 59 minutes"]);
    expect(await must(send(hook, ...(await signed(id))), 202)).toEqual(first);
    await sql(age, [first.receipt, "7 days"]);
    expect((await must(send(hook, ...(await signed(id))), 202)).receipt).not.toBe(first.receipt);
  });

  it("has one refusal for every flaw, and writes nothing", async () => {
    const [text, headers] = await signed(unique("flaw"));
    const flawed = (change: (value: string) => string) => ({ ...headers, [bears]: change(headers[bears]!) });
    const other = (letter: string) => (letter === "0" ? "1" : "0");
    // Not at its end, where base64 has bits that say nothing.
    const end = (value: string) => value.slice(0, -8) + other(value.at(-8)!) + value.slice(-7);
    const { [bears]: _, ...bare } = headers;
    const minutes = (n: number) => new Date(Date.now() + n * 60_000 + Math.sign(n) * 2000);
    const all: [string, string, Headers][] = [
      ["nothing", text, {}],
      ["no signature", text, bare],
      ["an empty one", text, { ...headers, [bears]: "" }],
      ["another secret", ...(await signed(unique("flaw"), { by: secret() }))],
      ["a byte more", `${text} `, headers],
      ["a byte less", text.slice(0, -1), headers],
      ["another byte", text.replace("{", "["), headers],
      ["no body", "", headers],
      ["another end", text, flawed(end)],
      ["half of it", text, flawed((value) => value.slice(0, -20))],
      ["more than it", text, flawed((value) => `${value}00`)],
      ["no digits", text, flawed((value) => `${value.slice(0, -12)}--------${value.slice(-4)}`)],
      ["what isn't its prefix", text, flawed((value) => `x${value}`)],
      ...(timed
        ? ([
            ["five minutes ago", ...(await signed(unique("flaw"), { at: minutes(-5) }))],
            ["in five minutes", ...(await signed(unique("flaw"), { at: minutes(5) }))],
            ["another time", text, await otherTime(headers)],
          ] as [string, string, Headers][])
        : []),
    ];
    const before = await eventsOf(hook);
    const [first, ...rest] = await Promise.all(
      all.map(async ([, body, sent]) => toTheByte(await send(hook, body, sent))),
    );
    expect([first!.status, JSON.parse(first!.text).error.code]).toEqual([401, "invalid_signature"]);
    for (const [i, one] of rest.entries()) expect([all[i + 1]![0], one]).toEqual([all[i + 1]![0], first]);
    expect(await eventsOf(hook)).toEqual(before);
  });

  /** The same signature, whose time was moved by a second. */
  const otherTime = async (headers: Headers): Promise<Headers> =>
    Object.fromEntries(
      Object.entries(headers).map(([name, value]) =>
        name.endsWith("signature") && value.startsWith("t=")
          ? [name, value.replace(/\d+/, (at) => String(Number(at) + 1))]
          : [name, /timestamp|-at$/.test(name) ? String(Number(value) + 1) : value],
      ),
    );

  it.runIf(timed)("may be nearly five minutes off, either way", async () => {
    for (const off of [-290_000, 290_000]) {
      await must(send(hook, ...(await signed(unique("off"), { at: new Date(Date.now() + off) }))), 202);
    }
  });

  it("holds by both secrets at both addresses while they go on, and then by the last alone", async () => {
    const own = await make({ provider, secret: key, ...fields });
    const by = secret();
    const next = await must(owner("POST", `${AT}/${own.id}/rotate_secret`, { secret: by }), 200);
    const tries = async () =>
      Promise.all(
        [own, next].flatMap((at) =>
          [key, by].map(async (secret) => (await send(at, ...(await signed(unique("rot"), { by: secret })))).status),
        ),
      );
    expect(await tries()).toEqual([202, 202, 202, 202]);
    await sql("update data.inbound_webhooks set overlap_expires_at = now() where id = $1", [own.id]);
    expect(await tries()).toEqual([404, 404, 401, 202]);
  });
});

describe("a provider that rotates its own secret", () => {
  it.each(["standard", "svix", "stripe"])("and signs by both, as %s does, is believed by either", async (name) => {
    const { provider, secret, body, sign, bears } = senders[name]!;
    const [own, other] = [secret(), secret()];
    const hook = await make({ provider, secret: own });
    const [id, at] = [unique("two"), new Date()];
    const [good, bad] = await Promise.all([own, other].map((by) => sign(by, body(id), id, at)));
    const both = (one: Headers, two: Headers) => ({
      ...one,
      [bears]: name === "stripe" ? `${one[bears]},${two[bears]!.split(",")[1]}` : `${one[bears]} ${two[bears]}`,
    });
    const { receipt } = await must(send(hook, body(id), both(bad!, good!)), 202);
    expect(await must(send(hook, body(id), both(good!, bad!)), 202)).toEqual({ receipt });
    expect((await send(hook, body(id), both(bad!, bad!))).status).toBe(401);
    // A scheme that is another one's.
    const older = good![bears]!.replace(/v1([=,])/, "v0$1");
    expect((await send(hook, body(id), { ...good, [bears]: older })).status).toBe(401);
  });
});

describe("an address", () => {
  it("that is unknown, was deleted, is malformed, or of elsewhere, is one 404; a suspended org's the doors' 403", async () => {
    const hook = await make({ provider: "url" });
    const gone = await make({ provider: "url" });
    await must(owner("DELETE", `${AT}/${gone.id}`), 204);
    const rotated = await make({ provider: "url" });
    await must(owner("POST", `${AT}/${rotated.id}/rotate_secret`, { overlap_seconds: 0 }), 200);
    const { acme, as, at, asDeveloper } = await anApp();
    const suspended = await make({ provider: "url" }, as(acme));
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "suspended" }), 200);
    const end = (url: string) => url.slice(0, -1) + (url.endsWith("0") ? "1" : "0");
    const others = [
      ...[gone.url, rotated.url, end(hook.url), `${hook.url}0`, `${hook.url.slice(0, -44)}_`, "http://x/hooks/x"],
      // Its secret, in another org, in no org, and in a sandbox.
      hook.url.replace(app.acme.slice(4), app.globex.slice(4)),
      hook.url.replace(app.acme.slice(4), ""),
      hook.url.replace("__", `_${"0".repeat(21)}1_`),
      end(suspended.url),
    ];
    const answers = await Promise.all(others.map(async (url) => toTheByte(await send({ url }, "{}"))));
    expect(answers[0]).toMatchObject({ status: 404, text: expect.stringContaining("No such inbound webhook.") });
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    await must(send(hook, "{}"), 202);
    const refused = await send(suspended, "{}");
    expect([refused.status, refused.body.error.code]).toEqual([403, "org_suspended"]);
    expect(await eventsOf(suspended)).toEqual([]);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status: "active" }), 200);
    await must(send(suspended, "{}"), 202);
  });

  it("ends with its org, and with its sandbox", async () => {
    const { acme, as, at, asDeveloper } = await anApp();
    const hook = await make({ provider: "url" }, as(acme));
    const sandbox = await must(asDeveloper("POST", "/api/v1/sandboxes", { name: "S", slug: unique("s") }), 201);
    const { full_key } = await must(
      asDeveloper("POST", `/api/v1/sandboxes/${sandbox.id}/keys`, { type: "secret" }),
      200,
    );
    const inside = await must(app.asNobody("POST", AT, { name: "In", provider: "url" }, bearer(full_key)), 201);
    expect(inside).toMatchObject({ sandbox: sandbox.id, org: null });
    for (const one of [hook, inside]) await must(send(one, "{}"), 202);
    await must(asDeveloper("DELETE", `${at}/orgs/${acme}`), 204);
    await sql("update data.sandboxes set expires_at = now() where id = $1", [sandbox.id]);
    for (const one of [hook, inside]) expect((await send(one, "{}")).status).toBe(404);
  });

  it("takes 600 in a minute, good or not, and then says when it takes another", async () => {
    const hook = await make({ provider: "github" });
    const set = "update data.inbound_webhooks set counted = $2, counted_since = now() - $3::interval where id = $1";
    expect((await send(hook, "{}")).status).toBe(401);
    expect((await sql("select counted from data.inbound_webhooks where id = $1", [hook.id]))[0].counted).toBe(1);
    await sql(set, [hook.id, 599, "20 seconds"]);
    expect((await send(hook, "{}")).status).toBe(401);
    for (const _ of [1, 2]) {
      const refused = await send(hook, "{}");
      const after = Number(refused.headers.get("Retry-After"));
      expect([refused.status, after > 30, after <= 40]).toEqual([429, true, true]);
    }
    await sql(set, [hook.id, 601, "60 seconds"]);
    expect((await send(hook, "{}")).status).toBe(401);
  });

  it("is taken as it is now, however often it was taken as it was before", async () => {
    const { provider, fields, secret, body, sign } = senders.github!;
    const [key, newer] = [secret(), secret()];
    const hook = await make({ provider, secret: key, ...fields });
    const deliver = async (id: string, by = key) => send(hook, body(id), await sign(by, body(id), id, new Date()));
    for (const id of ["a", "b"]) expect((await receiptOf(deliver(id))).status).toBe("received");
    const { id: routine } = await aRoutine();
    await must(owner("PATCH", `${AT}/${hook.id}`, { name: "Renamed", routine }), 200);
    const started = await receiptOf(deliver("c"));
    expect(started).toMatchObject({ status: "started", run: expect.any(String) });
    expect((await eventsOf(hook)).at(-1).payload).toMatchObject({ receipt: started.id, name: "Renamed" });

    await sql("update data.inbound_webhooks set counted = 599, counted_since = now() where id = $1", [hook.id]);
    await must(deliver("d"), 202);
    const before = await eventsOf(hook);
    for (const id of ["e", "d"]) expect((await deliver(id)).status).toBe(429);
    expect(await eventsOf(hook)).toEqual(before);
    await sql("update data.inbound_webhooks set counted = 0 where id = $1", [hook.id]);

    await must(deliver("f"), 202);
    await must(owner("POST", `${AT}/${hook.id}/rotate_secret`, { secret: newer }), 200);
    await must(deliver("g", newer), 202);
    await must(deliver("h"), 202);
    await must(owner("DELETE", `${AT}/${hook.id}`), 204);
    expect((await deliver("h")).status).toBe(404);
  });

  it("takes a body of 1 MB and no byte more, which it looks at when the address is known", async () => {
    const hook = await make({ provider: "url" });
    const body = (bytes: number) => JSON.stringify("x".repeat(bytes - 2));
    expect((await receiptOf(send(hook, body(1_000_000)))).body).toHaveLength(999_998);
    expect((await send(hook, body(1_000_001))).status).toBe(413);
    const stream = () => new Blob([body(1_000_001)]).stream();
    const init = { method: "POST", body: stream(), duplex: "half" } as RequestInit;
    expect((await fetch(system.base + pathOf(hook.url), init)).status).toBe(413);
    expect((await send({ url: `${hook.url}0` }, body(1_000_001))).status).toBe(404);
  });
});

describe("a body", () => {
  const JSON_TYPE = { "Content-Type": "application/json" };
  const FORM = { "Content-Type": "application/x-www-form-urlencoded" };
  const deep = `${"[".repeat(100)}${"]".repeat(100)}`;
  const wide = `[${"1,".repeat(12_000)}1]`;
  it.each([
    ["JSON", '{"a": [1, "€", null]}', JSON_TYPE, { a: [1, "€", null] }],
    ["null", "null", JSON_TYPE, null],
    ["JSON that nobody calls so", '{"a": 1}', { "Content-Type": "text/plain" }, { a: 1 }],
    ["text", "12", { "Content-Type": "text/plain" }, "12"],
    ["a form", "command=%2Fdeploy&text=a+b", FORM, { command: "/deploy", text: "a b" }],
    ["a form with its payload as JSON", `payload=${encodeURIComponent('{"a": 1}')}`, FORM, { a: 1 }],
    ["broken JSON", '{"a": ', JSON_TYPE, '{"a": '],
    ["JSON that Postgres can't keep", '{"a": "\\u0000"}', JSON_TYPE, '{"a": "\\u0000"}'],
    ["JSON with half a letter", '{"a": "\\ud800"}', JSON_TYPE, '{"a": "\\ud800"}'],
    ["JSON whose numbers are long", "[1e300]", JSON_TYPE, "[1e300]"],
    ["JSON that is deep", deep, JSON_TYPE, deep],
    ["JSON that is wide", wide, JSON_TYPE, wide],
    ["text with NUL", "a\0b", {}, { base64: btoa("a\0b") }],
    ["nothing", "", {}, ""],
  ] as [string, string, Headers, unknown][])("of %s is told as that", async (_, body, headers, told) => {
    const hook = await make({ provider: "url" });
    expect((await receiptOf(send(hook, body, headers))).body).toEqual(told);
    expect((await eventsOf(hook))[0].payload.body).toEqual(told);
  });

  it("of bytes is told in base64", async () => {
    const hook = await make({ provider: "url" });
    const body = new Uint8Array([0xff, 0x00, 0x80]);
    const answer = await fetch(system.base + pathOf(hook.url), { method: "POST", body });
    const { receipt } = (await answer.json()) as { receipt: string };
    expect((await must(owner("GET", `/api/v1/webhook_receipts/${receipt}`), 200)).body).toEqual({ base64: "/wCA" });
  });

  it("that is longer than an event may be is its receipt's alone", async () => {
    const hook = await make({ provider: "url" });
    const [short, long] = [{ a: "x".repeat(32_000) }, { a: "x".repeat(33_000) }];
    const kept = await receiptOf(send(hook, JSON.stringify(short)));
    const big = await receiptOf(send(hook, JSON.stringify(long)));
    expect([kept.body, big.body]).toEqual([short, long]);
    const told = (await eventsOf(hook)).map(({ payload }) => [payload.receipt, payload.body]);
    expect(told).toEqual([
      [kept.id, short],
      [big.id, undefined],
    ]);
    const again = await must(owner("POST", `/api/v1/webhook_receipts/${big.id}/replay`), 201);
    expect((await must(owner("GET", `/api/v1/webhook_receipts/${again.id}`), 200)).body).toEqual(long);
  });

  it("comes without the headers that may hold a credential", async () => {
    const hook = await make({ provider: "url" });
    const said = { "x-gitlab-event": "Push Hook", "x-shopify-topic": "orders/create", "user-agent": "GitLab/17" };
    const secrets = Object.fromEntries(
      ["authorization", "cookie", "x-gitlab-token", "x-api-key", "x-shopify-hmac-sha256", "x-auth-id"].map((name) => [
        name,
        aSecret(),
      ]),
    );
    const { headers } = await receiptOf(send(hook, "{}", { ...said, ...secrets, "x-long-event": "x".repeat(300) }));
    expect(headers).toEqual({ ...said, "content-type": "application/json", "x-long-event": "x".repeat(200) });
  });
});

describe("what a delivery is called", () => {
  it("makes two of equal ones that are called nothing, and one of what has one name", async () => {
    const hook = await make({ provider: "url" });
    const ids = await Promise.all(
      ([{}, {}, { "idempotency-key": "a" }, { "idempotency-key": "a" }] as Headers[]).map((headers) =>
        must(send(hook, "{}", headers), 202),
      ),
    );
    expect(new Set(ids.map(({ receipt }) => receipt)).size).toBe(3);
  });

  it("is its webhook's own, and may be as long as it likes", async () => {
    const [one, other] = [await make({ provider: "url" }), await make({ provider: "url" })];
    const long = { "idempotency-key": "é".repeat(2000).replaceAll("é", "e ") };
    const ids = [];
    for (const hook of [one, one, other]) ids.push((await receiptOf(send(hook, "{}", long))).id);
    expect([ids[0] === ids[1], ids[1] === ids[2]]).toEqual([true, false]);
    expect((await receiptOf(send(one, "{}", long))).delivery_id).toMatch(/^[0-9a-f]{64}$/);
  });

  it.runIf(system.concurrent)("makes one event of fifty that come at once, and one run", async () => {
    const hook = await make({ provider: "url", routine: (await aRoutine()).id });
    const answers = await together(50, () => must(send(hook, "{}", { "idempotency-key": "at once" }), 202));
    expect(new Set(answers.map(({ receipt }) => receipt)).size).toBe(1);
    const events = await eventsOf(hook);
    expect(events).toHaveLength(1);
    expect(await runsOf(events[0].id)).toHaveLength(1);
  });
});

describe("a ping", () => {
  const by = "a secret of Slack's own";
  it("of Slack's gets its challenge back, once the signature holds; of GitHub's a 202. Neither is told", async () => {
    const slack = await make({ provider: "slack", secret: by.replaceAll(" ", "-") });
    const body = JSON.stringify({ type: "url_verification", challenge: "3eZbrw1aB", token: aSecret() });
    const sign = senders.slack!.sign;
    const answer = await send(slack, body, await sign(by.replaceAll(" ", "-"), body, "", new Date()));
    expect([answer.status, answer.body]).toEqual([200, { challenge: "3eZbrw1aB" }]);
    expect((await send(slack, body, await sign("another-secret-of", body, "", new Date()))).status).toBe(401);
    const github = await make({ provider: "github", routine: (await aRoutine()).id });
    const ping = { ...(await senders.github!.sign(github.secret, "{}", "p", new Date())), "x-github-event": "ping" };
    expect(await receiptOf(send(github, "{}", ping))).toMatchObject({ status: "answered", event: null, run: null });
    for (const hook of [slack, github]) expect(await eventsOf(hook)).toEqual([]);
    // A url's body may say the same: it is told.
    const url = await make({ provider: "url" });
    const same = JSON.stringify({ type: "url_verification", challenge: "x" });
    expect((await send(url, same, { "x-github-event": "ping" })).status).toBe(202);
    expect(await eventsOf(url)).toHaveLength(1);
  });
});

describe("GitHub's events", () => {
  it("are told by their own names, too, where such a name can be", async () => {
    const hook = await make({ provider: "github" });
    const sign = async (event: string, id: string) => ({
      ...(await senders.github!.sign(hook.secret, "{}", id, new Date())),
      "x-github-event": event,
    });
    await must(send(hook, "{}", await sign("issue_comment", "1")), 202);
    await must(send(hook, "{}", await sign("NO name", "2")), 202);
    const [first, second, third, ...more] = await eventsOf(hook);
    expect([first, second, third].map(({ name }) => name)).toEqual([
      "webhook.inbound",
      "webhook.github_app.issue_comment",
      "webhook.inbound",
    ]);
    expect(second.payload).toEqual(first.payload);
    expect(more).toEqual([]);
    const { events } = await pull(owner);
    expect(events.map(({ id }) => id)).toEqual(expect.arrayContaining([first.id, second.id, third.id]));
  });
});

describe("what is started", () => {
  it("is the routine, whatever else starts it: once, by the event, with what it says", async () => {
    for (const fields of [{}, { event_type: "webhook.inbound" }]) {
      const routine = await aRoutine(fields);
      const hook = await make({ provider: "url", routine: routine.id });
      const receipt = await receiptOf(send(hook, '{"order": 1}'));
      expect(receipt).toMatchObject({ status: "started", run: expect.stringMatching(/^arr_/) });
      const [event] = await eventsOf(hook);
      const over = async () =>
        (await sql("select status from data.agent_routine_runs where id = $1", [receipt.run]))[0]?.status;
      await expect.poll(over, { timeout: 20_000 }).toBe("completed");
      const runs = await runsOf(event.id);
      expect(runs).toHaveLength(1);
      expect(runs[0]).toMatchObject({
        id: receipt.run,
        routine_id: routine.id,
        event_name: "webhook.inbound",
        payload: event.payload,
      });
      const shown = await must(owner("GET", `/api/v1/agent_routines/runs/${receipt.run}`), 200);
      expect(shown).toMatchObject({ event_id: event.id, payload: { body: { order: 1 } } });
    }
  });

  it("is the automation, as whom that acts", async () => {
    const { id: agent } = await anAgent(owner);
    const automation = await anAutomation({ run_as_agent: agent });
    const hook = await make({ provider: "url", automation: automation.id });
    const receipt = await receiptOf(send(hook, '{"order": 1}'));
    expect(receipt).toMatchObject({ status: "started", run: expect.stringMatching(/^atr_/) });
    // A routine that listens may have a run of the event, too.
    const run = (await runsOf(receipt.event)).find(({ id }) => id === receipt.run);
    expect(run).toMatchObject({ automation_id: automation.id, agent_id: agent, payload: { body: { order: 1 } } });
  });

  it("of GitHub's is one run, of the event by GitHub's name, though that starts the routine, too", async () => {
    const listens = await aRoutine({ event_type: "webhook.github_app.pull_request" });
    const hook = await make({ provider: "github", routine: listens.id });
    const receipt = await receiptOf(send(hook, "{}", await senders.github!.sign(hook.secret, "{}", "1", new Date())));
    const runs = () =>
      sql("select id, event_name, event_id, status from data.agent_routine_runs where routine_id = $1", [listens.id]);
    await expect.poll(async () => (await runs())[0]?.status, { timeout: 20_000 }).toBe("completed");
    const [, second] = await eventsOf(hook);
    expect(await runs()).toEqual([
      { id: receipt.run, event_name: "webhook.github_app.pull_request", event_id: second.id, status: "completed" },
    ]);
  });

  it("is nothing where it is paused, or gone: the delivery is taken, and its receipt says so", async () => {
    const routine = await aRoutine();
    const automation = await anAutomation({ status: "paused" });
    const gone = await aRoutine();
    const hooks = await Promise.all(
      [{ routine: routine.id }, { automation: automation.id }, { routine: gone.id }].map((target) =>
        make({ provider: "url", ...target }),
      ),
    );
    await must(owner("POST", `/api/v1/agent_routines/${routine.id}/pause`), 200);
    await must(owner("DELETE", `/api/v1/agent_routines/${gone.id}`), 204);
    for (const hook of hooks) {
      const receipt = await receiptOf(send(hook, "{}"));
      expect(receipt).toMatchObject({ status: "inactive", run: null, event: expect.any(String) });
      const of = "select id from data.agent_routine_runs where coalesce(routine_id, automation_id) = $1";
      expect(await sql(of, [hook.routine ?? hook.automation])).toEqual([]);
    }
  });
});

describe("receipts", () => {
  it("are listed newest first, by their status, without what came", async () => {
    const hook = await make({ provider: "url" });
    const ids: string[] = [];
    for (const n of [1, 2, 3]) ids.unshift((await must(send(hook, `${n}`), 202)).receipt);
    const list = (query = "") => must(owner("GET", `${AT}/${hook.id}/receipts${query}`), 200);
    const page = await list("?limit=2");
    expect(page.data.map(({ id }: any) => id)).toEqual(ids.slice(0, 2));
    expect(Object.keys(page.data[0])).not.toContain("body");
    expect((await list(`?limit=2&before_cursor=${page.before_cursor}`)).data.map(({ id }: any) => id)).toEqual(
      ids.slice(2),
    );
    expect((await list("?status=started")).data).toEqual([]);
    expect((await list("?status=received")).data).toHaveLength(3);
    await must(owner("DELETE", `${AT}/${hook.id}`), 204);
    expect((await owner("GET", `${AT}/${hook.id}/receipts`)).status).toBe(404);
    expect(await must(owner("GET", `/api/v1/webhook_receipts/${ids[0]}`), 200)).toMatchObject({ body: 3 });
    const replayed = await owner("POST", `/api/v1/webhook_receipts/${ids[0]}/replay`);
    expect([replayed.status, replayed.body.error.message]).toEqual([404, "No such inbound webhook."]);
  });

  it("are replayed as what the webhook starts now, as often as somebody asks, and once for a key", async () => {
    const hook = await make({ provider: "url" });
    const was = await receiptOf(send(hook, '{"n": 1}', { "idempotency-key": "one" }));
    const routine = await aRoutine();
    await must(owner("PATCH", `${AT}/${hook.id}`, { routine: routine.id }), 200);
    const replay = (headers: Headers = {}) =>
      must(owner("POST", `/api/v1/webhook_receipts/${was.id}/replay`, undefined, headers), 201);
    const [first, second] = [await replay(), await replay({ "Idempotency-Key": "again" })];
    expect(first).toMatchObject({ status: "started", replay_of: was.id, delivery_id: null });
    expect(await replay({ "Idempotency-Key": "again" })).toEqual(second);
    const events = await eventsOf(hook);
    expect(events.map(({ payload }) => payload.receipt)).toEqual([was.id, first.id, second.id]);
    for (const { payload } of events) expect(payload.body).toEqual({ n: 1 });
    const own = await sql("select id from data.agent_routine_runs where routine_id = $1 order by id", [routine.id]);
    expect(own.map(({ id }) => id)).toEqual([first.run, second.run]);
    // The first is still what the provider's name stands for.
    expect((await must(send(hook, "{}", { "idempotency-key": "one" }), 202)).receipt).toBe(was.id);
    const member = app.as(app.acme, { role: "member" });
    expect((await member("POST", `/api/v1/webhook_receipts/${was.id}/replay`)).status).toBe(403);
  });
});
