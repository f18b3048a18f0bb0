/** Every event has one number, and everybody who reacts has each event once, whatever happens to who gives them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { anAgent, anApp, must, sql, system, together } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "../harness/own.ts";
import { aStage, SOAK, type Stage, until, wait } from "../sessions/stage.ts";
import { acknowledge, aSubscription, at, claim, pull, queued, tell } from "./stage.ts";

const numbers = (entries: any[]) => entries.map(({ event }) => event.payload.n);
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);

describe.runIf(system.concurrent)("at once", () => {
  it("numberers and writers leave no gap, give no number twice, and keep each writer's order", async () => {
    const { acme, app, as } = await anApp();
    const owner = as(acme);
    const [WRITERS, EACH] = [20, 6];
    let writing = true;
    const number = async () => {
      while (writing) await sql("select app.number_events($1, '-', $2, 7)", [app, acme]);
    };
    const numberers = together(4, number);
    const told = await together(WRITERS, async () => {
      const ids: string[] = [];
      for (const n of upTo(EACH)) ids.push((await tell(owner, n)).id);
      return ids;
    });
    writing = false;
    await numberers;
    const { events } = await pull(owner);
    expect(events.map(({ sequence }) => sequence)).toEqual(upTo(events.length));
    const placeOf = new Map(events.map(({ id, sequence }) => [id, sequence]));
    for (const ids of told) {
      const places = ids.map((id) => placeOf.get(id));
      expect(places).toEqual(places.toSorted((a, b) => a - b));
    }
    const [head] = await sql("select sequence::int4 from data.event_heads where org_id = $1", [acme]);
    expect(head.sequence).toBe(events.length);
  });

  it("twenty claims of many are each event once", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const subscription = await aSubscription(owner);
    await together(20, (n) => tell(owner, n));
    await queued(owner, subscription, 20);
    const claims = await together(20, () => claim(owner, subscription, { max_events: 2 }));
    expect(claims.flatMap(({ data }) => numbers(data)).sort((a, b) => a - b)).toEqual(upTo(20).map((n) => n - 1));
  });
});

it("a burst of thousands is numbered at once, whatever the planner believes of their table", async () => {
  const { acme, app, as } = await anApp();
  const owner = as(acme);
  const MANY = 4_000;
  await aSubscription(owner);
  await sql(
    `insert into data.events (app_id, sandbox_id, org_id, id, name, payload)
     select $1, '-', $2, 'evt_' || lpad($3 || n, 22, '0'), 'custom.many', '{}' from generate_series(1, ${MANY}) n`,
    [app, acme, acme.slice(-10)],
  );
  const began = performance.now();
  await tell(owner, 1);
  const [{ n }] = await until("they are numbered", async () => {
    const rows = await sql(
      `select count(distinct sequence)::int4 as n from data.events where org_id = $1
       having count(*) = max(sequence) and count(*) > ${MANY}`,
      [acme],
    );
    return rows.length ? rows : null;
  });
  expect(n).toBeGreaterThan(MANY);
  expect(performance.now() - began).toBeLessThan(3_000);
});

describe("what is handed on again", () => {
  it("is in a queue once", async () => {
    const { acme, as } = await anApp();
    const owner = as(acme);
    const subscription = await aSubscription(owner);
    for (const n of [1, 2]) await tell(owner, n);
    await queued(owner, subscription, 2);
    // As if it had been killed before its cursor moved.
    await sql("update data.event_heads set delivered = 0 where org_id = $1", [acme]);
    await tell(owner, 3);
    expect(numbers(await queued(owner, subscription, 3))).toEqual([1, 2, 3]);
    await wait(300);
    expect(numbers(await queued(owner, subscription, 3))).toEqual([1, 2, 3]);
  });
});

describe("a suspended org's events", () => {
  it("are numbered and queued all the same", async () => {
    const { acme, at: app, as, asDeveloper } = await anApp();
    const subscription = await aSubscription(asDeveloper, { org: acme });
    await tell(as(acme), 1);
    await must(asDeveloper("PATCH", `${app}/orgs/${acme}`, { status: "suspended" }), 200);
    await tell(asDeveloper, 2, { org: acme });
    expect(numbers(await queued(asDeveloper, subscription, 2))).toEqual([1, 2]);
    const { events } = await pull(asDeveloper, { query: `&org=${acme}` });
    expect(events.map(({ sequence }) => sequence)).toEqual(upTo(events.length));
  });
});

describe("in time", () => {
  let own: Awaited<ReturnType<typeof ownSystem>>;
  let base: string;
  beforeAll(async () => {
    own = await ownSystem();
    base = await own.start([await newSigningKey("one")], [newRoot()]);
  });
  afterAll(() => own.close());
  const unnumbered = (org: string) =>
    own.database.query<{ n: number }>(
      "select count(*)::int4 as n from data.events where org_id = $1 and sequence is null",
      [org],
    );

  it("the sweep has events numbered that nobody has listened to for ten seconds, each place once a minute", async () => {
    const { acme, globex, as } = await anApp({ base, newApp: own.newApp });
    for (const org of [acme, globex]) await anAgent(as(org));
    await wait(200);
    const [before] = await unnumbered(acme);
    expect(before!.n).toBeGreaterThan(0);
    await own.database.query("update data.events set created_at = now() - interval '11 seconds' where org_id = $1", [
      acme,
    ]);
    await own.fireCrons();
    await until("they are numbered", async () => ((await unnumbered(acme))[0]!.n === 0 ? true : null), 10_000);
    expect((await unnumbered(globex))[0]!.n).toBeGreaterThan(0);
    // Whoever numbers looks once more before it rests.
    await wait(500);
    await anAgent(as(acme));
    await own.database.query("update data.events set created_at = now() - interval '11 seconds' where org_id = $1", [
      acme,
    ]);
    await own.fireCrons();
    await wait(500);
    expect((await unnumbered(acme))[0]!.n).toBeGreaterThan(0);
    await own.database.exec("update data.event_heads set woken_at = now() - interval '61 seconds'");
    await own.fireCrons();
    await until("they are numbered, too", async () => ((await unnumbered(acme))[0]!.n === 0 ? true : null), 10_000);
  });

  it("a lease ends, and what it held is leased again; and what was kept long enough ages out", async () => {
    const { acme, as } = await anApp({ base, newApp: own.newApp });
    const owner = as(acme);
    const subscription = await aSubscription(owner);
    // Shorter than anybody may ask for.
    await own.database.exec(`alter table data.event_subscriptions
        drop constraint event_subscriptions_retention_seconds_check,
        drop constraint event_subscriptions_visibility_timeout_seconds_check;
      update data.event_subscriptions set visibility_timeout_seconds = 1`);
    await tell(owner, 1);
    await queued(owner, subscription, 1);
    const [first] = (await claim(owner, subscription)).data;
    const [again] = (await claim(owner, subscription, { wait_seconds: 20 })).data;
    expect([again.delivery_id, first.receive_count, again.receive_count]).toEqual([first.delivery_id, 1, 2]);
    expect((await acknowledge(owner, first)).status).toBe(409);
    await wait(1_100);
    // Nobody else has it since: the handle of the last lease is good.
    expect((await must(owner("GET", `${at(subscription)}/head`), 200)).data.state).toBe("available");
    expect((await acknowledge(owner, again)).status).toBe(204);
    await own.database.exec("update data.event_subscriptions set retention_seconds = 3");
    await tell(owner, 2);
    await queued(owner, subscription, 1);
    const [old] = (await claim(owner, subscription)).data;
    await wait(3_100);
    expect((await claim(owner, subscription)).data).toEqual([]);
    const late = await acknowledge(owner, old);
    expect([late.status, late.body.error.code]).toEqual([404, "delivery_not_found"]);
    expect((await must(owner("GET", at(subscription)), 200)).dropped_events_total).toBe(0);
  });

  it("a clock that steps back keeps no event from a queue, nor from a routine", async () => {
    const { acme, as } = await anApp({ base, newApp: own.newApp });
    const owner = as(acme);
    const subscription = await aSubscription(owner);
    const agent = await anAgent(owner);
    const script = { name: "R", handler_type: "script", script: "$.n", event_type: "custom.order", status: "active" };
    const routine = await must(owner("POST", `/api/v1/agents/${agent.id}/agent_routines`, script), 200);
    const created = (at: string) =>
      own.database.exec(`alter table data.events alter column created_at set default ${at}`);
    await created("now() - interval '1 hour'");
    await tell(owner, 1);
    expect(numbers(await queued(owner, subscription, 1))).toEqual([1]);
    const runs = async () => (await must(owner("GET", `/api/v1/agent_routines/${routine.id}/runs`), 200)).data;
    await until("it runs", async () => ((await runs()).length === 1 ? true : null), 10_000);
    await created("now()");
  });

  it("the sweep erases the queue of a subscription that is gone", async () => {
    const { acme, as } = await anApp({ base, newApp: own.newApp });
    const subscription = await aSubscription(as(acme));
    await must(as(acme)("DELETE", at(subscription)), 204);
    const left = () => own.database.query("select from app.erasures where id = $1", [subscription.id]);
    expect(await left()).toHaveLength(1);
    await own.fireCrons();
    await until("it is erased", async () => ((await left()).length === 0 ? true : null), 10_000);
  });
});

describe("killed with -9, who numbers goes on as if nothing had been", { timeout: 300_000 }, () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await aStage();
  });
  afterAll(() => stage.close());
  const rounds = Array.from({ length: SOAK ? 20 : 1 }, (_, i) => i);

  /** Kills the runtime while orders are told; afterwards the queue has those that were accepted, each once. */
  async function killed(when: () => Promise<unknown>) {
    const { ask } = stage;
    const subscription = await aSubscription(ask, { max_pending_events: 1000 });
    const accepted: string[] = [];
    const telling = together(10, async (n) => accepted.push((await tell(ask, `${subscription.id} ${n}`)).id)).catch(
      () => {},
    );
    await when();
    stage.kill();
    stage.database.letGo();
    await telling;
    await stage.isUp();
    // What nobody was woken for, the sweep finds; the sweep of the round before was not in this minute.
    await stage.own.database.exec(
      `update data.events set created_at = created_at - interval '11 seconds' where sequence is null and name = 'custom.order';
       update data.event_heads set woken_at = null`,
    );
    const committed = await stage.own.database.query<{ id: string }>(
      "select id from data.events where name = 'custom.order' and starts_with(payload ->> 'n', $1)",
      [subscription.id],
    );
    const wanted = committed.map(({ id }) => id);
    await stage.own.fireCrons();
    for (const id of accepted) expect(wanted).toContain(id);
    const entries = await until(
      "the queue has them",
      async () => {
        const { data } = (await ask("GET", `${at(subscription)}/queue?limit=100`)).body;
        return data.length >= wanted.length ? data : null;
      },
      60_000,
    );
    expect(entries.map(({ event }: any) => event.id).toSorted()).toEqual(wanted.toSorted());
    const { events } = await pull(ask);
    expect(events.map(({ sequence }) => sequence)).toEqual(upTo(events.length));
    await must(ask("DELETE", at(subscription)), 204);
  }

  it.each(rounds)("while it numbers (%i)", () =>
    killed(async () => {
      stage.database.hold(/number_events/);
      await until("it numbers", () => (stage.database.waiting() > 0 ? true : null));
    }),
  );

  it.each(rounds)("at any moment (%i)", () => killed(() => wait(Math.random() * 150)));
});
