/**
 * Nobody waits for somebody who waits for him. PostgreSQL finds such a circle after a second, ends one of those in it, and
 * counts it: in a database that nobody else uses.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "./harness/database.ts";
import { anAgent, anApp, bearer, caller, system, together } from "./harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "./harness/own.ts";
import {
  addressOf,
  bodyOf,
  ENDS_OTHERS,
  guarded,
  makeRows,
  makers,
  type Operation,
  SPENDS_ITSELF,
} from "./isolation/operations.ts";
import { aPlace, aToken } from "./isolation/places.ts";
import { wait } from "./sessions/stage.ts";

const ROUNDS = 2;
const COPIES = 2;
/** As many as the local database has places for, and some that wait for one. */
const AT_ONCE = 16;
/** Sessions that have nothing to do say ten seconds later what they have met. */
const SAID_MS = 11_500;

describe.runIf(system.concurrent)("in no circle waits", () => {
  let own: Own;
  let base: string;
  let mailDir: string;
  beforeAll(async () => {
    own = await ownSystem(openDatabase());
    mailDir = await mkdtemp(join(tmpdir(), "agentry-mail-"));
    base = await own.start([await newSigningKey("one")], [newRoot()], { mailDir });
  });
  afterAll(async () => {
    await wait(SAID_MS);
    const counted = "select deadlocks::int4 from pg_stat_database where datname = current_database()";
    const found = await own.database.query(counted);
    await own.close();
    await rm(mailDir, { recursive: true });
    expect(found).toEqual([{ deadlocks: 0 }]);
  });

  it("who changes an agent, with who brings it rows", { timeout: 60_000 }, async () => {
    const { acme, as } = await anApp({ base, newApp: own.newApp });
    const { id } = await anAgent(as(acme), { name: "Ada" });
    const path = `/api/v1/agents/${id}`;
    for (let round = 0; round < 20; round++) {
      const answers = await together(60, (i) =>
        i % 2
          ? as(acme)("PATCH", path, { name: `Ada ${round} ${i}` })
          : as(acme)("POST", `${path}/agent_env_vars`, { key: `K${round}_${i}`, value: "v" }),
      );
      // Of these it has at most 100.
      expect(answers.filter(({ status }) => status !== 200 && status !== 422)).toEqual([]);
    }
  });

  it("whoever writes to an org, whatever he writes, and whatever ends meanwhile", { timeout: 180_000 }, async () => {
    const { app, secret_key: key } = await anApp({ base, newApp: own.newApp });
    const endsSignIns = [...SPENDS_ITSELF, ...ENDS_OTHERS];
    const writes = guarded.filter(({ name, method }) => method !== "GET" && !endsSignIns.includes(name));
    const changes = writes.filter(({ method }) => method !== "DELETE");
    const endsAll = ({ parameters }: Operation) => ["org", "user"].includes(makers[parameters.at(-1)!]!.kind);
    const ends = Map.groupBy(
      writes.filter(({ method }) => method === "DELETE"),
      endsAll,
    );
    for (let round = 0; round < ROUNDS; round++) {
      const place = await aPlace(`round${round}`, { app, sandbox: null, key }, base);
      place.rows = await makeRows(Object.keys(makers), place, place.owner);
      for (const [parameter, { kind }] of Object.entries(makers)) if (kind === "org") place.rows[parameter] = place.org;
      const owner = caller(bearer((await aToken(place, place.owner)).access_token), base);
      const asked = [[], ends.get(false)!, ends.get(true)!].flatMap((ending, i) =>
        shuffled([...ending, ...Array.from({ length: COPIES }, () => changes).flat()], 3 * round + i),
      );
      const statuses = new Set<number>();
      const ask = async () => {
        for (let one = asked.shift(); one; one = asked.shift()) {
          const by = one.path.startsWith("/protected") || asked.length % 2 ? place.asDeveloper : owner;
          const { status } = await by(one.method, addressOf(one, place.rows), bodyOf(one, { home: place }));
          statuses.add(status);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, ask));
      // That nothing happened because nobody was let in would be no news.
      expect([200, 201, 204].filter((status) => !statuses.has(status))).toEqual([]);
      expect(statuses).not.toContain(500);
    }
  });
});

/** Always in the same order for the same number. */
function shuffled<T>(items: readonly T[], seed: number): T[] {
  let state = seed;
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state;
  };
  return items
    .map((item) => [next(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}
