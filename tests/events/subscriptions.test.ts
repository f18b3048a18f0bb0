import { PlatformClient } from "@archastro/sdk";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  type App,
  anAgent,
  anApp,
  bearer,
  caller,
  must,
  sql,
  system,
  together,
} from "../harness/index.ts";
import { acknowledge, aSubscription, at, claim, pull, queued, tell } from "./stage.ts";

/** Acme's owner with a subscription, to whom so many orders were told. */
async function withOrders(count: number, fields: object = {}) {
  const app = await anApp();
  const owner = app.as(app.acme);
  const subscription = await aSubscription(owner, fields);
  for (let n = 1; n <= count; n++) await tell(owner, n);
  if (count) await queued(owner, subscription, Math.min(count, subscription.max_pending_events));
  return { ...app, owner, subscription };
}
const numbers = (entries: any[]) => entries.map(({ event }) => event.payload.n);

describe("the SDK", () => {
  const clientOf = async (kind: string, { secret_key, publishable_key, owners, acme, aToken }: App) => {
    if (kind === "secret key") return PlatformClient.withSecretKey(secret_key, system.base);
    const { access_token } = await aToken(owners[acme]!);
    return PlatformClient.withToken(publishable_key, access_token, system.base);
  };

  it.each(["token", "secret key"])("keeps subscriptions, and works through a queue, with the %s", async (kind) => {
    const app = await anApp();
    const { event_subscriptions: all, event_subscription_deliveries: deliveries } = await clientOf(kind, app);
    const made = await all.create({ name: "Orders", event_names: ["custom.order"], max_pending_events: 5 });
    expect(made).toMatchObject({
      ...{ name: "Orders", event_names: ["custom.order"], status: "active", agent: null, team: null, sandbox: null },
      ...{ org: kind === "token" ? app.acme : null, user: kind === "token" ? app.owners[app.acme] : null },
      ...{ max_pending_events: 5, retention_seconds: 86_400, visibility_timeout_seconds: 300 },
      ...{ available_count: 0, leased_count: 0, dropped_events_total: 0, dropped_through_position: 0 },
      last_overflow_at: null,
    });
    expect(made.id).toMatch(/^esub_/);
    const teller = kind === "token" ? app.as(app.acme) : app.asDeveloper;
    for (const n of [1, 2]) await tell(teller, n);
    await expect.poll(async () => (await all.get(made.id)).available_count, { timeout: 10_000 }).toBe(2);
    expect((await all.head(made.id)).data).toMatchObject({ state: "available", sequence: 1, lease_expires_at: null });
    const { data, has_more } = await all.claim(made.id, { max_events: 1, consumer_id: "c" });
    expect([numbers(data), has_more, data[0]!.receive_count]).toEqual([[1], true, 1]);
    expect(data[0]!.delivery_id).toMatch(/^esd_[0-9A-Za-z]{22}$/);
    expect((await all.queue(made.id)).data).toMatchObject([
      { delivery_id: data[0]!.delivery_id, state: "leased", lease_expires_at: data[0]!.lease_expires_at },
      { state: "available", event: { payload: { n: 2 } } },
    ]);
    await deliveries.acknowledge(data[0]!.delivery_id, { receipt_handle: data[0]!.receipt_handle });
    expect(await all.update(made.id, { name: "Sales", status: "paused" })).toMatchObject({
      ...{ name: "Sales", status: "paused", available_count: 1, leased_count: 0, queue_epoch: made.queue_epoch },
    });
    expect(await all.list({ perPage: 1 })).toMatchObject({
      ...{ data: [{ id: made.id }], page: 1, per_page: 1, total_count: 1, total_pages: 1 },
    });
    await all.delete(made.id);
    await expect(all.get(made.id)).rejects.toMatchObject({ status: 404 });
  });
});

describe("a queue", () => {
  it("is given each event of its names, once and in order, from its making on", async () => {
    const { owner, acme } = { ...(await withOrders(0)) };
    await tell(owner, 0);
    const subscription = await aSubscription(owner, { event_names: ["custom.order", "agent.created"] });
    await tell(owner, 1);
    await tell(owner, 9, { name: "custom.other" });
    const { id } = await anAgent(owner);
    await tell(owner, 2);
    const entries = await queued(owner, subscription, 3);
    expect(entries.map(({ event, sequence }) => [sequence, event.event_name, event.payload.n ?? event.agent])).toEqual([
      [1, "custom.order", 1],
      [2, "agent.created", id],
      [3, "custom.order", 2],
    ]);
    expect(entries[0].event).toMatchObject({ org: acme, cursor: null });
    expect(entries[0].event.sequence).toBeLessThan(entries[1].event.sequence);
  });

  it("holds what its user may read and nothing else, also when that was more before", async () => {
    const { acme, at: app, aUser, aToken, as, asDeveloper, owners } = await anApp();
    const owner = as(acme);
    const user = await aUser(acme, "admin");
    const { access_token } = await aToken(user.id);
    const admin = caller(bearer(access_token));
    const subscription = await aSubscription(admin, { event_names: ["agent.created", "custom.order"] });
    const mine = { grants: [{ principal_type: "user", principal: owners[acme], actions: ["read"] }] };
    const hidden = await anAgent(owner, { acl: mine });
    await tell(owner, 1);
    const [first] = await queued(admin, subscription, 2);
    expect([first.event.agent, typeof first.event.sequence]).toEqual([hidden.id, "number"]);
    await must(asDeveloper("PATCH", `${app}/users/${user.id}`, { role: "member" }), 200);
    await anAgent(owner, { acl: mine });
    await tell(owner, 2);
    const entries = await queued(admin, subscription, 2);
    expect(numbers(entries)).toEqual([1, 2]);
    for (const { event } of entries) expect([event.sequence, typeof event.cursor]).toEqual([null, "string"]);
    expect((await must(admin("GET", at(subscription)), 200)).available_count).toBe(2);
  });

  it("holds just what its user reads of the log, whomever that is shown to", async () => {
    const { acme, owners, as, aUser, aToken } = await anApp();
    const [owner, user] = [as(acme), await aUser(acme)];
    const member = caller(bearer((await aToken(user.id)).access_token));
    const subscription = await aSubscription(member, { event_names: ["agent.created"] });
    const readBy = (principal_type: string, principal: string | null) => ({
      acl: { grants: [{ principal_type, principal, actions: ["read"] }] },
    });
    const lists = [
      ...[readBy("everyone", null), readBy("user", user.id), readBy("user", owners[acme]!), readBy("org", acme)],
      ...["admin", "member", "viewer"].map((role) => readBy("org_role", role)),
    ];
    for (const list of lists) await anAgent(owner, list);
    await anAgent(member, lists[2]);
    await anAgent(owner);
    const { events } = await pull(member, { query: "&event_names[]=agent.created" });
    const entries = await queued(member, subscription, events.length);
    expect(entries.map(({ event }) => event.id)).toEqual(events.map(({ id }) => id));
    // All but those of the owner's own and of other roles.
    expect(events).toHaveLength(lists.length - 3 + 2);
  });

  it("hears of a name what came behind its being named, whatever the clock says, also handed on again", async () => {
    const { acme, owner, subscription } = await withOrders(0);
    await must(owner("PATCH", at(subscription), { event_names: ["custom.other"] }), 200);
    await tell(owner, 1);
    await must(owner("PATCH", at(subscription), { event_names: ["custom.order", "custom.other"] }), 200);
    await tell(owner, 2);
    await tell(owner, 3, { name: "custom.other" });
    await queued(owner, subscription, 2);
    const other = await aSubscription(owner);
    await sql("update data.events set created_at = now() + interval '1 hour' where org_id = $1", [acme]);
    await sql("update data.event_heads set delivered = 0 where org_id = $1", [acme]);
    await tell(owner, 4);
    expect(numbers(await queued(owner, subscription, 3))).toEqual([2, 3, 4]);
    expect(numbers(await queued(owner, other, 1))).toEqual([4]);
  });

  it("is nobody else's: not a colleague's, not an admin's; the app's key sees all, and nobody the key's", async () => {
    const { acme, as, asDeveloper } = await anApp();
    const [member, owner] = [as(acme, { role: "member" }), as(acme)];
    const theirs = await aSubscription(member);
    const apps = await aSubscription(asDeveloper, { org: acme });
    expect([apps.org, apps.user]).toEqual([acme, null]);
    for (const [call, { id }] of [
      [owner, theirs],
      [owner, apps],
      [member, apps],
    ] as const) {
      expect((await call("GET", at({ id }))).status).toBe(404);
      expect((await call("PATCH", at({ id }), { name: "x" })).status).toBe(404);
      expect((await call("POST", `${at({ id })}/claim`, {})).status).toBe(404);
      expect((await call("DELETE", at({ id }))).status).toBe(404);
    }
    expect((await must(owner("GET", "/api/v1/event_subscriptions"), 200)).data).toEqual([]);
    const { data } = await must(asDeveloper("GET", "/api/v1/event_subscriptions"), 200);
    expect(data.map(({ id }: any) => id)).toEqual([apps.id, theirs.id]);
    await tell(owner, 1);
    expect(numbers(await queued(asDeveloper, apps, 1))).toEqual([1]);
  });

  it("drops the oldest for what doesn't fit, leased or not, and counts it", async () => {
    const { owner, subscription } = await withOrders(2, { max_pending_events: 2 });
    const [first] = (await claim(owner, subscription)).data;
    for (const n of [3, 4]) await tell(owner, n);
    await expect.poll(async () => numbers(await queued(owner, subscription, 2)), { timeout: 10_000 }).toEqual([3, 4]);
    expect(await must(owner("GET", at(subscription)), 200)).toMatchObject({
      ...{ available_count: 2, leased_count: 0, dropped_events_total: 2, dropped_through_position: 2 },
      last_overflow_at: expect.stringMatching(/Z$/),
    });
    const late = await acknowledge(owner, first);
    expect([late.status, late.body.error.code]).toEqual([404, "delivery_not_found"]);
    await must(owner("PATCH", at(subscription), { max_pending_events: 1 }), 200);
    expect(numbers(await queued(owner, subscription, 1))).toEqual([4]);
  });

  it("takes nothing in while it is paused, and gives what it holds", async () => {
    const { owner, subscription } = await withOrders(1);
    await must(owner("PATCH", at(subscription), { status: "paused" }), 200);
    await tell(owner, 2);
    const other = await aSubscription(owner);
    await tell(owner, 3);
    await queued(owner, other, 1);
    expect(numbers((await claim(owner, subscription, { max_events: 5 })).data)).toEqual([1]);
    await must(owner("PATCH", at(subscription), { status: "active" }), 200);
    await tell(owner, 4);
    expect(numbers(await queued(owner, subscription, 2))).toEqual([1, 4]);
  });

  it("is refused beyond its bounds, by the field", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const one = { name: "x", event_names: ["custom.a"] };
    const { id } = await aSubscription(owner);
    const faults = async (method: string, path: string, body?: object) => {
      const answer = await owner(method, path, body);
      return [answer.status, ...(answer.body.error?.fields ?? []).map(({ field }: any) => field)];
    };
    for (const [field, ...values] of [
      ["max_pending_events", 0, 1001],
      ["retention_seconds", 7199, 2_592_001],
      ["visibility_timeout_seconds", 14, 3601],
      ["event_names", [], Array(101).fill("custom.a")],
    ] as [string, ...unknown[]][]) {
      for (const value of values) {
        const body = { ...one, [field]: value };
        expect([value, ...(await faults("POST", "/api/v1/event_subscriptions", body))]).toEqual([value, 422, field]);
        expect([value, ...(await faults("PATCH", at({ id }), { [field]: value }))]).toEqual([value, 422, field]);
      }
    }
    for (const [field, ...values] of [
      ["max_events", 0, 21],
      ["wait_seconds", -1, 21],
      ["visibility_timeout_seconds", 14, 3601],
      ["consumer_id", "", "x".repeat(129)],
      ["request_id", "", "x".repeat(129)],
    ] as [string, ...unknown[]][]) {
      for (const value of values) {
        expect([value, ...(await faults("POST", `${at({ id })}/claim`, { [field]: value }))]).toEqual([
          value,
          422,
          field,
        ]);
      }
    }
  });

  it("is one of fifty in an org, at most, or of as many as the app's settings say", async () => {
    const { acme, globex, as, asDeveloper, at: app } = await anApp();
    await must(asDeveloper("PATCH", app, { settings: { quotas: { event_subscriptions: 3 } } }), 200);
    const body = { name: "x", event_names: ["custom.a"] };
    const made = await together(5, () => as(acme)("POST", "/api/v1/event_subscriptions", body));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 201, 422, 422]);
    const refusal = made.find(({ status }) => status === 422)!.body.error;
    expect([refusal.code, refusal.message]).toEqual(["limit_reached", expect.stringContaining("An org has at most 3")]);
    await aSubscription(as(globex));
    await aSubscription(asDeveloper);
    await must(asDeveloper("PATCH", app, { settings: { quotas: null } }), 200);
    await aSubscription(as(acme));
  });

  it("is left to be erased with its subscription", async () => {
    const { owner, subscription } = await withOrders(1);
    await must(owner("DELETE", at(subscription)), 204);
    const left = () => sql("select kind from app.erasures where id = $1", [subscription.id]);
    expect(await left()).toEqual([{ kind: "event_subscription" }]);
  });
});

describe("a claim", () => {
  it("is of the head alone, and of nothing while that is leased", async () => {
    const { owner, subscription } = await withOrders(2);
    const [first] = (await claim(owner, subscription)).data;
    expect(first.event.payload.n).toBe(1);
    expect(await claim(owner, subscription)).toMatchObject({ data: [], has_more: true });
    expect((await acknowledge(owner, first)).status).toBe(204);
    expect(numbers((await claim(owner, subscription)).data)).toEqual([2]);
  });

  it("lasts as long as the subscription says, or the claim itself", async () => {
    const { owner, subscription } = await withOrders(2, { visibility_timeout_seconds: 600 });
    const lasts = async (asked: object) => {
      const [{ lease_expires_at }] = (await claim(owner, subscription, { max_events: 1, ...asked })).data;
      return Math.round((Date.parse(lease_expires_at) - Date.now()) / 10_000) * 10;
    };
    expect([await lasts({}), await lasts({ visibility_timeout_seconds: 60 })]).toEqual([600, 60]);
  });

  it("of many skips what is leased, at most twenty", async () => {
    const { owner, subscription } = await withOrders(4);
    expect(numbers((await claim(owner, subscription, { max_events: 1 })).data)).toEqual([1]);
    expect(numbers((await claim(owner, subscription, { max_events: 2 })).data)).toEqual([2, 3]);
    expect(numbers((await claim(owner, subscription, { max_events: 20 })).data)).toEqual([4]);
    expect((await owner("POST", `${at(subscription)}/claim`, { max_events: 21 })).status).toBe(422);
  });

  it("of one head is one, of twenty at once", async () => {
    const { owner, subscription } = await withOrders(1);
    const claims = await together(20, () => claim(owner, subscription));
    expect(claims.flatMap(({ data }) => numbers(data))).toEqual([1]);
  });

  it("under the same request_id is the same, with new handles, while that is leased", async () => {
    const { owner, subscription } = await withOrders(3);
    const asked = { request_id: "r", consumer_id: "c", max_events: 2 };
    const first = await claim(owner, subscription, asked);
    const again = await claim(owner, subscription, asked);
    expect(numbers(again.data)).toEqual([1, 2]);
    expect(again.data.map(({ receive_count }: any) => receive_count)).toEqual([1, 1]);
    expect((await acknowledge(owner, first.data[0])).status).toBe(409);
    expect((await acknowledge(owner, again.data[0])).status).toBe(204);
    expect(numbers((await claim(owner, subscription, asked)).data)).toEqual([2]);
    expect(numbers((await claim(owner, subscription, { ...asked, consumer_id: "d" })).data)).toEqual([3]);
  });

  it("waits for what is to come, so long as it was asked to", async () => {
    const { owner, subscription } = await withOrders(0);
    const since = Date.now();
    const waiting = claim(owner, subscription, { wait_seconds: 20 });
    await tell(owner, 1);
    expect(numbers((await waiting).data)).toEqual([1]);
    expect(Date.now() - since).toBeLessThan(15_000);
    const began = Date.now();
    expect((await claim(owner, subscription, { wait_seconds: 1 })).data).toEqual([]);
    expect(Date.now() - began).toBeGreaterThanOrEqual(1_000);
  });

  it("waits beside 199 others of its org at most", { timeout: 60_000 }, async () => {
    const { acme, globex, as, aToken, owners, asDeveloper, at: app, owner, subscription } = await withOrders(0);
    const { access_token, id } = await aToken(owners[acme]!);
    const crowd = caller(bearer(access_token));
    const refused: Answer[] = [];
    const claims = together(202, async () => {
      const answer = await crowd("POST", `${at(subscription)}/claim`, { wait_seconds: 20 });
      if (answer.status === 429) refused.push(answer);
      return answer.status;
    });
    await expect.poll(() => refused.length, { timeout: 18_000 }).toBe(2);
    for (const { body, headers } of refused) {
      expect([body.error.code, headers.get("retry-after")]).toEqual(["too_many_streams", "5"]);
    }
    const other = await aSubscription(as(globex));
    await claim(as(globex), other, { wait_seconds: 1 });
    // That is the end of all who wait.
    await must(asDeveloper("DELETE", `${app}/users/${owners[acme]}/tokens/${id}`), 200);
    await tell(owner, 1);
    expect((await claims).filter((status) => status === 401)).toHaveLength(200);
    await claim(owner, subscription);
    await claim(owner, subscription, { wait_seconds: 1 });
  });

  it("that waits gives nothing to who may no longer ask", async () => {
    const { acme, aToken, owners, asDeveloper, at: app, owner, subscription } = await withOrders(0);
    const { access_token, id } = await aToken(owners[acme]!);
    const waiting = caller(bearer(access_token))("POST", `${at(subscription)}/claim`, { wait_seconds: 20 });
    await new Promise((done) => setTimeout(done, 500));
    await must(asDeveloper("DELETE", `${app}/users/${owners[acme]}/tokens/${id}`), 200);
    await tell(owner, 1);
    expect((await waiting).status).toBe(401);
    expect((await queued(owner, subscription, 1))[0].state).toBe("available");
  });
});

describe("an acknowledgement", () => {
  it("is good again and again with the handle of the last lease, and with no other", async () => {
    const { owner, subscription } = await withOrders(2);
    const [first] = (await claim(owner, subscription)).data;
    expect((await acknowledge(owner, { ...first, receipt_handle: "x" })).status).toBe(409);
    for (const _ of [1, 2]) expect((await acknowledge(owner, first)).status).toBe(204);
    const stale = await acknowledge(owner, { ...first, receipt_handle: "x" });
    expect([stale.status, stale.body.error.code]).toEqual([409, "stale_receipt"]);
    const [next] = await queued(owner, subscription, 1);
    expect((await acknowledge(owner, { ...next, receipt_handle: first.receipt_handle })).status).toBe(409);
    expect((await acknowledge(owner, { ...first, delivery_id: `esd_${"0".repeat(22)}` })).status).toBe(404);
  });
});

describe("GET …/queue", () => {
  it("goes page by page, oldest first, and back", async () => {
    const { owner, subscription } = await withOrders(5);
    const page = (query: string) => must(owner("GET", `${at(subscription)}/queue?limit=2${query}`), 200);
    const first = await page("");
    expect([numbers(first.data), first.has_more, first.before_cursor]).toEqual([[1, 2], true, null]);
    const second = await page(`&after_cursor=${first.after_cursor}`);
    expect(numbers(second.data)).toEqual([3, 4]);
    const third = await page(`&after_cursor=${second.after_cursor}`);
    expect([numbers(third.data), third.has_more, third.after_cursor]).toEqual([[5], false, null]);
    const back = await page(`&before_cursor=${third.before_cursor}`);
    expect([numbers(back.data), back.has_more]).toEqual([[3, 4], true]);
    expect(numbers((await page(`&before_cursor=${back.before_cursor}`)).data)).toEqual([1, 2]);
    const other = await aSubscription(owner);
    expect((await owner("GET", `${at(other)}/queue?after_cursor=${first.after_cursor}`)).status).toBe(400);
  });
});
