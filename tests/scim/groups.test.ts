/** Groups as an org's identity provider keeps them, and the roles that they give. */
import { describe, expect, it } from "vitest";
import { must, sql, system, together, unique } from "../harness/index.ts";
import { aStage, patch, SCIM, type Stage } from "./stage.ts";

const membersOf = async ({ asProvider }: Stage, id: string): Promise<string[]> =>
  (await must(asProvider("GET", `${SCIM}/Groups/${id}`), 200)).members.map((one: any) => one.value).sort();

describe("a group", () => {
  it("is made with its members, and shown as RFC 7643 has it, to them too", async () => {
    const { aPerson, asProvider } = await aStage();
    const ada = await aPerson({ displayName: "Ada" });
    const displayName = unique("Support");
    const body = { displayName, externalId: "g1", members: [{ value: ada.id, display: "another" }] };
    const made = await must(asProvider("POST", `${SCIM}/Groups`, body), 201);
    const $ref = (kind: string, id: string) => `http://agentry.test/scim/v2/${kind}/${id}`;
    expect(made).toMatchObject({
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
      ...{ displayName, externalId: "g1" },
      members: [{ value: ada.id, display: "Ada", $ref: $ref("Users", ada.id) }],
      meta: { resourceType: "Group", location: $ref("Groups", made.id) },
    });
    const { groups } = await must(asProvider("GET", `${SCIM}/Users/${ada.id}`), 200);
    expect(groups).toEqual([{ value: made.id, display: displayName, $ref: $ref("Groups", made.id) }]);
  });

  it("is found by its name, its external id and its id, without members where they are not asked for", async () => {
    const { aPerson, aGroup, asProvider } = await aStage();
    const { id, displayName } = await aGroup([(await aPerson()).id], { externalId: "g1" });
    await aGroup([], { externalId: "g2" });
    const find = async (filter: string, more = "") =>
      (await must(asProvider("GET", `${SCIM}/Groups?filter=${encodeURIComponent(filter)}${more}`), 200)).Resources;
    for (const filter of [`displayName eq "${displayName.toUpperCase()}"`, 'externalId eq "g1"', `id eq "${id}"`]) {
      expect([filter, (await find(filter)).map((one: any) => one.id)]).toEqual([filter, [id]]);
    }
    expect((await find('externalId eq "g1"'))[0].members).toHaveLength(1);
    expect((await find('externalId eq "g1"', "&excludedAttributes=members"))[0]).not.toHaveProperty("members");
    expect(await find('userName eq "ada"')).toEqual([]);
    const one = await must(asProvider("GET", `${SCIM}/Groups/${id}?attributes=displayName`), 200);
    expect(Object.keys(one).sort()).toEqual(["displayName", "id", "schemas"]);
  });

  it("takes members in and lets them go, in both dialects", async () => {
    const stage = await aStage();
    const { aPerson, aGroup, asProvider } = stage;
    const [ada, bob, eve] = [(await aPerson()).id, (await aPerson()).id, (await aPerson()).id].sort();
    const { id } = await aGroup([ada!]);
    const change = async (...operations: unknown[]) => {
      expect((await asProvider("PATCH", `${SCIM}/Groups/${id}`, patch(...operations))).status).toBe(204);
      return membersOf(stage, id);
    };
    expect(await change({ op: "Add", path: "members", value: [{ value: bob }, { value: ada }] })).toEqual([ada, bob]);
    expect(await change({ op: "remove", path: `members[value eq "${ada}"]` })).toEqual([bob]);
    expect(await change({ op: "replace", path: "members", value: [{ value: ada }, { value: eve }] })).toEqual([
      ada,
      eve,
    ]);
    expect(await change({ op: "Remove", path: "members", value: [{ value: eve }] })).toEqual([ada]);
    expect(
      await change({ op: "Remove", path: "members" }, { op: "add", path: "members", value: [{ value: bob }] }),
    ).toEqual([bob]);
    await must(asProvider("PUT", `${SCIM}/Groups/${id}`, { displayName: unique("G"), members: [{ value: eve }] }), 200);
    expect(await membersOf(stage, id)).toEqual([eve]);
  });

  it("has users of its org alone: another's and nobody's are one 400, and nothing is changed", async () => {
    const stage = await aStage();
    const { aGroup, aUser, asProvider, globex, owners } = stage;
    const { id } = await aGroup();
    const { id: nobodys } = await aUser(null);
    const add = (value: string) =>
      asProvider("PATCH", `${SCIM}/Groups/${id}`, patch({ op: "add", path: "members", value: [{ value }] }));
    const foreign = await add(owners[globex]!);
    const absent = await add(`usr_${"0".repeat(22)}`);
    expect([foreign.status, foreign.body.scimType]).toEqual([400, "invalidValue"]);
    expect(foreign.text).toBe(absent.text);
    expect((await add(nobodys)).text).toBe(absent.text);
    expect(
      (await asProvider("POST", `${SCIM}/Groups`, { displayName: "x", members: [{ value: owners[globex] }] })).status,
    ).toBe(400);
    expect(await membersOf(stage, id)).toEqual([]);
  });

  it("has a name that no other of its org has: 409, uniqueness", async () => {
    const { aGroup, asProvider, aProvider, globex } = await aStage();
    const { displayName } = await aGroup();
    const again = await asProvider("POST", `${SCIM}/Groups`, { displayName: displayName.toUpperCase() });
    expect([again.status, again.body.scimType]).toEqual([409, "uniqueness"]);
    const { id } = await aGroup();
    const renamed = await asProvider(
      "PATCH",
      `${SCIM}/Groups/${id}`,
      patch({ op: "replace", value: { id, displayName } }),
    );
    expect(renamed.status).toBe(409);
    const { call } = await aProvider(globex);
    expect((await call("POST", `${SCIM}/Groups`, { displayName })).status).toBe(201);
  });

  it("is gone after DELETE, and its members stay", async () => {
    const { aPerson, aGroup, asProvider } = await aStage();
    const ada = await aPerson();
    const { id } = await aGroup([ada.id]);
    expect((await asProvider("DELETE", `${SCIM}/Groups/${id}`)).status).toBe(204);
    for (const method of ["GET", "DELETE"]) expect((await asProvider(method, `${SCIM}/Groups/${id}`)).status).toBe(404);
    expect(
      (
        await asProvider(
          "PATCH",
          `${SCIM}/Groups/${id}`,
          patch({ op: "add", path: "members", value: [{ value: ada.id }] }),
        )
      ).status,
    ).toBe(404);
    expect(await must(asProvider("GET", `${SCIM}/Users/${ada.id}`), 200)).not.toHaveProperty("groups");
  });

  it.runIf(system.concurrent)("takes the same member in once, however often at once", async () => {
    const stage = await aStage();
    const { id: ada } = await stage.aPerson();
    const { id } = await stage.aGroup();
    const body = patch({ op: "add", path: "members", value: [{ value: ada }] });
    const answers: any[] = await together(20, () => stage.asProvider("PATCH", `${SCIM}/Groups/${id}`, body));
    expect(new Set(answers.map(({ status }: any) => status))).toEqual(new Set([204]));
    expect(await membersOf(stage, id)).toEqual([ada]);
  });
});

describe("a role", () => {
  const rolesOf = async (...users: string[]) =>
    Promise.all(users.map(async (id) => (await sql("select role from data.users where id = $1", [id]))[0].role));

  it("is the most that a group gives, as soon as it does, and member without any", async () => {
    const { aPerson, aGroup, asProvider, as, acme } = await aStage();
    const { id: ada } = await aPerson();
    const { id: bob } = await aPerson();
    const staff = await aGroup([ada, bob]);
    const admins = await aGroup([ada]);
    const give = (group: string, role: string | null) =>
      must(as(acme)("PATCH", `/api/v1/orgs/${acme}/scim_groups/${group}`, { role }), 200);
    expect(await rolesOf(ada, bob)).toEqual(["member", "member"]);
    expect(await give(staff.id, "viewer")).toMatchObject({ id: staff.id, role: "viewer" });
    expect(await rolesOf(ada, bob)).toEqual(["viewer", "viewer"]);
    await give(admins.id, "admin");
    expect(await rolesOf(ada, bob)).toEqual(["admin", "viewer"]);
    await asProvider(
      "PATCH",
      `${SCIM}/Groups/${admins.id}`,
      patch({ op: "add", path: "members", value: [{ value: bob }] }),
    );
    expect(await rolesOf(ada, bob)).toEqual(["admin", "admin"]);
    await asProvider(
      "PATCH",
      `${SCIM}/Groups/${admins.id}`,
      patch({ op: "remove", path: `members[value eq "${ada}"]` }),
    );
    expect(await rolesOf(ada, bob)).toEqual(["viewer", "admin"]);
    await asProvider("DELETE", `${SCIM}/Groups/${admins.id}`);
    expect(await rolesOf(ada, bob)).toEqual(["viewer", "viewer"]);
    await give(staff.id, null);
    expect(await rolesOf(ada, bob)).toEqual(["member", "member"]);
  });

  it("that a person gave is not a group's to change", async () => {
    const { aPerson, aGroup, aUser, asProvider, asDeveloper, at, acme, anAddress } = await aStage();
    const email = anAddress();
    const { id: owner } = await aUser(acme, "owner", { email });
    await must(asProvider("POST", `${SCIM}/Users`, { userName: email }), 201);
    const { id: ada } = await aPerson();
    await must(asDeveloper("PATCH", `${at}/users/${ada}`, { role: "billing" }), 200);
    const { id } = await aGroup([owner, ada]);
    await must(asDeveloper("PATCH", `${at}/orgs/${acme}/scim_groups/${id}`, { role: "viewer" }), 200);
    expect(await rolesOf(owner, ada)).toEqual(["owner", "billing"]);
  });

  it("of an owner is none that a group can give, and no member sets any", async () => {
    const { aGroup, asDeveloper, as, at, acme } = await aStage();
    const { id } = await aGroup();
    const path = `/orgs/${acme}/scim_groups/${id}`;
    expect((await asDeveloper("PATCH", `${at}${path}`, { role: "owner" })).status).toBe(422);
    expect((await as(acme, { role: "member" })("PATCH", `/api/v1${path}`, { role: "admin" })).status).toBe(403);
    expect((await must(as(acme)("GET", `/api/v1/orgs/${acme}/scim_groups`), 200)).data).toMatchObject([
      { id, role: null },
    ]);
  });
});
