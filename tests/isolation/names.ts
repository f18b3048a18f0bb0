import { expect, it } from "vitest";
import type { Kind } from "../../lib/kinds.ts";
import { bearer, caller, must, unique } from "../harness/index.ts";
import { bodyNaming, configsOf, namingConfigs, waysToName } from "./configs.ts";
import { ALWAYS_ITSELF, absentId, addressOf, guarded, makeRows, type Operation, referenceOf } from "./operations.ts";
import { aToken } from "./places.ts";
import { faultsOf, leaks, ownRows, refusalToOwn, short, wire } from "./refusals.ts";
import { type Credential, isForeign, marksFor, rowOf, type Stage, strangersTo, walking } from "./stage.ts";

export function whatARequestNames(the: () => Stage) {
  /** Each reference of an operation, with the foreign ids, for every credential that the operation is for. */
  const named = (names: (operation: Operation) => string[]) =>
    guarded.flatMap((operation) => {
      const able = the().live.filter((credential) => !refusalToOwn(operation, credential));
      const references = names(operation).map((name) => ({ name, kind: referenceOf(name) as Kind | null }));
      return references.flatMap(({ name, kind }) =>
        kind === null
          ? []
          : able.map((credential) => {
              const foreign = the().places.filter((place) => isForeign(kind, credential, place));
              return { operation, name, kind, credential, foreign };
            }),
      );
    });
  const own = (operation: Operation, credential: Credential) => addressOf(operation, ownRows(credential));

  it("in a query: another's id finds what an absent one finds: nothing, or a 404", async () => {
    const asked = named(({ query }) => query);
    expect(asked.flatMap(({ foreign }) => foreign).length).toBeGreaterThan(50);
    const faults = await faultsOf(asked, async ({ operation, name, kind, credential, foreign }) => {
      const ask = (value: string) =>
        credential.call("GET", `${own(operation, credential)}?${name}=${value}`, undefined, walking);
      const absent = wire(await ask(absentId(kind)));
      const faults: string[] = [];
      for (const place of foreign) {
        const answer = await ask(rowOf(place, kind));
        const what = `${credential.name}: ${operation.name}?${name} of ${place.name}:`;
        // Where a row is named by its id, nobody may be named beside it; a list over agents names its agents as an address does.
        const found = answer.status === 200 && Object.values(answer.body).some((part: any) => part?.length > 0);
        if (found || ![200, 404, 422].includes(answer.status)) faults.push(`${what} ${short(answer)}`);
        if (wire(answer) !== absent) faults.push(`${what} ${wire(answer)} instead of ${absent}`);
      }
      return faults;
    });
    expect(faults).toEqual([]);
  });

  it("in a body: another's id is refused as an absent one is, and nothing comes of it", async () => {
    const asked = named(({ body }) => body ?? []).filter(
      ({ operation, name, credential }) =>
        credential.kind === "key" || operation.name !== ALWAYS_ITSELF.name || name !== ALWAYS_ITSELF.field,
    );
    expect(asked.flatMap(({ foreign }) => foreign).length).toBeGreaterThan(50);
    // What there is to name is there before it is looked what changes.
    await Promise.all(the().places.map(configsOf));
    await the().changes();
    const faults = await faultsOf(asked, async ({ operation, name, kind, credential, foreign }) => {
      const ask = (value: string) => {
        const body = bodyNaming(operation, credential.home, name, value);
        return credential.call(operation.method, own(operation, credential), body, walking);
      };
      const absent = wire(await ask(absentId(kind)));
      const faults: string[] = [];
      for (const place of foreign) {
        for (const value of (await waysToName(operation, name, place)) ?? [rowOf(place, kind)]) {
          const answer = await ask(value);
          const what = `${credential.name}: ${operation.name} with ${name} ${value} of ${place.name}:`;
          if (answer.status !== 422) faults.push(`${what} ${short(answer)}`);
          if (wire(answer) !== absent) faults.push(`${what} ${wire(answer)} instead of ${absent}`);
        }
      }
      return faults;
    });
    expect(faults).toEqual([]);
    expect(await the().changes()).toEqual([]);
  });

  it("in a body: a config of one's own is taken, by its id and by its key", async () => {
    const owner = the().live[0]!;
    const { home } = owner;
    const fields = guarded.flatMap((operation) => (operation.body ?? []).map((name) => ({ operation, name })));
    const asked = fields.filter(({ operation, name }) => namingConfigs.includes(`${operation.name} ${name}`));
    expect(asked.length).toBe(namingConfigs.length);
    for (const { operation, name } of asked) {
      for (const value of (await waysToName(operation, name, home))!) {
        const path = addressOf(operation, await makeRows(operation.parameters, home, owner.user));
        const answer = await owner.call(operation.method, path, bodyNaming(operation, home, name, value));
        expect([operation.name, name, answer.status, answer.text]).toEqual([
          ...[operation.name, name, operation.success, answer.text],
        ]);
      }
    }
  });
}

export function whatAScriptAsks(the: () => Stage) {
  const scripts: Record<string, (id: (kind: Kind) => string) => string> = {
    "an agent by its id": (id) => `agents.get({ agent: "${id("agent")}" })`,
    "a user by its id": (id) => `users.get({ user: "${id("user")}" })`,
    "agents of a user": (id) => `agents.list({ user: "${id("user")}" })`,
    "agents of an org": (id) => `agents.list({ org_id: "${id("org")}" })`,
    "users of an org": (id) => `users.list({ org: "${id("org")}" })`,
  };
  it.each(Object.keys(scripts))("%s: another tenant's is absent, to the byte", async (name) => {
    const faults = await faultsOf(the().live, async (credential) => {
      const run = (id: (kind: Kind) => string) =>
        credential.call("POST", "/api/v1/scripts/run", { script: scripts[name]!(id) }, walking);
      const absent = wire(await run(absentId));
      const own = await run((kind) => rowOf(credential.home, kind));
      const faults: string[] = [];
      if (wire(own) === absent && !name.includes("of a user")) {
        faults.push(`${credential.name} does not find its own: ${short(own)}`);
      }
      for (const place of strangersTo(credential, the().places)) {
        const foreign = wire(await run((kind) => rowOf(place, kind)));
        if (foreign !== absent) faults.push(`${credential.name}, of ${place.name}: ${foreign} instead of ${absent}`);
      }
      return faults;
    });
    expect(faults).toEqual([]);
  });
}

export function refusalsInOrder(the: () => Stage) {
  it("answers who may not before it looks at the input", async () => {
    const inputs = ["{", "[]", '{"no_such_field":1}', "x".repeat(10_000)];
    const asked = guarded
      .filter(({ body }) => body)
      .flatMap((operation) =>
        [...the().others, ...the().live]
          .map((credential) => ({ operation, credential, refusal: refusalToOwn(operation, credential) }))
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
          found.push(`${credential.name}: ${operation.name} with ${input.slice(0, 20)}: ${short(answer)} ${challenge}`);
        }
      }
      return found;
    });
    expect(asked.length).toBeGreaterThan(50);
    expect(faults).toEqual([]);
  });

  it("answers a faulty query of somebody without the permission as 401 or 403", async () => {
    const asked = guarded
      .filter(({ query }) => query.includes("page") || query.includes("limit"))
      .flatMap((operation) =>
        the()
          .others.filter(({ refused, power }) => refused?.at === "door" || power === "none")
          .map((credential) => ({ operation, credential })),
      );
    const faults = await faultsOf(asked, async ({ operation, credential }) => {
      const path = `${addressOf(operation, credential.home.rows)}?page=0&limit=0&page_size=x`;
      const answer = await credential.call("GET", path);
      const wanted = credential.refused?.status ?? 403;
      return [answer.status !== wanted && `${credential.name}: ${operation.name}: ${short(answer)}`];
    });
    expect(asked.length).toBeGreaterThan(10);
    expect(faults).toEqual([]);
  });
}

export function uniqueValues(the: () => Stage) {
  it("never collide with another app's or another sandbox's", async () => {
    const word = unique("same");
    const [acme, , boxed, boxed2, elsewhere] = the().places;
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
    const { places, live, base } = the();
    const [acme, globex] = places;
    const { lookup_key } = (await acme!.asDeveloper("GET", `/api/v1/agents/${rowOf(acme!, "agent")}`)).body;
    const { access_token } = await aToken(globex!, globex!.owner);
    const asGlobex = { ...live[0]!, home: globex!, call: caller(bearer(access_token), base) };
    const answer = await asGlobex.call("POST", "/api/v1/agents", { name: "Bob", lookup_key });
    expect([answer.status, answer.body.error.fields[0].field]).toEqual([409, "lookup_key"]);
    expect(leaks(answer, marksFor(asGlobex, places))).toEqual([]);
    expect((await asGlobex.call("GET", `/api/v1/agents/${lookup_key}`)).status).toBe(404);
  });
}

export function anIdempotencyKey(the: () => Stage) {
  it("of another subject or tenant is never replayed, and never in the way", async () => {
    const key = unique("key");
    const { places, live, base } = the();
    const acme = places[0]!;
    const member = caller(bearer((await aToken(acme, acme.member)).access_token), base);
    const everybody = [...live.map(({ name, call }) => ({ name, call })), { name: "acme's member", call: member }];
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
}
