/**
 * No secret that was given is ever seen again. The secrets of all tests bear one mark: every answer that the harness
 * gets is looked through for it, and every row, as the run ends (tests/harness/canary.ts). Here, a system of its own is
 * also made to fail, for its log.
 */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { tell } from "./events/stage.ts";
import { aSecret, findShown, shows, spellings } from "./harness/canary.ts";
import { checkAnswer } from "./harness/contract.ts";
import { bearer, type Call, caller, must } from "./harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "./harness/own.ts";
import { anEndpoint, aReceiver } from "./webhooks/stage.ts";

let own: Own;
let base: string;
let key: string;
let ask: Call;
let agent: string;

beforeAll(async () => {
  own = await ownSystem();
  base = await own.start([await newSigningKey("one")], [newRoot()], {
    groups: ["root", "agents", "activity", "events", "hooks", "webhooks", "objects"],
    allowLoopback: "127.0.0.1",
  });
  key = (await own.newApp()).secret_key;
  ask = caller(bearer(key), base);
  agent = `/api/v1/agents/${(await must(ask("POST", "/api/v1/agents", { name: "Ada" }), 200)).id}`;
});
afterAll(() => own.close());

it("in no answer, entry or row: kept, replayed, changed, refused, listed and deleted", async () => {
  const once = { "Idempotency-Key": aSecret().slice(-16) };
  const body = { key: "TOKEN", value: aSecret() };
  const made = await must(ask("POST", `${agent}/agent_env_vars`, body, once), 200);
  await must(ask("POST", `${agent}/agent_env_vars`, body, once), 200);
  const one = `/api/v1/agent_env_vars/${made.id}`;
  await must(ask("PATCH", one, { value: aSecret() }), 200);
  const integration = { access_token: aSecret(), refresh_token: aSecret(), workspace_key: aSecret() };
  const installed = await must(
    ask(
      "POST",
      `${agent}/agent_installations`,
      { kind: "integration/github", integration },
      { "Idempotency-Key": "i" },
    ),
    200,
  );
  await must(ask("POST", `/api/v1/agent_installations/${installed.id}/pause`), 200);
  for (const refused of [
    await ask("POST", `${agent}/agent_env_vars`, { ...body, value: aSecret() }),
    await ask("POST", `${agent}/agent_env_vars`, { ...body, value: aSecret() }, once),
    await ask("POST", `${agent}/agent_env_vars`, { key: aSecret(), value: aSecret() }),
    await ask("POST", `${agent}/agent_env_vars`, { key: "B", value: [aSecret()] }),
    await ask("POST", `${agent}/agent_env_vars`, { key: "B", value: aSecret().repeat(3000) }),
    await ask("POST", `${agent}/agent_env_vars`, `{"key": "B", "value": "${aSecret()}`),
    await ask("POST", `${agent}/agent_installations`, { kind: "memory/long-term", integration }),
    await ask("POST", `${agent}/agent_installations`, { kind: aSecret(), integration: { access_token: [aSecret()] } }),
    await ask("PATCH", "/api/v1/agent_env_vars/anv_0000000000000000000000", { value: aSecret() }),
  ]) {
    expect(refused.status).toBeGreaterThanOrEqual(400);
  }
  for (const path of [one, `${agent}/agent_env_vars`, "/api/v1/agent_installations", "/api/v1/activity_feed"]) {
    await must(ask("GET", path), 200);
  }
  expect(await findShown(own.database)).toEqual([]);
  await must(ask("DELETE", one), 204);
  expect(await findShown(own.database)).toEqual([]);
});

it("nor in the log of a request that fails", async () => {
  const log: string[] = [];
  const kept = (["error", "log", "warn"] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...words) => void log.push(words.join(" "))),
  );
  const send = (body: object) =>
    fetch(`${base}${agent}/agent_env_vars`, {
      method: "POST",
      headers: { ...bearer(key), "Content-Type": "application/json", "X-Request-Id": "that-fails" },
      body: JSON.stringify(body),
    });
  for (const broken of [
    "alter table data.agent_env_vars alter hint type uuid using null",
    "alter table data.agent_env_vars rename column sealed to unsealed",
    "alter table data.agent_env_vars rename to no_env_vars",
  ]) {
    await own.database.exec(broken);
    const answer = await send({ key: "FAILS", value: aSecret() });
    expect([answer.status, await answer.text()]).toEqual([500, ""]);
  }
  await vi.waitFor(() => expect(log.join().match(/that-fails/g)?.length).toBe(3), 5000);
  for (const spy of kept) spy.mockRestore();
  expect(shows(log.join())).toBe(false);
});

it("nor, of webhooks that were told of and of hooks that were sent to, in an answer behind their own, an event, a row or the log", async () => {
  // What it was signed by comes back to us.
  const receiver = await aReceiver(
    (response, { headers }) => void response.writeHead(500).end(JSON.stringify([headers, ...signing])),
  );
  const [words, signing]: [string[], string[]] = [[], []];
  const [log, answers]: [string[], string[]] = [[], []];
  const kept = (["error", "log", "warn"] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...said) => void log.push(said.join(" "))),
  );
  const read = async (path: string) => {
    const { status, text, body } = await ask("GET", path);
    expect(status).toBe(200);
    answers.push(text);
    return body;
  };
  const isSecret = (made: any) => {
    for (const secret of [made.secret, made.url?.slice(-43)].filter((one) => one?.length > 30)) {
      const bare = secret.replace("whsec_", "");
      words.push(bare, Buffer.from(secret).toString("hex"), Buffer.from(bare, "base64").toString("hex"));
    }
    return made;
  };
  const endpoint = isSecret(await anEndpoint(ask, receiver));
  const at = `/api/v1/webhook_endpoints/${endpoint.id}`;
  const { secret } = isSecret(await must(ask("POST", `${at}/rotate_secret`, {}), 200));
  signing.push(endpoint.secret, secret);
  const hooks: any[] = [];
  for (const provider of ["standard", "github", "hmac", "url"]) {
    const hmac = provider === "hmac" ? { header: "X-Signature" } : undefined;
    const hook = isSecret(await must(ask("POST", "/api/v1/inbound_webhooks", { name: "H", provider, hmac }), 201));
    const { pathname } = new URL(hook.url);
    const signature = `sha256=${createHmac("sha256", hook.secret ?? "")
      .update("{}")
      .digest("hex")}`;
    const headers = { "X-Signature": signature.slice(7), "X-Hub-Signature-256": signature };
    const sent = await ask("POST", pathname, "{}", provider === "url" ? { "X-Hub-Signature-256": "" } : headers);
    answers.push(sent.text);
    expect(sent.status).toBe(provider === "standard" ? 401 : 202);
    hooks.push(hook);
    words.push(signature.slice(7));
  }
  isSecret(await must(ask("POST", `/api/v1/inbound_webhooks/${hooks[1].id}/rotate_secret`, {}), 200));
  // None was left out.
  expect(words.length).toBe(2 * 3 + (3 + 4 + 2) * 3 + 4);
  await tell(ask, 1);
  answers.push(JSON.stringify(await must(ask("POST", `${at}/test`), 200)));
  await vi.waitFor(async () => expect((await read(`${at}/deliveries`)).data[0]?.attempt_count).toBe(1), 20_000);
  const [{ id }] = (await read(`${at}/deliveries`)).data;
  const shown = await read(`/api/v1/webhook_deliveries/${id}`);
  expect(shown.attempts[0].answered).toContain("webhook-signature");
  for (const hook of hooks) {
    const { data } = await read(`/api/v1/inbound_webhooks/${hook.id}/receipts`);
    for (const receipt of data) await read(`/api/v1/webhook_receipts/${receipt.id}`);
    await read(`/api/v1/inbound_webhooks/${hook.id}`);
  }
  for (const list of ["webhook_endpoints", "inbound_webhooks", "events?limit=500", "activity_feed?limit=100"]) {
    await read(`/api/v1/${list}`);
  }
  await read(at);
  await own.database.exec("alter table data.webhook_endpoints rename column sealed to unsealed");
  const failing = await fetch(`${base}/api/v1/webhook_endpoints`, {
    method: "POST",
    headers: { ...bearer(key), "Content-Type": "application/json", "X-Request-Id": "endpoint-fails" },
    body: JSON.stringify({ url: receiver.url, event_names: ["*"] }),
  });
  expect([failing.status, await failing.text()]).toEqual([500, ""]);
  await vi.waitFor(() => expect(log.join()).toContain("endpoint-fails"), 5000);
  await own.database.exec("alter table data.webhook_endpoints rename column unsealed to sealed");
  for (const spy of kept) spy.mockRestore();
  receiver.close();
  const rows = await Promise.all(
    [
      "events",
      "activity_feed_entries",
      "webhook_deliveries",
      "webhook_receipts",
      "inbound_webhooks",
      "webhook_endpoints",
    ].map((table) => own.database.query<{ row: string }>(`select t::text as row from data.${table} t`)),
  );
  const all = [...log, ...answers, ...rows.flat().map(({ row }) => row)].join("\n");
  expect(words.filter((word) => all.includes(word))).toEqual([]);
});

it("nor in that of a delivery that fails, or isn't believed: no secret, no token, no signature", async () => {
  const made = { name: "H", provider: "github", secret: aSecret() };
  const { url } = await must(ask("POST", "/api/v1/inbound_webhooks", made), 201);
  const token: string = url.split("/").at(-1);
  const log: string[] = [];
  const kept = (["error", "log", "warn"] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...words) => void log.push(words.join(" "))),
  );
  const send = (key: string, id: string) =>
    fetch(`${base}/hooks/${token}`, {
      method: "POST",
      headers: {
        "X-Request-Id": id,
        "X-Hub-Signature-256": `sha256=${createHmac("sha256", key).update("{}").digest("hex")}`,
      },
      body: "{}",
    });
  const statuses = [(await send(aSecret(), "not-believed")).status];
  for (const broken of [
    "alter table data.webhook_receipts rename to no_receipts",
    "update data.inbound_webhooks set tag = '' where sealed is not null",
    "alter table data.inbound_webhooks rename token_hash to no_hash",
  ]) {
    await own.database.exec(broken);
    statuses.push((await send(made.secret, "hook-fails")).status);
  }
  expect(statuses).toEqual([401, 500, 500, 500]);
  await vi.waitFor(() => expect(log.join().match(/hook-fails/g)?.length).toBe(3), 5000);
  for (const spy of kept) spy.mockRestore();
  expect(shows(log.join())).toBe(false);
  expect(log.join()).not.toContain(token.slice(-43));
});

it("which would be noticed: in an answer, in a column of whatever type, however it is spelt", async () => {
  const answer = { status: 200, headers: new Headers(), body: {}, text: JSON.stringify({ name: aSecret() }) };
  await expect(checkAnswer(base, "GET", agent, answer)).rejects.toThrow("shows a secret");
  const secret = aSecret();
  const written = [0, 1, 2].map((n) => Buffer.from(`${"x".repeat(n)}${secret}`).toString("base64"));
  for (const text of [secret, Buffer.from(secret).toString("hex"), ...written]) expect(shows(text)).toBe(true);
  await own.database.exec(`create table data.leaks (a text, b jsonb, c bytea);
    insert into data.leaks values ('${secret}'), ('${written[1]}');
    insert into data.leaks (b) values (jsonb_build_object('a', jsonb_build_array('${secret}')));
    insert into data.leaks (c) values (convert_to('${secret}', 'UTF8'));`);
  expect((await findShown(own.database)).length).toBe(4);
  expect(spellings.length).toBe(5);
});
