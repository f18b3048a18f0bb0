/** A script's way out as `npm start` gives it: the real binding, and a service on this machine that it must not reach. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { anApp, bearer, type Call, caller, must, type Role } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

const guardless = { "guard.ts": resolve(import.meta.dirname, "../harness/guards-nothing.ts") };

/** As it is deployed but for its guard, which overlooks everything; and with this machine opened. */
const systems = {
  guardless: { groups: ["all"], alias: guardless },
  opened: { groups: ["all"], allowLoopback: "127.0.0.1" },
};
type System = keyof typeof systems;

let own: Own;
let secret_key: string;
let bases: Record<string, string>;
let port: number;
/** What the service was asked, each to be answered by hand where its address says so. */
let asked: { path: string; answer: () => void }[] = [];
const service = createServer((request, response: ServerResponse) => {
  const answer = () => void response.end("a secret of this machine");
  asked.push({ path: request.url!, answer });
  if (!request.url!.startsWith("/slow")) answer();
});

beforeAll(async () => {
  await new Promise<void>((ready) => service.listen(0, "127.0.0.1", ready));
  port = (service.address() as AddressInfo).port;
  own = await ownSystem();
  const [keys, roots] = [[await newSigningKey("one")], [newRoot()]];
  const started = Object.entries(systems).map(async ([name, options]) => [name, await own.start(keys, roots, options)]);
  bases = Object.fromEntries(await Promise.all(started));
  ({ secret_key } = await own.newApp());
});
afterAll(async () => {
  await own.close();
  service.closeAllConnections();
  service.close();
});
beforeEach(() => {
  asked = [];
});

const run = async (system: System, url: string) => {
  const call = caller(bearer(secret_key), bases[system]);
  const script = "let answer = requests.get($.url)\n[result.isOk(answer), result.message(answer)]";
  return (await must(call("POST", "/api/v1/scripts/run", { script, scope: { url } }), 200)).result;
};
describe("a script", () => {
  it("doesn't reach this machine by any name, even if the guard overlooks it", async () => {
    const here = ["127.0.0.1", "localhost", hostname()].map((host) => `http://${host}:${port}/`);
    const failed = [false, "the request failed: no answer came"];
    for (const url of here) expect([url, await run("guardless", url)]).toEqual([url, failed]);
    expect(asked).toEqual([]);
    // It is there, and would answer.
    for (const url of here) expect([url, (await fetch(url)).status]).toEqual([url, 200]);
  });

  it("nor does an attempt of a webhook endpoint: what its name leads to is judged as it is sent", async () => {
    const attempt = async (system: System, host: string) => {
      const call = caller(bearer(secret_key), bases[system]);
      const url = `http://${host}:${port}/hook`;
      const { id } = await must(call("POST", "/api/v1/webhook_endpoints", { url, event_names: ["custom.none"] }), 201);
      return (await must(call("POST", `/api/v1/webhook_endpoints/${id}/test`), 200)).status;
    };
    for (const host of ["127.0.0.1", "localhost", hostname()]) {
      expect([host, await attempt("guardless", host)]).toEqual([host, null]);
    }
    expect(asked).toEqual([]);
    expect(await attempt("opened", "127.0.0.1")).toBe(200);
  });

  it("reaches this machine where that is opened: by http, and nothing else that is inside", async () => {
    for (const host of ["127.0.0.1", "localhost"]) {
      expect([host, ...(await run("opened", `http://${host}:${port}/`))]).toEqual([host, true, null]);
    }
    for (const url of [`https://127.0.0.1:${port}/`, "http://10.0.0.1/", "http://169.254.169.254/"]) {
      expect([url, (await run("opened", url))[1]]).toEqual([url, "refused: the host is a private or reserved address"]);
    }
  });
});

/** Waits until the service was asked so often, and looks on for a moment. */
async function settled(count: number): Promise<string[]> {
  for (let i = 0; i < 400 && asked.length < count; i++) await new Promise((wait) => setTimeout(wait, 10));
  await new Promise((wait) => setTimeout(wait, 200));
  return asked.map(({ path }) => path);
}

describe("scripts of one org", () => {
  const slow = (n: number) => ({ script: `requests.get("http://127.0.0.1:${port}/slow/${n}").status` });
  const inApp = () => anApp({ base: bases.opened!, newApp: own.newApp });
  const ask = (call: Call, n: number, headers = {}) => call("POST", "/api/v1/scripts/run", slow(n), headers);

  it("run two at once, also while they wait for an answer; a third waits, and no other org's does", async () => {
    const { acme, globex, as } = await inApp();
    const all = [];
    for (const n of [1, 2, 3]) {
      all.push(ask(as(acme, { role: (["owner", "admin", "member"] as Role[])[n - 1]! }), n));
      expect(await settled(Math.min(n, 2))).toEqual(["/slow/1", "/slow/2"].slice(0, n));
    }
    all.push(as(acme)("POST", "/api/v1/scripts/test", slow(4)));
    all.push(ask(as(globex), 5));
    expect(await settled(3)).toEqual(["/slow/1", "/slow/2", "/slow/5"]);
    asked[0]!.answer();
    // Which of the two that wait has come first, the network says.
    expect(await settled(4)).toEqual(["/slow/1", "/slow/2", "/slow/5", expect.stringMatching(/^\/slow\/[34]$/)]);
    for (const { answer } of asked) answer();
    await settled(5);
    for (const { answer } of asked) answer();
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });

  it("give their place back when who sent them hangs up", async () => {
    const { acme, aToken, owners, as } = await inApp();
    const { access_token } = await aToken(owners[acme]!);
    const hangup = new AbortController();
    const gone = [1, 2, 3].map((n) =>
      fetch(`${bases.opened}/api/v1/scripts/run`, {
        method: "POST",
        headers: { ...bearer(access_token), "Content-Type": "application/json" },
        body: JSON.stringify(slow(n)),
        signal: hangup.signal,
      }).catch(() => "gone"),
    );
    expect(await settled(2)).toHaveLength(2);
    hangup.abort();
    expect(await Promise.all(gone)).toEqual(["gone", "gone", "gone"]);
    for (const { answer } of asked) answer();
    // Whether the one in the line is seen to be gone, or runs for nobody: it takes no place for good.
    await settled(3);
    for (const { answer } of asked) answer();
    const before = asked.length;
    const two = [4, 5].map((n) => ask(as(acme), n));
    expect((await settled(before + 2)).slice(before).sort()).toEqual(["/slow/4", "/slow/5"]);
    for (const { answer } of asked) answer();
    for (const each of two) await must(each, 200);
  });

  it("commit their Idempotency-Key before they run: a replay while the first runs is refused", async () => {
    const { acme, as } = await inApp();
    const headers = { "Idempotency-Key": "once" };
    const first = ask(as(acme), 1, headers);
    await settled(1);
    const { error } = await must(ask(as(acme), 1, headers), 409);
    expect([error.code, asked.length]).toEqual(["already_run", 1]);
    asked[0]!.answer();
    await must(first, 200);
  });

  it("may at each call what their user may then: a user who is demoted meanwhile sees no more", async () => {
    const { acme, at, aUser, asDeveloper } = await inApp();
    const { id } = await aUser(acme, "member");
    const script = `let sees = fn() { result.isOk(agents.list()) }\nlet before = sees()\nrequests.get("http://127.0.0.1:${port}/slow")\n[before, sees()]`;
    const running = asDeveloper("POST", "/api/v1/scripts/run", { script, run_as_user: id });
    await settled(1);
    await must(asDeveloper("PATCH", `${at}/users/${id}`, { role: "billing" }), 200);
    asked[0]!.answer();
    expect((await must(running, 200)).result).toEqual([true, false]);
  });
});
