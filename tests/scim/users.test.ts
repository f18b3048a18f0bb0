/** Users as an org's identity provider keeps them: who they are, and that they end exactly when it says so. */
import { describe, expect, it } from "vitest";
import { bearer, caller, must, sql, system, together, unique } from "../harness/index.ts";
import { aStage, patch, SCIM } from "./stage.ts";

const USER = ["urn:ietf:params:scim:schemas:core:2.0:User"];

describe("a user", () => {
  it("is made as Okta says it, and shown as RFC 7643 has it", async () => {
    const { asProvider, domain, acme, userOf } = await aStage();
    const userName = `${unique("Ada")}@${domain}`;
    const { status, headers, body } = await asProvider("POST", `${SCIM}/Users`, {
      ...{ schemas: USER, userName, externalId: "00u1", active: true, locale: "en-US", password: "not kept" },
      name: { givenName: "Ada", familyName: "Lovelace" },
      emails: [{ primary: true, value: userName, type: "work" }],
      groups: [],
    });
    expect([status, headers.get("Content-Type")]).toEqual([201, "application/scim+json"]);
    expect(body).toEqual({
      ...{ schemas: USER, id: body.id, userName, externalId: "00u1", active: true },
      name: { givenName: "Ada", familyName: "Lovelace" },
      emails: [{ value: userName, type: "work", primary: true }],
      meta: {
        ...{ resourceType: "User", created: body.meta.created, lastModified: body.meta.created },
        location: `http://agentry.test/scim/v2/Users/${body.id}`,
      },
    });
    expect(await userOf(body.id)).toMatchObject({
      org: acme,
      name: "Ada Lovelace",
      email: userName,
      org_role: "member",
    });
    expect((await must(asProvider("GET", `${SCIM}/Users/${body.id}`), 200)).userName).toBe(userName);
  });

  it("is found by what a provider knows it by, and only within its org", async () => {
    const { asProvider, aPerson, aProvider, globex, anAddress } = await aStage();
    const userName = anAddress();
    const { id } = await aPerson({ userName, externalId: unique("00u"), displayName: unique("Ada") });
    const { externalId, displayName } = await must(asProvider("GET", `${SCIM}/Users/${id}`), 200);
    await aPerson();
    const find = async (filter: string, call = asProvider) =>
      (await must(call("GET", `${SCIM}/Users?filter=${encodeURIComponent(filter)}`), 200)).Resources.map(
        (one: any) => one.id,
      );
    for (const filter of [
      ...[`userName eq "${userName.toUpperCase()}"`, `externalId eq "${externalId}"`, `id eq "${id}"`],
      ...[`displayName eq "${displayName}"`, `emails[type eq "work"].value eq "${userName}"`],
      `userName eq "${userName}" and externalId eq "${externalId}"`,
    ]) {
      expect([filter, await find(filter)]).toEqual([filter, [id]]);
    }
    expect(await find(`userName eq "${userName}" and externalId eq "another"`)).toEqual([]);
    expect(await find(`externalId eq "${externalId.toUpperCase()}"`)).toEqual([]);
    const { call: asGlobex } = await aProvider(globex);
    expect(await find(`userName eq "${userName}"`, asGlobex)).toEqual([]);
    expect((await asProvider("GET", `${SCIM}/Users?filter=${encodeURIComponent('title eq "x"')}`)).body).toMatchObject({
      ...{ status: "400", scimType: "invalidFilter" },
    });
  });

  it("stands in a list by its place, from one on, as many as are asked for", async () => {
    const { asProvider, aPerson } = await aStage();
    const made = [await aPerson(), await aPerson(), await aPerson()].map(({ id }) => id);
    const list = (query: string) => must(asProvider("GET", `${SCIM}/Users?${query}`), 200);
    const page = await list("startIndex=2&count=1");
    expect(page).toMatchObject({ totalResults: 3, startIndex: 2, itemsPerPage: 1, Resources: [{ id: made[1] }] });
    expect((await list("")).Resources.map((one: any) => one.id)).toEqual(made);
    expect(await list("count=0")).toMatchObject({ totalResults: 3, itemsPerPage: 0, Resources: [] });
    expect(await list("startIndex=9")).toMatchObject({ totalResults: 3, Resources: [] });
    const [one] = (await list("count=1&attributes=userName,name.givenName")).Resources;
    expect(Object.keys(one).sort()).toEqual(["id", "schemas", "userName"]);
    const [other] = (await list("count=1&excludedAttributes=emails,meta")).Resources;
    expect(Object.keys(other)).not.toContain("emails");
    expect(Object.keys(other)).toContain("userName");
  });

  it("is changed by PATCH as Entra says it, and what isn't said stays", async () => {
    const { asProvider, aPerson, anAddress, userOf } = await aStage();
    const { id, userName } = await aPerson({ externalId: "e1", name: { givenName: "Ada" } });
    const address = anAddress();
    const { status, body } = await asProvider(
      "PATCH",
      `${SCIM}/Users/${id}`,
      patch(
        { op: "Replace", path: "displayName", value: "Ada L." },
        { op: "Add", path: "name.familyName", value: "Lovelace" },
        { op: "Replace", path: 'emails[type eq "work"].value', value: address },
        { op: "Remove", path: "externalId" },
      ),
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({ userName, displayName: "Ada L.", name: { givenName: "Ada", familyName: "Lovelace" } });
    expect(body.emails[0].value).toBe(address);
    expect(body).not.toHaveProperty("externalId");
    expect(await userOf(id)).toMatchObject({ name: "Ada L.", email: address });
  });

  it("is by PUT what was said, and nothing else", async () => {
    const { asProvider, aPerson } = await aStage();
    const { id, userName } = await aPerson({ externalId: "e1", name: { givenName: "Ada" } });
    const body = await must(asProvider("PUT", `${SCIM}/Users/${id}`, { userName, name: { formatted: "A. L." } }), 200);
    expect(body).toMatchObject({ userName, name: { formatted: "A. L." }, active: true });
    expect(Object.keys(body)).not.toContain("externalId");
    expect(Object.keys(body)).not.toContain("displayName");
  });

  it("has an address of a domain that is verified for its org, and no other", async () => {
    const { asProvider, aPerson, asDeveloper, at, acme, anOrg } = await aStage();
    const theirs = await anOrg();
    const pending = `${unique("new")}.example`;
    await must(asDeveloper("POST", `${at}/orgs/${acme}/domains`, { domain: pending }), 201);
    const { id } = await aPerson();
    for (const domain of [theirs.domain, pending, `sub.${theirs.domain}`, "gmail.com", "nobody.example"]) {
      const email = `${unique("eve")}@${domain}`;
      const { status, body } = await asProvider("POST", `${SCIM}/Users`, { userName: email });
      expect([domain, status, body.scimType]).toEqual([domain, 400, "invalidValue"]);
      const moved = await asProvider(
        "PATCH",
        `${SCIM}/Users/${id}`,
        patch({ op: "add", path: "emails", value: [{ value: email }] }),
      );
      expect([domain, moved.status]).toEqual([domain, 400]);
    }
    const own = `${unique("own")}.example`;
    await must(asDeveloper("POST", `${at}/orgs/${acme}/domains`, { domain: own, verified: true }), 201);
    await aPerson({ userName: `ada@${own.toUpperCase()}` });
  });

  it("is known by its userName once, whatever the case: 409, uniqueness", async () => {
    const { asProvider, aPerson, anAddress } = await aStage();
    const { userName } = await aPerson();
    const again = await asProvider("POST", `${SCIM}/Users`, { userName: userName.toUpperCase() });
    expect([again.status, again.body.scimType]).toEqual([409, "uniqueness"]);
    const other = await asProvider("POST", `${SCIM}/Users`, {
      userName: userName.toUpperCase(),
      emails: [{ value: anAddress() }],
    });
    expect([other.status, other.body.scimType]).toEqual([409, "uniqueness"]);
    const { id } = await aPerson();
    const taken = await asProvider("PATCH", `${SCIM}/Users/${id}`, patch({ op: "replace", value: { userName } }));
    expect([taken.status, taken.body.scimType]).toEqual([409, "uniqueness"]);
  });

  it.runIf(system.concurrent)("made fifty times at once is one", async () => {
    const { asProvider, anAddress } = await aStage();
    const userName = anAddress();
    const answers: any[] = await together(50, () => asProvider("POST", `${SCIM}/Users`, { userName }));
    expect(answers.map(({ status }: any) => status).sort()).toEqual([201, ...Array(49).fill(409)]);
  });
});

describe("who is there already", () => {
  it("is taken on, with the role that a person gave, an owner too", async () => {
    const { asProvider, aUser, acme, anAddress, userOf } = await aStage();
    const email = anAddress();
    const { id } = await aUser(acme, "owner", { email, name: "Before" });
    expect((await must(asProvider("GET", `${SCIM}/Users`), 200)).totalResults).toBe(0);
    const made = await must(asProvider("POST", `${SCIM}/Users`, { userName: email, displayName: "After" }), 201);
    expect(made.id).toBe(id);
    expect(await userOf(id)).toMatchObject({ name: "After", org_role: "admin" });
  });

  it("and in no org comes into this one; a system user doesn't", async () => {
    const { asProvider, aUser, acme, anAddress, userOf } = await aStage();
    const [email, machine] = [anAddress(), anAddress()];
    const { id } = await aUser(null, "member", { email });
    const made = await must(asProvider("POST", `${SCIM}/Users`, { userName: email }), 201);
    expect(made.id).toBe(id);
    expect(await userOf(id)).toMatchObject({ org: acme, org_role: "member" });
    await aUser(null, "member", { email: machine, is_system_user: true });
    expect((await asProvider("POST", `${SCIM}/Users`, { userName: machine })).status).toBe(409);
  });

  it("in another org is neither taken nor shown: 409", async () => {
    const { asProvider, aUser, globex, anAddress, userOf } = await aStage();
    const email = anAddress();
    const { id } = await aUser(globex, "member", { email, name: "Theirs" });
    const { status, text } = await asProvider("POST", `${SCIM}/Users`, { userName: email });
    expect(status).toBe(409);
    expect(text).not.toContain(id);
    expect(await userOf(id)).toMatchObject({ org: globex, name: "Theirs" });
  });
});

describe("an end", () => {
  const ends: [dialect: string, how: (call: any, id: string) => Promise<any>][] = [
    [
      "Okta's PATCH",
      (call, id) => call("PATCH", `${SCIM}/Users/${id}`, patch({ op: "replace", value: { active: false } })),
    ],
    [
      "Entra's PATCH",
      (call, id) => call("PATCH", `${SCIM}/Users/${id}`, patch({ op: "Replace", path: "active", value: "False" })),
    ],
    ["DELETE", (call, id) => call("DELETE", `${SCIM}/Users/${id}`)],
  ];
  it.each(ends)("by %s: every credential is dead on the next request, and stays so; agents stay", async (_, end) => {
    const { asProvider, aPerson, aToken, asDeveloper, asNobody, acme } = await aStage();
    const person = await aPerson();
    const { access_token, refresh_token } = await aToken(person.id);
    const call = caller(bearer(access_token));
    const { id: agent } = await must(call("POST", "/api/v1/agents", { name: "Kept", user: person.id }), 200);
    expect((await end(asProvider, person.id)).status).toBeLessThan(300);
    expect((await call("GET", "/api/v1/agents")).status).toBe(401);
    expect((await asNobody("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
    expect((await asDeveloper("GET", `/api/v1/agents/${agent}`)).body).toMatchObject({ id: agent, org: acme });
    await must(
      asProvider("POST", `${SCIM}/Users`, { userName: person.userName }).then(async (made: any) =>
        made.status === 409
          ? {
              ...(await asProvider(
                "PATCH",
                `${SCIM}/Users/${person.id}`,
                patch({ op: "replace", value: { active: true } }),
              )),
              status: 201,
            }
          : made,
      ),
      201,
    );
    // It revives, and what it had does not.
    expect((await call("GET", "/api/v1/agents")).status).toBe(401);
    expect((await asNobody("POST", "/api/v1/auth/refresh", { refresh_token })).status).toBe(401);
    const again = await aToken(person.id);
    expect((await caller(bearer(again.access_token))("GET", "/api/v1/agents")).status).toBe(200);
  });

  it("by PUT, and a beginning without one", async () => {
    const { asProvider, anAddress, userOf } = await aStage();
    const userName = anAddress();
    const { id } = await must(asProvider("POST", `${SCIM}/Users`, { userName, active: false }), 201);
    const at = async () => (await sql("select deactivated_at from data.users where id = $1", [id]))[0].deactivated_at;
    expect(await at()).not.toBeNull();
    expect((await must(asProvider("PUT", `${SCIM}/Users/${id}`, { userName }), 200)).active).toBe(true);
    expect(await at()).toBeNull();
    expect((await must(asProvider("PUT", `${SCIM}/Users/${id}`, { userName, active: "False" }), 200)).active).toBe(
      false,
    );
    expect(await at()).not.toBeNull();
    expect((await userOf(id)).id).toBe(id);
  });

  it("by DELETE leaves nobody to the provider; made again, the same person revives, in no group of before", async () => {
    const { asProvider, aPerson, aGroup } = await aStage();
    const person = await aPerson({ externalId: "e1" });
    const group = await aGroup([person.id]);
    expect((await asProvider("DELETE", `${SCIM}/Users/${person.id}`)).status).toBe(204);
    for (const method of ["GET", "DELETE"]) {
      expect((await asProvider(method, `${SCIM}/Users/${person.id}`)).status).toBe(404);
    }
    expect((await must(asProvider("GET", `${SCIM}/Groups/${group.id}`), 200)).members).toEqual([]);
    const again = await must(asProvider("POST", `${SCIM}/Users`, { userName: person.userName }), 201);
    expect(again).toMatchObject({ id: person.id, active: true });
    expect(again).not.toHaveProperty("groups");
    expect(again).not.toHaveProperty("externalId");
  });

  it("of the last owner is told to the app, as a warning; of one of two it isn't", async () => {
    const { asProvider, aUser, acme, owners, asDeveloper, at, domain } = await aStage();
    const emails = [`${unique("one")}@${domain}`, `${unique("two")}@${domain}`];
    await must(asDeveloper("PATCH", `${at}/users/${owners[acme]}`, { email: emails[0] }), 200);
    const { id: second } = await aUser(acme, "owner", { email: emails[1] });
    for (const userName of emails) await must(asProvider("POST", `${SCIM}/Users`, { userName }), 201);
    const off = (id: string) =>
      must(asProvider("PATCH", `${SCIM}/Users/${id}`, patch({ op: "replace", value: { active: false } })), 200);
    const warnings = async () =>
      (await must(asDeveloper("GET", "/api/v1/activity_feed?limit=100"), 200)).data.filter(
        ({ level }: any) => level === "warning",
      );
    await off(owners[acme]!);
    expect(await warnings()).toEqual([]);
    await off(second);
    await off(second);
    expect(await warnings()).toMatchObject([{ kind: "scim.last_owner_deactivated", user: second }]);
    const told = await sql("select name from data.events where org_id = $1 and name like 'scim.last%'", [acme]);
    expect(told).toHaveLength(1);
  });

  it("is told in the feed, and who was named is the person", async () => {
    const { asProvider, aPerson, as, acme } = await aStage();
    const { id } = await aPerson();
    await must(
      asProvider("PATCH", `${SCIM}/Users/${id}`, patch({ op: "replace", path: "displayName", value: "B" })),
      200,
    );
    await asProvider("DELETE", `${SCIM}/Users/${id}`);
    const { data } = await must(as(acme)("GET", "/api/v1/activity_feed?limit=100"), 200);
    const kinds = data.filter(({ user }: any) => user === id).map(({ kind }: any) => kind);
    expect(kinds.filter((kind: string) => kind.startsWith("scim."))).toEqual([
      "scim.deleted",
      "scim.updated",
      "scim.created",
    ]);
  });
});
