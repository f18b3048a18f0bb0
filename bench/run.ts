/**
 * `npm run bench`: what an operation costs, beside its floor in the same run. The floor is the same statements in the
 * same batch, with `select 1` where the door stands, no row security and no token (bench/floor.ts). Read figures as
 * ratios: they hold on a busy machine too, since an operation and its floors take turns.
 */
import { type ChildProcess, fork } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { resolve } from "node:path";
import { measureHealth } from "./health.ts";
import { measureHooks } from "./hooks.ts";
import { benchHostile } from "./hostile.ts";
import type { Request } from "./load.ts";
import { bareOf, MINT, type Operation, operationsOf } from "./operations.ts";
import { measureRuns } from "./runs.ts";
import { measureSchedules } from "./schedules.ts";
import { measureSessions } from "./sessions.ts";
import { measureSignIns } from "./sign-ins.ts";
import { printStarts } from "./start.ts";
import { Cleanup, type Product, SEED, type System, startCommit, startProduct, startSystem } from "./system.ts";
import { compare, type Figures, inTurns, load, print, type Target, TURN_S, type Way } from "./turns.ts";
import { measureWebhooks } from "./webhooks.ts";

const CONNECTIONS = 8;
const AIMS = { of_floor: 0.7, walls_ms: 0.25, mint_cpu_ms: 0.35, mint_of_before: 1.5, create_of_before: 0.85 };
/** The commit that minting is held against: the last before its plans were kept. */
const BEFORE = "05e651e";
/** The last commit that told of a change in the feed alone. */
const BEFORE_EVENTS = "ee7698a";

const ms = (value: number | null) => (value === null ? "-" : value.toFixed(2));
const percent = (share: number) => `${Math.round(share * 100)} %`;

const rows = [["operation", "way", "req/s", "p50 ms", "p99 ms", "CPU ms", "of floor"]];
const show = (name: string, way: Way, { rate, p50, p99, cpu_ms }: Figures, share: number | null) =>
  rows.push([name, way, rate.toFixed(0), ms(p50), ms(p99), ms(cpu_ms), share === null ? "" : percent(share)]);

const aims = [["", "aim", "found"]];
const judge = (aim: string, found: string, isMet: boolean) => aims.push([isMet ? "met" : "MISSED", aim, found]);

async function measureBare(child: ChildProcess, system: System) {
  const { floor } = system;
  const origin = await floor.direct("developer");
  const targets = bareOf(system).map(
    (bare): Target => ({ ...bare, way: "floor", origin, pid: floor.pid, connections: CONNECTIONS }),
  );
  for (const [{ name, way }, figures] of await inTurns(child, targets)) show(name, way, figures, null);
}

async function measure(
  child: ChildProcess,
  system: System,
  { name, group, trips = 1, own_cpu_ms, ...requests }: Operation,
) {
  const { product, walls, floor, bare } = system;
  const fetches = await sameSizes(system, await product.direct(group), requests.product[0]!);
  const at: Record<Way, Omit<Target, "name" | "way" | "connections">> = {
    bare: { origin: await bare.direct("developer"), pid: bare.pid, requests: [fetches] },
    direct: { origin: await product.direct(group), pid: product.pid, requests: requests.product },
    entry: { origin: product.entry, pid: product.pid, requests: requests.product },
    walls: { origin: await walls.direct("developer"), pid: walls.pid, requests: requests.floor },
    floor: { origin: await floor.direct("developer"), pid: floor.pid, requests: requests.floor },
  };
  const figuresOf = async (ways: readonly Way[], connections: number) => {
    const targets = ways.map((way): Target => ({ name, way, connections, ...at[way] }));
    const found = await inTurns(child, targets);
    return Object.fromEntries([...found].map(([{ way }, figures]) => [way, figures])) as Record<Way, Figures>;
  };

  const ways = ["direct", "floor", "walls", "entry", "bare"] as const;
  const together = await figuresOf(ways, CONNECTIONS);
  const ofFloor = (way: Way) => compare(together[way], together.floor, (a, floor) => a.rate / floor.rate);
  const isMeasured = (way: Way) => way !== "floor" && way !== "bare";
  for (const way of ways) show(name, way, together[way], isMeasured(way) ? ofFloor(way) : null);
  const share = ofFloor("direct");
  judge(`${name}: at least ${percent(AIMS.of_floor)} of its floor's rate`, percent(share), share >= AIMS.of_floor);

  // With eight connections a median is mostly the wait for a processor.
  const alone = await figuresOf(["floor", "walls"], 1);
  const cost_ms = compare(alone.walls, alone.floor, (walls, floor) => walls.p50 - floor.p50);
  const walled = `${name}: walls at most ${AIMS.walls_ms} ms at the median of one connection`;
  judge(walled, `${ms(cost_ms)} of ${ms(alone.walls.p50)} ms`, cost_ms <= AIMS.walls_ms);

  const { cpu_ms } = together.direct;
  if (name === MINT && cpu_ms !== null) {
    const bound = `${name}: at most ${AIMS.mint_cpu_ms} ms of CPU in the Worker's process`;
    judge(bound, `${ms(cpu_ms)} ms`, cpu_ms <= AIMS.mint_cpu_ms);
  }

  const own = cpu_ms === null ? null : cpu_ms - together.bare.cpu_ms!;
  if (own !== null && own_cpu_ms !== undefined) {
    const bound = `${name}: at most ${own_cpu_ms} ms of CPU besides a bare Worker's for the same fetch`;
    judge(bound, `${ms(own)} ms`, own <= own_cpu_ms);
  }

  // One credential, used just before: once a minute its use is noted, which is a trip after the answer.
  const [first] = requests.product;
  const ofOne = requests.product.filter(({ headers }) => headers?.Authorization === first?.headers?.Authorization);
  const same = { ...at.direct, requests: ofOne, connections: 1, seconds: TURN_S };
  await load(child, same);
  const before = system.trips();
  const asked = (await load(child, same)).latencies_ms.length;
  const taken = (system.trips() - before) / asked;
  judge(`${name}: ${trips === 1 ? "one round trip" : `${trips} round trips`}`, taken.toFixed(2), taken === trips);
}

/** What a bare Worker is asked to fetch and to answer: as much as the product does for this request. */
async function sameSizes(
  { sizes }: System,
  origin: string,
  { method, path, headers = {}, body }: Request,
): Promise<Request> {
  const ask = (n: string) =>
    fetch(origin + path, {
      method,
      headers: { ...headers, "Content-Type": "application/json" },
      ...(body !== undefined && { body: body.replaceAll("{n}", n) }),
    });
  // The first may be followed by a trip that notes the credential's use.
  await (await ask("first")).text();
  const shown = (await (await ask("second")).text()).length;
  const { asked, answered } = sizes();
  return { method: "GET", path: `/fetch?asked=${asked}&answered=${answered}&shown=${shown}` };
}

/** Minting beside what it was: the same request, of the same seed, in turns. */
async function measureMint(child: ChildProcess, cleanup: Cleanup, url: string, system: System) {
  const before = await startCommit(cleanup, url, BEFORE);
  if (!before) return console.log(`Commit ${BEFORE} isn't in this clone: nothing to hold minting against.`);
  const targetOf = async (of: Product, way: Way): Promise<Target> => ({
    name: MINT,
    way,
    origin: way === "entry" ? of.product.entry : await of.product.direct("developer"),
    pid: of.product.pid,
    requests: operationsOf(of).find(({ name }) => name === MINT)!.product,
    connections: CONNECTIONS,
  });
  for (const way of ["direct", "entry"] as const) {
    const targets = [await targetOf(system, way), await targetOf(before, way)] as const;
    const found = await inTurns(child, [...targets]);
    const [now, then] = [found.get(targets[0])!, found.get(targets[1])!];
    const times = compare(now, then, (a, b) => a.rate / b.rate);
    show(`${MINT} now`, way, now, null);
    show(`${MINT} at ${BEFORE}`, way, then, null);
    judge(
      `${MINT} (${way}): at least ${AIMS.mint_of_before} times ${BEFORE}`,
      times.toFixed(2),
      times >= AIMS.mint_of_before,
    );
  }
}

/** Creating agents in one org beside what it was before each was an event, too. */
async function measureEvents(child: ChildProcess, cleanup: Cleanup, url: string, product: Product) {
  const before = await startCommit(cleanup, url, BEFORE_EVENTS, ["developer", "agents", "objects"]);
  if (!before) return console.log(`Commit ${BEFORE_EVENTS} isn't in this clone: nothing to hold events against.`);
  const name = "create an agent";
  const targetOf = async (of: Product): Promise<Target> => ({
    ...{
      name,
      way: "direct",
      origin: await of.product.direct("agents"),
      pid: of.product.pid,
      connections: CONNECTIONS,
    },
    requests: operationsOf(of)
      .find((operation) => operation.name === name)!
      .product.slice(0, 1),
  });
  const targets = [await targetOf(product), await targetOf(before)] as const;
  const found = await inTurns(child, [...targets]);
  const [now, then] = [found.get(targets[0])!, found.get(targets[1])!];
  const share = compare(now, then, (a, b) => a.rate / b.rate);
  show(`${name}, with its event`, "direct", now, share);
  show(`${name} at ${BEFORE_EVENTS}`, "direct", then, null);
  const aim = AIMS.create_of_before;
  judge(`${name} in one org: at least ${percent(aim)} of ${BEFORE_EVENTS}`, percent(share), share >= aim);
}

async function bench(cleanup: Cleanup, url: string) {
  await printStarts();
  console.log(`Seeding ${SEED.agents} agents and ${SEED.tokens} tokens over ${SEED.orgs} orgs …`);
  const system = await startSystem(cleanup, url);
  const child = fork(resolve(import.meta.dirname, "load.ts"));
  cleanup.add(async () => child.kill());
  await measureBare(child, system);
  for (const operation of operationsOf(system)) await measure(child, system, operation);
  await measureMint(child, cleanup, url, system);
  await measureEvents(child, cleanup, url, system);
  await measureSessions(child, cleanup, system, { show, judge });
  await measureSignIns(child, cleanup, system, { show, judge });
  await measureRuns(cleanup, system, { judge });
  await measureSchedules(cleanup, system, { judge });
  await measureHealth(cleanup, system, { judge });
  await measureHooks(cleanup, system, { judge });
  await measureWebhooks(cleanup, system, { judge });
  print(rows);
  console.log(`
direct  the Worker, past Miniflare's entry     entry  the same through it
floor   the same statements with no walls      walls  the floor with doors and row security, still no token
bare    a Worker that does nothing but a fetch of as many characters as the product's
CPU is the Worker's process alone. ${CONNECTIONS} connections; load average ${loadavg()[0]!.toFixed(1)} on ${cpus().length} processors.`);
  print(aims);
}

/** Events alone. */
async function benchEvents(cleanup: Cleanup, url: string) {
  const product = await startProduct(cleanup, url, { groups: ["developer", "agents", "objects"] });
  const child = fork(resolve(import.meta.dirname, "load.ts"));
  cleanup.add(async () => child.kill());
  await measureEvents(child, cleanup, url, product);
  print(rows);
  print(aims);
}

/** Sessions or sign-ins, alone. */
async function benchLoaded(cleanup: Cleanup, url: string, measure: typeof measureSessions) {
  const product = await startProduct(cleanup, url, { groups: ["developer"] });
  const child = fork(resolve(import.meta.dirname, "load.ts"));
  cleanup.add(async () => child.kill());
  await measure(child, cleanup, product, { show, judge });
  print(rows);
  print(aims);
}

/** Runs, schedules, health, hooks or webhooks, alone. */
async function benchAlone(cleanup: Cleanup, url: string, measure: typeof measureRuns) {
  await measure(cleanup, await startProduct(cleanup, url, { groups: ["developer"] }), { judge });
  print(aims);
}

const url = process.env.DATABASE_URL;
if (!url) {
  console.error(`DATABASE_URL is not set. The bench needs a real PostgreSQL, 15 or later, and a superuser of it; it makes a
database of its own there and drops it again. For example:

  docker run --rm -p 5432:5432 -e POSTGRES_PASSWORD=bench postgres:17
  DATABASE_URL=postgres://postgres:bench@127.0.0.1:5432/postgres npm run bench`);
  process.exit(1);
}
const cleanup = new Cleanup();
cleanup.onSignals();
try {
  if (process.argv[2] === "sessions") await benchLoaded(cleanup, url, measureSessions);
  else if (process.argv[2] === "sign-ins") await benchLoaded(cleanup, url, measureSignIns);
  else if (process.argv[2] === "runs") await benchAlone(cleanup, url, measureRuns);
  else if (process.argv[2] === "schedules") await benchAlone(cleanup, url, measureSchedules);
  else if (process.argv[2] === "health") await benchAlone(cleanup, url, measureHealth);
  else if (process.argv[2] === "hooks") await benchAlone(cleanup, url, measureHooks);
  else if (process.argv[2] === "webhooks") await benchAlone(cleanup, url, measureWebhooks);
  else if (process.argv[2] === "events") await benchEvents(cleanup, url);
  else if (process.argv[2] !== "hostile") await bench(cleanup, url);
  else if (!(await benchHostile(cleanup, url, process.argv[3]))) process.exitCode = 1;
} catch (error) {
  // What breaks because of Ctrl-C is no fault.
  if (!cleanup.hasBegun) console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await cleanup.run();
}
