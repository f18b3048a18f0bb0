/** Domains whose addresses are an org's people: who says so, and that one org has each. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { textsOf } from "../../lib/domains/dns.ts";
import { openDatabase } from "../harness/database.ts";
import { anApp, must, system, together, unique } from "../harness/index.ts";
import { newRoot, newSigningKey, type Own, ownSystem } from "../harness/own.ts";

const aName = () => `${unique("new")}.example`;

describe("an org's domain", () => {
  it("is what its record names, verified; any other is pending, and says what DNS must say", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    const path = `/api/v1/orgs/${acme}/domains`;
    const { domain: own } = await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200);
    const domain = aName();
    const made = await must(as(acme)("POST", path, { domain: domain.toUpperCase() }), 201);
    expect(made).toMatchObject({ domain, org: acme, status: "pending", primary: false, verified_by: null });
    expect(made.record).toEqual({ type: "TXT", name: `_agentry.${domain}`, value: made.record.value });
    expect(made.record.value).toMatch(/^agentry-domain-verification=[0-9A-Za-z]{27}$/);
    const { data } = await must(as(acme)("GET", path), 200);
    expect(data).toMatchObject([
      made,
      { domain: own, status: "verified", primary: true, verified_by: "developer", record: null },
    ]);
    expect(await must(as(acme)("GET", `${path}/${made.id}`), 200)).toEqual(made);
  });

  it("is verified by a developer's word, and by no org's own", async () => {
    const { acme, as, asDeveloper, at } = await anApp();
    const body = { domain: aName(), verified: true };
    expect((await as(acme)("POST", `/api/v1/orgs/${acme}/domains`, body)).status).toBe(422);
    expect(await must(asDeveloper("POST", `${at}/orgs/${acme}/domains`, body), 201)).toMatchObject({
      ...{ status: "verified", verified_by: "developer" },
    });
  });

  it("is one org's: another's is a 409 once it is verified, and no secret before", async () => {
    const { acme, globex, as, asDeveloper, at, anOrg } = await anApp();
    const domain = aName();
    const path = (org: string) => `${at}/orgs/${org}/domains`;
    await must(asDeveloper("POST", path(acme), { domain }), 201);
    expect((await asDeveloper("POST", path(acme), { domain })).status).toBe(422);
    await must(as(globex)("POST", `/api/v1/orgs/${globex}/domains`, { domain }), 201);
    const other = await anOrg();
    await must(asDeveloper("POST", path(other.id), { domain, verified: true }), 201);
    const taken = await asDeveloper("POST", `${at}/orgs`, { name: "O", slug: unique("o"), domain });
    expect([taken.status, taken.body.error.fields[0].field]).toEqual([409, "domain"]);
    const another = await anOrg();
    expect((await asDeveloper("POST", path(another.id), { domain, verified: true })).status).toBe(409);
    expect((await asDeveloper("PATCH", `${at}/orgs/${acme}`, { domain })).status).toBe(409);
    // As soon as its org has ended, it is free.
    await asDeveloper("DELETE", `${at}/orgs/${other.id}`);
    await must(asDeveloper("POST", path(another.id), { domain, verified: true }), 201);
  });

  it("moves with the org's record, and is let go of there alone", async () => {
    const { acme, asDeveloper, at, anOrg } = await anApp();
    const path = `${at}/orgs/${acme}/domains`;
    const { domain: before } = await must(asDeveloper("GET", `${at}/orgs/${acme}`), 200);
    const claimed = await must(asDeveloper("POST", path, { domain: aName() }), 201);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { domain: claimed.domain }), 200);
    const { data } = await must(asDeveloper("GET", path), 200);
    expect(data).toMatchObject([{ domain: claimed.domain, primary: true, status: "verified" }]);
    const refused = await asDeveloper("DELETE", `${path}/${data[0].id}`);
    expect([refused.status, refused.body.error.code]).toEqual([409, "primary_domain"]);
    await anOrg({ domain: before });
    const other = await must(asDeveloper("POST", path, { domain: aName(), verified: true }), 201);
    expect((await asDeveloper("DELETE", `${path}/${other.id}`)).status).toBe(204);
    expect((await asDeveloper("DELETE", `${path}/${other.id}`)).status).toBe(404);
    await anOrg({ domain: other.domain });
  });

  it.each(["gmail.com", "Outlook.com", "localhost", "1.2.3.4", "a b.example", ""])("is none: %s", async (domain) => {
    const { acme, as } = await anApp();
    expect((await as(acme)("POST", `/api/v1/orgs/${acme}/domains`, { domain })).status).toBe(422);
  });

  it("is its owners' and admins' to see and to change, and no other org's", async () => {
    const { acme, globex, as } = await anApp();
    const path = `/api/v1/orgs/${acme}/domains`;
    expect((await as(acme, { role: "admin" })("GET", path)).status).toBe(200);
    expect((await as(acme, { role: "member" })("GET", path)).status).toBe(403);
    const same = { "X-Request-Id": "the-same-one" };
    const foreign = await as(globex)("GET", path, undefined, same);
    const absent = await as(globex)("GET", `/api/v1/orgs/org_${"0".repeat(22)}/domains`, undefined, same);
    expect([foreign.status, foreign.text]).toEqual([404, absent.text]);
    expect((await as(globex)("POST", path, { domain: aName() })).status).toBe(404);
  });

  it.runIf(system.concurrent)("verified for two at once is one's", async () => {
    const { acme, globex, asDeveloper, at } = await anApp();
    const domain = aName();
    const answers = await together(20, (i) =>
      asDeveloper("POST", `${at}/orgs/${i % 2 ? acme : globex}/domains`, { domain, verified: true }),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(new Set(answers.map(({ status }) => status))).not.toContain(500);
  });
});

describe("DNS", () => {
  let own: Own;
  let base: string;
  const asked: string[] = [];
  let answer: () => Response;
  beforeAll(async () => {
    own = await ownSystem(openDatabase());
    base = await own.start([await newSigningKey("one")], [newRoot()], {
      groups: ["root", "developer", "people"],
      outbound: async ({ url }) => {
        asked.push(url);
        return answer();
      },
    });
  });
  afterAll(() => own?.close());
  const json = (body: unknown) => () =>
    new Response(JSON.stringify(body), { headers: { "Content-Type": "application/dns-json" } });
  const saying = (...data: string[]) => json({ Status: 0, Answer: data.map((one) => ({ type: 16, data: one })) });

  it("verifies a domain by its TXT record, whoever asks, and by no other; again is the same", async () => {
    const { acme, globex, as } = await anApp({ base, newApp: own.newApp });
    const domain = aName();
    const path = `/api/v1/orgs/${acme}/domains`;
    const { id, record } = await must(as(acme)("POST", path, { domain }), 201);
    const theirs = await must(as(globex)("POST", `/api/v1/orgs/${globex}/domains`, { domain }), 201);
    const verify = () => as(acme)("POST", `${path}/${id}/verify`);
    for (const [said, status, code] of [
      [json({ Status: 3 }), 422, "not_found_in_dns"],
      [saying('"v=spf1 -all"', `"${theirs.record.value}"`, `"x${record.value}"`), 422, "not_found_in_dns"],
      [json({ Status: 0, Answer: [{ type: 5, data: `"${record.value}"` }] }), 422, "not_found_in_dns"],
      [json({ Status: 2 }), 503, "unavailable"],
      [() => new Response("", { status: 500 }), 503, "unavailable"],
    ] as const) {
      answer = said;
      const { status: was, body } = await verify();
      expect([was, body.error.code]).toEqual([status, code]);
    }
    answer = saying(`"${record.value.slice(0, 20)}" "${record.value.slice(20)}"`);
    expect(await must(verify(), 200)).toMatchObject({ status: "verified", verified_by: "dns" });
    expect(asked.at(-1)).toBe(`https://cloudflare-dns.com/dns-query?name=${record.name}&type=TXT`);
    answer = json({ Status: 3 });
    expect(await must(verify(), 200)).toMatchObject({ status: "verified" });
    answer = saying(`"${theirs.record.value}"`);
    expect((await as(globex)("POST", `/api/v1/orgs/${globex}/domains/${theirs.id}/verify`)).status).toBe(409);
  });

  it.each([
    ["several texts", { Status: 0, Answer: [{ type: 16, data: '"a" "b\\"c"' }] }, ['ab"c']],
    ["a text without quotes", { Status: 0, Answer: [{ type: 16, data: "a" }] }, ["a"]],
    ["another sort of record", { Status: 0, Answer: [{ type: 1, data: "a" }] }, []],
    ["nothing", { Status: 0 }, []],
    ["no such name", { Status: 3 }, []],
    ["a failure", { Status: 2 }, null],
    ["what isn't JSON", "<html>", null],
    ["what isn't an answer", [], null],
    ["odd records", { Status: 0, Answer: [null, 1, { type: 16, data: 1 }] }, []],
  ])("of %s is understood", (_, body, texts) => {
    expect(textsOf(body)).toEqual(texts);
  });
});
