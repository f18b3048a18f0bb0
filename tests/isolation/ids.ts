import { expect, it } from "vitest";
import { type Answer, bearer, caller, must, unique } from "../harness/index.ts";
import { type Change, goesOn, touches } from "./changes.ts";
import {
  ABSENT,
  addressOf,
  bodyOf,
  guarded,
  makeRows,
  ONESELF,
  type Operation,
  SPENDS_ITSELF,
  type Values,
} from "./operations.ts";
import { aToken, type Place } from "./places.ts";
import { codeOf, faultsOf, leaks, refusalOf, refusalToOwn, short, variantsOf, wire } from "./refusals.ts";
import { type Credential, marksFor, type Stage, strangersTo, walking } from "./stage.ts";

export function everyId(the: () => Stage) {
  it.each(guarded.map((operation) => [operation.name, operation] as const))("%s", async (_, operation) => {
    await refusesWhatIsNotOwn(operation, the());
    await givesWhatIsOwn(operation, the());
  });
}

/**
 * Those who are refused at a door, whatever stands behind it: each route is asked by all of them as deployed. Doors are
 * the same with a wall less, and routes each others': one asks, and all of them in turn.
 */
const othersOf = (operation: Operation, { others, standing }: Stage) =>
  others.filter((_, i) => standing === "as deployed" || i === guarded.indexOf(operation) % others.length);

/** Refusals, of the living and of the others. None of them may change a thing. */
async function refusesWhatIsNotOwn(operation: Operation, stage: Stage) {
  const { places, live, changes } = stage;
  const asked = [...live, ...othersOf(operation, stage)].flatMap((credential) => {
    const marks = marksFor(credential, places);
    return variantsOf(operation, credential, stage)
      .map((variant) => ({ credential, marks, variant, refusal: refusalOf(operation, variant, credential)! }))
      .filter(({ refusal }) => refusal !== null);
  });
  // Many ways have one absent twin, which is asked once.
  const answers = new Map<string, Promise<{ answer: Answer; wire: string }>>();
  const ask = (credential: Credential, values: Values) => {
    const path = addressOf(operation, values);
    const key = `${credential.name} ${path}`;
    const send = async () => {
      const answer = await credential.call(operation.method, path, bodyOf(operation, credential), walking);
      return { answer, wire: wire(answer) };
    };
    if (!answers.has(key)) answers.set(key, send());
    return answers.get(key)!;
  };
  await changes();
  const faults = await faultsOf(asked, async ({ credential, marks, variant, refusal }) => {
    const { answer, wire } = await ask(credential, variant.values);
    const what = `${credential.name}, ${variant.what}:`;
    const mayDiffer = variant.way === "own" || variant.way === "empty" || refusal.status === 422;
    const absent = mayDiffer ? wire : (await ask(credential, variant.absent)).wire;
    return [
      (answer.status !== refusal.status || codeOf(answer) !== refusal.code) &&
        `${what} wanted ${refusal.status} ${refusal.code}, got ${short(answer)}`,
      wire !== absent && `${what} is not as absent: ${wire} instead of ${absent}`,
      ...leaks(answer, marks).map((leak) => `${what} ${leak}`),
    ];
  });
  expect(faults).toEqual([]);
  expect(await changes()).toEqual([]);
}

/** What is the credential's own works, and touches nobody else. */
async function givesWhatIsOwn(operation: Operation, stage: Stage) {
  const { places, live, changes, goingOn } = stage;
  const able = live
    .filter((credential) => !refusalToOwn(operation, credential))
    .filter(({ home }) => !SPENDS_ITSELF.includes(operation.name) || home.sandbox === null);
  // A developer holds all orgs of the app: the other one's rows are its own too.
  const asked = able.flatMap((credential) => {
    const strangers = strangersTo(credential, places);
    const homes = credential.kind === "key" ? places.filter((place) => !strangers.includes(place)) : [credential.home];
    return homes.map((home) => ({ credential, strangers, home, who: `${credential.name} in ${home.name}` }));
  });
  // What only reads is given the rows that the place keeps; all others, fresh ones.
  const isRead = operation.method === "GET";
  const made = await Promise.all(
    asked.map(({ credential, home }) => (isRead ? home.rows : makeRows(operation.parameters, home, credential.user))),
  );
  const goesOnAt = (home: Place, ids: unknown[]) => {
    const kept = Object.values(home.rows);
    for (const id of SETS_GOING.test(operation.path) && !isRead ? ids : [])
      if (typeof id === "string" && !kept.includes(id)) goingOn.set(id, home);
  };
  for (const [i, { home }] of asked.entries()) goesOnAt(home, Object.values(made[i]!));
  const give = async ({ credential, home, who }: (typeof asked)[number], rows: Values) => {
    const answer = await credential.call(operation.method, addressOf(operation, rows), bodyOf(operation, { home }));
    expect([who, answer.status, answer.text]).toEqual([who, operation.success, answer.text]);
    goesOnAt(home, [answer.body?.id]);
    expect(leaks(answer, marksFor(credential, places)), who).toEqual([]);
  };
  // What an agent lacks is written down when somebody asks how it is: from then on that changes nothing.
  if (operation.path.endsWith("/health")) await Promise.all(asked.map((one, i) => give(one, made[i]!)));
  await changes();
  // Nothing changes by reading, whoever reads: all ask at once.
  if (isRead) {
    await Promise.all(asked.map((one, i) => give(one, made[i]!)));
    expect(await changes()).toEqual([]);
    return;
  }
  // Those of one home follow one another: what a session writes down late is then still of who asks, or of its home.
  const inTurn = asked
    .map((one, i) => ({ ...one, rows: made[i]! }))
    .toSorted((a, b) => places.indexOf(a.home) - places.indexOf(b.home));
  for (const [i, { rows, ...one }] of inTurn.entries()) {
    await give(one, rows);
    const { credential, strangers, home, who } = one;
    const isLast = inTurn[i + 1]?.home !== home;
    // Its record is what a production key may change of an app; what else lives in the app's sandboxes, it may not.
    const keeps = credential.kind === "key" && home.sandbox === null;
    const theirs = (await changesBy(operation, isLast, stage))
      .filter(({ table }) => !(keeps && table === "apps"))
      .filter((change) => strangers.some((place) => touches(change, place)));
    expect(theirs, who).toEqual([]);
  }
}

/** What sets something going that writes down more after the answer: sessions, runs, what the clock starts. */
const SETS_GOING =
  /^\/api\/v1\/agent_sessions|^\/api\/v1\/(agent_routines|agents|automations|automation_runs)\/.*\/(invoke|retry|run|backfill|cancel|activate|approve|deny|resolve)$/;

/** What an operation changed, with what it has set going. */
async function changesBy({ path }: Operation, waits: boolean, { allChanges, goingOn }: Stage): Promise<Change[]> {
  const all = await allChanges();
  while (waits && SETS_GOING.test(path)) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const more = await allChanges();
    if (!more.length) break;
    all.push(...more);
  }
  return all.filter((change) => !goesOn(change, goingOn));
}

export function whatAnAccessListHides(the: () => Stage) {
  it("is absent to the byte for a colleague, and stays as it is", async () => {
    const { places, base, changes } = the();
    const acme = places[0]!;
    const nobody = { grants: [{ principal_type: "user", principal: acme.owner, actions: ["read", "write"] }] };
    const hidden = await must(
      acme.asDeveloper("POST", "/api/v1/agents", {
        ...{ name: `hidden ${acme.word}`, org: acme.org, acl: nobody, lookup_key: unique("hidden") },
      }),
      200,
    );
    const member = caller(bearer((await aToken(acme, acme.member)).access_token), base);
    await changes();
    const parameter = "agents/{agent}";
    for (const operation of guarded.filter(({ parameters }) => parameters.includes(parameter))) {
      const ask = (agent: string) => {
        const path = addressOf(operation, { ...acme.rows, [parameter]: agent });
        return member(operation.method, path, bodyOf(operation, { home: acme }), walking);
      };
      const absent = await ask(ABSENT[parameter]!);
      expect(absent.status, operation.name).toBe(404);
      expect(wire(await ask(hidden.id)), operation.name).toBe(wire(absent));
      expect(wire(await ask(hidden.lookup_key)), `${operation.name} by its lookup_key`).toBe(wire(absent));
    }
    const lists = ["/api/v1/agents", `/api/v1/agents?search=hidden`, `/api/v1/activity_feed?agent[]=${hidden.id}`];
    for (const path of lists) expect((await member("GET", path)).text, path).not.toContain(hidden.id);
    expect((await member("GET", "/api/v1/agents?search=hidden")).body.total_entries).toBe(0);
    expect(await changes()).toEqual([]);
  });

  it("is a colleague's profile and tokens too: absent to the byte, though an owner asks", async () => {
    const { places, live, changes } = the();
    const acme = places[0]!;
    const owner = live[0]!;
    const theirs = await aToken(acme, acme.member);
    await changes();
    const token = "tokens/{token}";
    for (const operation of guarded.filter(
      ({ permission, parameters }) => permission === "session" && parameters.includes(ONESELF),
    )) {
      const ask = (values: Values) => {
        const path = addressOf(operation, { ...acme.rows, ...values });
        return owner.call(operation.method, path, bodyOf(operation, { home: acme }), walking);
      };
      const ways: [colleagues: Values, absent: Values][] = [
        [
          { [ONESELF]: acme.member, [token]: theirs.id },
          { [ONESELF]: ABSENT[ONESELF]!, [token]: ABSENT[token]! },
        ],
      ];
      if (operation.parameters.includes(token)) ways.push([{ [token]: theirs.id }, { [token]: ABSENT[token]! }]);
      for (const [colleagues, absent] of ways) {
        const answer = await ask(colleagues);
        expect([operation.name, answer.status]).toEqual([operation.name, 404]);
        expect(wire(answer), operation.name).toBe(wire(await ask(absent)));
      }
    }
    expect(await changes()).toEqual([]);
  });
}
