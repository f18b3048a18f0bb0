/**
 * Every operation of the document, as everybody, with every kind of id: foreign is absent to the byte, refusals come
 * in their order, and nobody else's row changes. As deployed, and with each of the two walls taken away in turn.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { type Answer, anApp, bearer, caller, must, type Role, system, unique } from "./harness/index.ts";
import {
  addressOf,
  makers,
  NOT_ROWS,
  type Operation,
  PERSON_ONLY,
  PRODUCTION_ONLY,
  PUBLIC,
  readOperations,
  references,
  SPENDS_ITSELF,
  samples,
} from "./isolation/operations.ts";
import { aPlace, aSandbox, aToken, type Place, post } from "./isolation/places.ts";
import { snapshot } from "./isolation/snapshot.ts";
import { aStage, type Credential, isForeign, marksFor, type Stage, strangersTo, walking } from "./isolation/stage.ts";

type Values = Record<string, string>;
type Kind = "own" | "foreign" | "absent" | "malformed" | "empty";
/** One way to fill an address. `absent` is the same way with absent ids where these are not the credential's own. */
type Variant = { kind: Kind; what: string; values: Values; absent: Values; changed: string[] };

const operations = await readOperations();
const guarded = operations.filter(({ name }) => !PUBLIC.includes(name));
const isDevelopers = ({ permission }: Operation) => permission!.startsWith("developer:");
const isOfPersons = (operation: Operation) => !isDevelopers(operation);

/** Parameters that take another name beside the id, so that "malformed" is only a name that nothing has. */
const ALSO_NAMED = ["agent"];
const prefixes: Values = { app_id: "dap", org: "org", user: "usr", user_id: "usr", token: "sat", token_id: "sat" };
Object.assign(prefixes, { key: "dsk", sandbox: "dsb", agent: "agi" });
const ABSENT: Values = Object.fromEntries(
  Object.entries(prefixes).map(([name, prefix]) => [name, `${prefix}_${"0".repeat(21)}1`]),
);
const MALFORMED = [
  ...["x", "-", "*", "null", "undefined", "0", "%00", "%20", "%ff", "..%2f..", "%27%20or%201%3D1--", "a".repeat(2000)],
  ...["dap_", `agi_${"!".repeat(22)}`, `usr_${"0".repeat(23)}`, `org_${"0".repeat(22)}%0a`, "%E2%80%AEusr"],
];

/** Those who try every malformed id; the others try a few. */
const THOROUGH = ["acme's owner", "acme's secret key"];

/** Each parameter by itself and, where there are several, all of them. */
const subsets = (names: string[]) => [...names.map((name) => [name]), ...(names.length > 1 ? [names] : [])];
const pick = (names: string[], from: Values): Values =>
  Object.fromEntries(names.map((name) => [name, from[name] ?? "no such row"]));

function variantsOf(operation: Operation, credential: Credential, { places }: Stage): Variant[] {
  const { parameters } = operation;
  const { home, user } = credential;
  const own = pick(parameters, { ...home.rows, ...(user && { user }) });
  const change = (kind: Kind, what: string, changed: Values): Variant => {
    const names = Object.keys(changed);
    return {
      ...{ kind, what: `${kind} ${what}`, changed: names },
      ...{ values: { ...own, ...changed }, absent: { ...own, ...pick(names, ABSENT) } },
    };
  };
  // Who is refused whatever the row is asked with all parameters at once, who isn't also with one after the other.
  const isRefused = refusalOf(operation, { kind: "own", changed: [] }, credential) !== null;
  const isThorough = THOROUGH.includes(credential.name);
  const sets = isRefused ? [parameters] : subsets(parameters);
  const foreign = places.flatMap((place) =>
    sets
      .map((names) => names.filter((name) => isForeign(name, credential, place)))
      .filter((names) => names.length)
      .map((names) => change("foreign", `${names} of ${place.name}`, pick(names, place.rows))),
  );
  // An id of another kind, of a row that is there.
  const another = (name: string) => own[name]!.replace(/^[a-z]+_/, name === "key" ? "dap_" : "dsk_");
  const malformed = sets.flatMap((names) => [
    change(
      "malformed",
      `${names}: another kind's prefix`,
      Object.fromEntries(names.map((name) => [name, another(name)])),
    ),
    ...(isThorough && names.length === 1 ? MALFORMED : MALFORMED.slice(0, 1)).map((value) =>
      change("malformed", `${names} ${value.slice(0, 30)}`, Object.fromEntries(names.map((name) => [name, value]))),
    ),
  ]);
  if (!parameters.length) return [change("own", "place", {})];
  return [
    change("own", "row", {}),
    ...foreign,
    ...sets.map((names) => change("absent", String(names), pick(names, ABSENT))),
    ...malformed,
    ...(isThorough || !user ? parameters.map((name) => change("empty", name, { [name]: "" })) : []),
  ];
}

/** What the order of refusals says: door, permission, form of the ids, liveness, rows. Null: the request succeeds. */
function refusalOf(operation: Operation, { kind, changed }: Pick<Variant, "kind" | "changed">, credential: Credential) {
  const { refused, power, home } = credential;
  const notFound = { status: 404, code: "not_found" };
  // There is no such address.
  if (kind === "empty") return notFound;
  if (refused?.at === "door") return refused;
  const holds =
    credential.kind === "key" || operation.permission === "self" || (power === "all" && isOfPersons(operation));
  if (!holds) return { status: 403, code: "insufficient_scope" };
  if (kind === "malformed" && !changed.every((name) => ALSO_NAMED.includes(name))) return notFound;
  if (refused) return refused;
  if (credential.kind === "key" && PERSON_ONLY.includes(operation.name)) return { status: 403, code: "no_user" };
  if (kind !== "own") return notFound;
  if (home.sandbox !== null && PRODUCTION_ONLY.includes(operation.name)) return { status: 403, code: "sandbox_key" };
  return null;
}

/** The whole answer, but for the time of day: two that are equal here are equal on the wire. */
const wire = ({ status, headers, text }: Answer) =>
  JSON.stringify([status, [...headers].filter(([name]) => name !== "date"), text]);
const short = (answer: Answer) => `${answer.status} ${answer.text.slice(0, 200)}`;

/** Runs over all items, some at a time, and gathers what was found wrong. */
async function faultsOf<T>(items: T[], check: (item: T) => Promise<(string | false)[]>): Promise<string[]> {
  const faults: string[] = [];
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      faults.push(...(await check(item)).filter((fault) => fault !== false));
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  return faults;
}

const bodyOf = (operation: Operation, { home }: Pick<Credential, "home">) =>
  operation.body ? sampleOf(operation, home) : undefined;
function sampleOf({ name }: Operation, home: Place): object {
  if (!samples[name]) throw new Error(`give the body of ${name} a sample in tests/isolation/operations.ts`);
  return samples[name](home);
}
function makerOf(name: string) {
  if (!makers[name]) throw new Error(`give {${name}} a maker in tests/isolation/operations.ts`);
  return makers[name];
}
const leaks = (answer: Answer, marks: string[]) =>
  marks.filter((mark) => answer.text.includes(mark)).map((mark) => `tells of ${mark}: ${short(answer)}`);

describe("the document", () => {
  it("has a maker for each id parameter and a sample for each body", () => {
    const wanted = guarded.flatMap(({ name, parameters, body }) => [
      ...parameters.filter((one) => !makers[one] || !ABSENT[one]).map((one) => `${name}: give {${one}} a maker`),
      ...(body && !samples[name] ? [`${name}: give its body a sample`] : []),
    ]);
    expect(wanted, "in tests/isolation/operations.ts (and an absent id in this file)").toEqual([]);
  });

  it("names no row in a query or a body that the walk does not know of", () => {
    const isNoun = (word: string) => Object.hasOwn(makers, word) || Object.hasOwn(references, word);
    const could = (name: string) => /_ids?$/.test(name) || isNoun(name) || isNoun(name.split("_").at(-1)!);
    const unknown = guarded.flatMap(({ name, query, body }) =>
      [...query.map((one) => one.replace("[]", "")), ...(body ?? [])]
        .filter((one) => could(one) && !references[one] && !NOT_ROWS.includes(one))
        .map((one) => `${name}: is ${one} a reference?`),
    );
    expect(unknown, "say so in tests/isolation/operations.ts").toEqual([]);
  });

  it("has a permission on every route that is not public, and none on those that are", () => {
    const without = operations.filter(({ permission }) => !permission).map(({ name }) => name);
    expect(without.sort()).toEqual([...PUBLIC].sort());
  });

  it("has every route that the tables of this test name", () => {
    const names = operations.map(({ name }) => name);
    const named = [...Object.keys(samples), ...PRODUCTION_ONLY, ...PERSON_ONLY, ...SPENDS_ITSELF];
    expect(named.filter((name) => !names.includes(name))).toEqual([]);
    const parameters = operations.flatMap((operation) => operation.parameters);
    expect(Object.keys(makers).filter((name) => !parameters.includes(name))).toEqual([]);
  });
});

const systems = [
  ["as deployed", system.base],
  ["row-level security alone", system.rowsOnly],
  ["TenantDb's filters alone", system.typesOnly],
] as const;

describe.each(systems)("%s", (_, base) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await aStage(base);
  });

  describe("every credential and every id", () => {
    it.each(guarded.map((operation) => [operation.name, operation] as const))(
      "%s",
      { timeout: 60_000 },
      async (_, operation) => {
        const { places, live, others } = stage;
        const before = await snapshot(places);
        // Refusals, of the living and of the others. None of them may change a thing.
        const asked = [...live, ...others].flatMap((credential) =>
          variantsOf(operation, credential, stage)
            .map((variant) => ({ credential, variant, refusal: refusalOf(operation, variant, credential) }))
            .filter(({ refusal }) => refusal !== null),
        );
        const answers = new Map<string, Promise<Answer>>();
        const ask = (credential: Credential, values: Values) => {
          const path = addressOf(operation, values);
          const key = `${credential.name} ${path}`;
          const answer = () => credential.call(operation.method, path, bodyOf(operation, credential), walking);
          if (!answers.has(key)) answers.set(key, answer());
          return answers.get(key)!;
        };
        const refusals = await faultsOf(asked, async ({ credential, variant, refusal }) => {
          const answer = await ask(credential, variant.values);
          const what = `${credential.name}, ${variant.what}:`;
          const mayDiffer =
            variant.kind === "own" ||
            variant.kind === "empty" ||
            (variant.kind === "malformed" && credential.refused?.at === "database");
          const absent = mayDiffer ? answer : await ask(credential, variant.absent);
          return [
            (answer.status !== refusal!.status || answer.body.error.code !== refusal!.code) &&
              `${what} wanted ${refusal!.status} ${refusal!.code}, got ${short(answer)}`,
            wire(answer) !== wire(absent) && `${what} is not as absent: ${wire(answer)} instead of ${wire(absent)}`,
            ...leaks(answer, marksFor(credential, places)).map((leak) => `${what} ${leak}`),
          ];
        });
        expect(refusals).toEqual([]);
        expect(await snapshot(places)).toEqual(before);

        // What is the credential's own works, and touches nobody else.
        for (const credential of live) {
          if (refusalOf(operation, { kind: "own", changed: [] }, credential)) continue;
          if (SPENDS_ITSELF.includes(operation.name) && credential.home.sandbox !== null) continue;
          // A developer holds all orgs of the app: the other one's rows are its own too.
          const homes =
            credential.kind === "key"
              ? places.filter((place) => !strangersTo(credential, [place]).length)
              : [credential.home];
          for (const home of homes) {
            const made: Values = {};
            for (const name of operation.parameters) made[name] = await makerOf(name)(home, made, credential.user);
            const strangers = strangersTo(credential, places);
            // Its record is what a production key may change of an app; what else lives in the app's sandboxes, it may not.
            const keeps = credential.kind === "key" && home.sandbox === null ? home.app : null;
            const theirs = await snapshot(strangers, keeps);
            const answer = await credential.call(
              operation.method,
              addressOf(operation, made),
              bodyOf(operation, { home }),
            );
            expect([credential.name, home.name, answer.status, answer.text]).toEqual([
              credential.name,
              home.name,
              operation.success,
              answer.text,
            ]);
            expect(leaks(answer, marksFor(credential, places)), credential.name).toEqual([]);
            expect(await snapshot(strangers, keeps), credential.name).toEqual(theirs);
          }
        }
      },
    );
  });

  describe("what an access list hides", () => {
    it("is absent to the byte for a colleague, and stays as it is", async () => {
      const acme = stage.places[0]!;
      const nobody = { grants: [{ principal_type: "user", principal: acme.owner, actions: ["read", "write"] }] };
      const hidden = await must(
        acme.asDeveloper("POST", "/api/v1/agents", {
          ...{ name: `hidden ${acme.word}`, org: acme.org, acl: nobody, lookup_key: unique("hidden") },
        }),
        200,
      );
      const member = caller(bearer((await aToken(acme, acme.member)).access_token), base);
      const before = await snapshot(stage.places);
      for (const operation of guarded.filter(({ parameters }) => parameters.includes("agent"))) {
        const ask = (agent: string) =>
          member(operation.method, addressOf(operation, { agent }), bodyOf(operation, { home: acme }), walking);
        const absent = wire(await ask(ABSENT.agent!));
        expect(JSON.parse(absent)[0], operation.name).toBe(404);
        expect(wire(await ask(hidden.id)), operation.name).toBe(absent);
        expect(wire(await ask(hidden.lookup_key)), `${operation.name} by its lookup_key`).toBe(absent);
      }
      const lists = ["/api/v1/agents", `/api/v1/agents?search=hidden`, `/api/v1/activity_feed?agent[]=${hidden.id}`];
      for (const path of lists) expect((await member("GET", path)).text, path).not.toContain(hidden.id);
      expect((await member("GET", "/api/v1/agents?search=hidden")).body.total_entries).toBe(0);
      expect(await snapshot(stage.places)).toEqual(before);
    });

    it("is a colleague's profile and tokens too: absent to the byte, though an owner asks", async () => {
      const acme = stage.places[0]!;
      const owner = stage.live[0]!;
      const theirs = await aToken(acme, acme.member);
      const before = await snapshot(stage.places);
      for (const operation of guarded.filter(
        ({ permission, parameters }) => permission === "session" && parameters.includes("user"),
      )) {
        const ask = (values: Values) =>
          owner.call(operation.method, addressOf(operation, values), bodyOf(operation, { home: acme }), walking);
        const ways: [Values, Values][] = [
          [
            { user: acme.member, token: theirs.id },
            { user: ABSENT.user!, token: ABSENT.token! },
          ],
          ...(operation.parameters.includes("token")
            ? ([
                [
                  { user: acme.owner, token: theirs.id },
                  { user: acme.owner, token: ABSENT.token! },
                ],
              ] as [Values, Values][])
            : []),
        ];
        for (const [colleagues, absent] of ways) {
          const answer = await ask(colleagues);
          expect([operation.name, answer.status]).toEqual([operation.name, 404]);
          expect(wire(answer), operation.name).toBe(wire(await ask(absent)));
        }
      }
      expect(await snapshot(stage.places)).toEqual(before);
    });
  });

  describe("what a request names", () => {
    /** Each reference of an operation with foreign and absent ids, for every credential that the operation is for. */
    const named = (names: (operation: Operation) => string[]) =>
      guarded.flatMap((operation) =>
        names(operation)
          .filter((name) => references[name.replace("[]", "")])
          .flatMap((name) =>
            stage.live
              .filter((credential) => !refusalOf(operation, { kind: "own", changed: [] }, credential))
              .flatMap((credential) => {
                const kind = references[name.replace("[]", "")]!;
                const foreign = stage.places.filter((place) => isForeign(kind, credential, place));
                return foreign.map((place) => ({ operation, name, credential, kind, id: place.rows[kind]!, place }));
              }),
          ),
      );
    const own = (operation: Operation, { home, user }: Credential) =>
      addressOf(operation, { ...home.rows, ...(user && { user }) });

    it("in a query: another's id finds what an absent one finds, nothing", async () => {
      const asked = named(({ query }) => query);
      expect(asked.length).toBeGreaterThan(50);
      const faults = await faultsOf(asked, async ({ operation, name, credential, kind, id, place }) => {
        const ask = (value: string) =>
          credential.call("GET", `${own(operation, credential)}?${name}=${value}`, undefined, walking);
        const [foreign, absent] = [await ask(id), await ask(ABSENT[kind]!)];
        const what = `${credential.name}: ${operation.name}?${name} of ${place.name}:`;
        return [
          (foreign.status !== 200 || foreign.body.data.length !== 0) && `${what} ${short(foreign)}`,
          wire(foreign) !== wire(absent) && `${what} ${wire(foreign)} instead of ${wire(absent)}`,
        ];
      });
      expect(faults).toEqual([]);
    });

    it("in a body: another's id is refused as an absent one is, and nothing comes of it", async () => {
      const asked = named(({ body }) => body ?? []);
      expect(asked.length).toBeGreaterThan(50);
      const before = await snapshot(stage.places);
      const faults = await faultsOf(asked, async ({ operation, name, credential, kind, id, place }) => {
        const ask = (value: string) => {
          const body = { ...sampleOf(operation, credential.home), [name]: value };
          return credential.call(operation.method, own(operation, credential), body, walking);
        };
        const [foreign, absent] = [await ask(id), await ask(ABSENT[kind]!)];
        const what = `${credential.name}: ${operation.name} with ${name} of ${place.name}:`;
        return [
          foreign.status !== 422 && `${what} ${short(foreign)}`,
          wire(foreign) !== wire(absent) && `${what} ${wire(foreign)} instead of ${wire(absent)}`,
        ];
      });
      expect(faults).toEqual([]);
      expect(await snapshot(stage.places)).toEqual(before);
    });
  });

  describe("what a script asks", () => {
    const scripts: Record<string, (rows: Values) => string> = {
      "an agent by its id": ({ agent }) => `agents.get({ agent: "${agent}" })`,
      "a user by its id": ({ user }) => `users.get({ user: "${user}" })`,
      "agents of a user": ({ user }) => `agents.list({ user: "${user}" })`,
      "agents of an org": ({ org }) => `agents.list({ org_id: "${org}" })`,
      "users of an org": ({ org }) => `users.list({ org: "${org}" })`,
    };
    it.each(Object.keys(scripts))("%s: another tenant's is absent, to the byte", async (name) => {
      const asked = stage.live.flatMap((credential) =>
        strangersTo(credential, stage.places).map((place) => ({ credential, place })),
      );
      const faults = await faultsOf(asked, async ({ credential, place }) => {
        const run = (rows: Values) =>
          credential.call("POST", "/api/v1/scripts/run", { script: scripts[name]!(rows) }, walking);
        const [foreign, absent, own] = [await run(place.rows), await run(ABSENT), await run(credential.home.rows)];
        const what = `${credential.name}, of ${place.name}:`;
        return [
          wire(foreign) !== wire(absent) && `${what} ${wire(foreign)} instead of ${wire(absent)}`,
          wire(own) === wire(absent) && !name.includes("of a user") && `${what} does not find its own: ${short(own)}`,
        ];
      });
      expect(faults).toEqual([]);
    });
  });

  describe("refusals in their order", () => {
    it("answers who may not before it looks at the input", async () => {
      const inputs = ["{", "[]", '{"no_such_field":1}', "x".repeat(10_000)];
      const asked = guarded
        .filter(({ body }) => body)
        .flatMap((operation) =>
          [...stage.others, ...stage.live]
            .map((credential) => ({
              operation,
              credential,
              refusal: refusalOf(operation, { kind: "own", changed: [] }, credential),
            }))
            .filter(
              ({ refusal, credential }) => refusal?.code === "insufficient_scope" || credential.refused?.at === "door",
            ),
        );
      const faults = await faultsOf(asked, async ({ operation, credential, refusal }) => {
        const found: string[] = [];
        for (const input of inputs) {
          const answer = await credential.call(operation.method, addressOf(operation, credential.home.rows), input);
          const challenge = answer.headers.get("WWW-Authenticate") ?? "";
          const wanted =
            refusal!.status === 403 ? `error="insufficient_scope", scope="${operation.permission}"` : "Bearer";
          if (answer.status !== refusal!.status || !challenge.includes(wanted)) {
            found.push(
              `${credential.name}: ${operation.name} with ${input.slice(0, 20)}: ${short(answer)} ${challenge}`,
            );
          }
        }
        return found;
      });
      expect(faults).toEqual([]);
    });

    it("answers a faulty query of somebody without the permission as 401 or 403", async () => {
      const asked = guarded.filter(({ query }) => query.includes("page") || query.includes("limit"));
      for (const operation of asked) {
        for (const credential of stage.others.filter(
          ({ refused, power }) => refused?.at === "door" || power === "none",
        )) {
          const path = `${addressOf(operation, credential.home.rows)}?page=0&limit=0&page_size=x`;
          const { status } = await credential.call("GET", path);
          expect([operation.name, credential.name, status]).toEqual([
            operation.name,
            credential.name,
            credential.refused?.status ?? 403,
          ]);
        }
      }
    });
  });

  describe("lists", () => {
    const lists = operations.filter(
      ({ name, method, path }) =>
        method === "GET" && !PUBLIC.includes(name) && !path.endsWith("}") && !path.endsWith("/me"),
    );
    const each = () =>
      lists.flatMap((operation) =>
        stage.live
          .filter((credential) => !refusalOf(operation, { kind: "own", changed: [] }, credential))
          .map((credential) => {
            const { home, user } = credential;
            const path = addressOf(operation, { ...home.rows, ...(user && { user }) });
            return { operation, credential, path, what: `${credential.name}: ${operation.name}` };
          }),
      );

    it("don't change, nor does any count, by what strangers make", { timeout: 60_000 }, async () => {
      const read = async () =>
        Promise.all(
          each().map(async ({ credential, path, what }) => {
            const { text } = await credential.call("GET", `${path}?page_size=100&limit=100`, undefined, walking);
            return [
              what,
              text.replace(/"last_used_at":("[^"]*"|null)/g, "").replace(/"(before|after)_cursor":"[^"]*"/g, ""),
            ];
          }),
        );
      let before = await read();
      for (const place of stage.places) {
        const made: Values = {};
        // A sandbox's record is the production developer's own.
        const names = Object.keys(makers).filter((name) => name !== "sandbox" || place.sandbox !== null);
        for (const name of names) made[name] = await makers[name]!(place, made, place.owner);
        const strangers = each().filter(({ credential }) => strangersTo(credential, [place]).length > 0);
        const theirs = new Set(strangers.map(({ what }) => what));
        const after = await read();
        expect(after.filter(([what]) => theirs.has(what!))).toEqual(before.filter(([what]) => theirs.has(what!)));
        before = after;
      }
    });

    it("find nothing of strangers by search", async () => {
      const asked = each().filter(({ operation }) => operation.query.includes("search"));
      const faults = await faultsOf(asked, async ({ credential, path, what }) => {
        const found: string[] = [];
        for (const { word } of strangersTo(credential, stage.places)) {
          const { body } = await credential.call("GET", `${path}?search=${word}`);
          if (body.total_entries !== 0 || body.data.length !== 0) found.push(`${what} finds ${word}`);
        }
        const { body } = await credential.call("GET", `${path}?search=${credential.home.word}`);
        if (body.total_entries === 0) found.push(`${what} does not find its own`);
        return found;
      });
      expect(asked.length).toBeGreaterThan(10);
      expect(faults).toEqual([]);
    });

    it("open no cursor of another org, sandbox or app, nor of another kind of credential", async () => {
      const asked = each().filter(({ operation }) => operation.query.includes("before_cursor"));
      expect(asked.length).toBe(stage.live.length);
      const cursors = await Promise.all(
        asked.map(async ({ credential, path }) => (await credential.call("GET", `${path}?limit=1`)).body.before_cursor),
      );
      for (const [i, { credential, path, what }] of asked.entries()) {
        for (const [j, cursor] of cursors.entries()) {
          expect(cursor).toEqual(expect.any(String));
          for (const direction of ["before_cursor", "after_cursor"]) {
            const { status, body } = await credential.call("GET", `${path}?limit=1&${direction}=${cursor}`);
            const how = `${what} with the cursor of ${asked[j]!.credential.name}`;
            if (i === j) expect([how, status]).toEqual([how, 200]);
            else expect([how, status, body.error?.code]).toEqual([how, 400, "invalid_cursor"]);
          }
        }
      }
    });
  });

  describe("values that must be unique", () => {
    it("never collide with another app's or another sandbox's", async () => {
      const word = unique("same");
      const [acme, , boxed, boxed2, elsewhere] = stage.places;
      for (const { name, at, asDeveloper, sandbox } of [acme!, boxed!, boxed2!, elsewhere!]) {
        const org = { name: word, slug: word, domain: `${word}.example` };
        const { id } = await must(asDeveloper("POST", `${at}/orgs`, org), 201);
        await must(asDeveloper("POST", `${at}/users`, { email: `${word}@example.com`, org: id }), 201);
        await must(asDeveloper("POST", "/api/v1/agents", { name: word, lookup_key: word, org: id }), 200);
        if (sandbox === null) await must(asDeveloper("POST", "/api/v1/sandboxes", { name: word, slug: word }), 201);
        // And collide at home, whatever the spelling.
        const again = [
          asDeveloper("POST", `${at}/orgs`, { ...org, domain: `${unique("d")}.example` }),
          asDeveloper("POST", `${at}/orgs`, { ...org, slug: unique("s"), domain: `${word}.EXAMPLE` }),
          asDeveloper("POST", `${at}/users`, { email: `${word.toUpperCase()}@example.com`, org: id }),
          asDeveloper("POST", "/api/v1/agents", { name: word, lookup_key: word }),
        ];
        const statuses = (await Promise.all(again)).map(({ status }) => status);
        expect([name, ...statuses]).toEqual([name, 409, 409, 409, 409]);
      }
    });

    it("tell an org of another org's lookup_key, the one oracle that is documented, and of nothing else about it", async () => {
      const [acme, globex] = stage.places;
      const { lookup_key } = (await acme!.asDeveloper("GET", `/api/v1/agents/${acme!.rows.agent}`)).body;
      const asGlobex = stage.live.find(({ home, kind }) => home === globex && kind === "token")!;
      const answer = await asGlobex.call("POST", "/api/v1/agents", { name: "Bob", lookup_key });
      expect([answer.status, answer.body.error.fields[0].field]).toEqual([409, "lookup_key"]);
      expect(leaks(answer, marksFor(asGlobex, stage.places))).toEqual([]);
      expect((await asGlobex.call("GET", `/api/v1/agents/${lookup_key}`)).status).toBe(404);
    });
  });

  describe("an idempotency key", () => {
    it("of another subject or tenant is never replayed, and never in the way", async () => {
      const key = unique("key");
      const [acme] = stage.places;
      const member = caller(bearer((await aToken(acme!, acme!.member)).access_token), base);
      const everybody = [
        ...stage.live.map(({ name, call }) => ({ name, call })),
        { name: "acme's member", call: member },
      ];
      const made: string[] = [];
      for (const [i, { name, call }] of everybody.entries()) {
        // The same body as the one before, and then one that is another's: neither matters across subjects.
        const body = { name: i % 2 ? "Ada" : name };
        const first = await call("POST", "/api/v1/agents", body, { "Idempotency-Key": key });
        const again = await call("POST", "/api/v1/agents", body, { "Idempotency-Key": key });
        expect([name, first.status, first.headers.get("Idempotent-Replayed")]).toEqual([name, 200, null]);
        expect([name, again.body.id, again.headers.get("Idempotent-Replayed")]).toEqual([name, first.body.id, "true"]);
        made.push(first.body.id);
      }
      expect(new Set(made).size).toBe(everybody.length);
    });
  });

  describe("on the very next request", () => {
    const asToken = operations.filter((operation) => !PUBLIC.includes(operation.name) && isOfPersons(operation));
    /** Status and code of every operation that a token may ask, with the token's own rows. */
    const everywhere = async (place: Place, text: string) => {
      const call = caller(bearer(text), base);
      const statuses: Record<string, string> = {};
      for (const operation of asToken) {
        const path = addressOf(operation, { ...place.rows, user: place.owner });
        const { status, body } = await call(operation.method, path, bodyOf(operation, { home: place }));
        statuses[operation.name] = status < 300 ? "works" : `${status} ${body.error.code}`;
      }
      return statuses;
    };
    const all = (what: string) => Object.fromEntries(asToken.map(({ name }) => [name, what]));
    const aDoomedPlace = async () => {
      const { app, secret_key: key } = await anApp({ base });
      const place = await aPlace("doomed", { app, sandbox: null, key }, base);
      place.rows.agent = (await post(place.asDeveloper, "/api/v1/agents", { name: "A", org: place.org }, 200)).id;
      place.rows.token = (await aToken(place, place.owner)).id;
      const { id, access_token: token } = await aToken(place, place.owner);
      return { place, id, token };
    };

    it("a suspended org is refused on every route, and works again once it is active", async () => {
      const { place, token } = await aDoomedPlace();
      const set = (status: string) =>
        must(place.asDeveloper("PATCH", `${place.at}/orgs/${place.org}`, { status }), 200);
      await set("suspended");
      expect(await everywhere(place, token)).toEqual(all("403 org_suspended"));
      await set("trialing");
      expect((await caller(bearer(token), base)("GET", "/api/v1/users/me")).status).toBe(200);
      await set("active");
      expect(await everywhere(place, token)).toEqual(all("works"));
    });

    it("a revoked token is refused on every route", async () => {
      const { place, id, token } = await aDoomedPlace();
      await must(place.asDeveloper("DELETE", `${place.at}/users/${place.owner}/tokens/${id}`), 200);
      expect(await everywhere(place, token)).toEqual(all("401 unauthenticated"));
    });

    it("a deleted user is refused on every route", async () => {
      const { place, token } = await aDoomedPlace();
      await post(place.asDeveloper, `${place.at}/users`, { org: place.org, role: "owner" });
      await must(place.asDeveloper("DELETE", `${place.at}/users/${place.owner}`), 204);
      expect(await everywhere(place, token)).toEqual(all("401 unauthenticated"));
    });

    it("a deleted org is refused on every route", async () => {
      const { place, token } = await aDoomedPlace();
      await must(place.asDeveloper("DELETE", `${place.at}/orgs/${place.org}`), 204);
      expect(await everywhere(place, token)).toEqual(all("401 unauthenticated"));
    });

    it("a demoted user may no longer do what the new role does not hold, and may again what it does", async () => {
      const { place, token } = await aDoomedPlace();
      const call = caller(bearer(token), base);
      await post(place.asDeveloper, `${place.at}/users`, { org: place.org, role: "owner" });
      const become = (role: Role) =>
        must(place.asDeveloper("PATCH", `${place.at}/users/${place.owner}`, { role }), 200);
      const write = async () => (await call("POST", "/api/v1/agents", { name: "A" })).status;
      const read = async () => (await call("GET", "/api/v1/agents")).status;
      expect([await write(), await read()]).toEqual([200, 200]);
      await become("viewer");
      expect([await write(), await read()]).toEqual([403, 200]);
      const refused = await call("DELETE", `/api/v1/agents/${place.rows.agent}`);
      expect(refused.headers.get("WWW-Authenticate")).toContain('error="insufficient_scope", scope="agents:write"');
      await become("billing");
      expect([await write(), await read()]).toEqual([403, 403]);
      await become("member");
      expect([await write(), await read()]).toEqual([200, 200]);
    });

    it("a revoked key and a deleted sandbox's key are refused on every route of the developer", async () => {
      const { asDeveloper, app, at } = await anApp({ base });
      const key = await post(asDeveloper, `${at}/keys`, { type: "secret" });
      const box = await aSandbox(asDeveloper);
      await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
      await must(asDeveloper("DELETE", `/api/v1/sandboxes/${box.id}`), 204);
      for (const text of [key.full_key, box.key]) {
        for (const operation of guarded) {
          const path = addressOf(operation, { ...ABSENT, app_id: app });
          const { status } = await caller(bearer(text), base)(
            operation.method,
            path,
            bodyOf(operation, { home: stage.places[0]! }),
          );
          expect([operation.name, status]).toEqual([operation.name, 401]);
        }
      }
    });
  });
});
