/** The door of an org's provider: whose token opens it, to what, and how it refuses. */
import { describe, expect, it } from "vitest";
import { bearer, caller, must, sql } from "../harness/index.ts";
import { aStage, patch, SCIM } from "./stage.ts";

const ERROR = ["urn:ietf:params:scim:api:messages:2.0:Error"];

describe("a SCIM token", () => {
  it("is shown once, and kept as a hash", async () => {
    const { acme, as, app } = await aStage();
    const path = `/api/v1/orgs/${acme}/scim_tokens`;
    const key = { "Idempotency-Key": "one" };
    const made = await must(as(acme)("POST", path, {}, key), 201);
    expect(made.token).toMatch(new RegExp(`^scim_${app.slice(4)}__${acme.slice(4)}_[0-9A-Za-z]{43}$`));
    expect((await must(as(acme)("POST", path, {}, key), 201)).token).toBeNull();
    const { data } = await must(as(acme)("GET", path), 200);
    expect(data.map(({ id, token, hint }: any) => [id, token, hint])[0]).toEqual([made.id, null, made.token.slice(-4)]);
    expect(JSON.stringify(await sql("select * from data.scim_tokens"))).not.toContain(made.token.slice(-43));
  });

  it("lives beside one other, so that it can be changed without a gap; a deleted one is dead on the next request", async () => {
    const { acme, asDeveloper, at, asProvider, aProvider } = await aStage();
    const other = await aProvider(acme);
    const third = await asDeveloper("POST", `${at}/orgs/${acme}/scim_tokens`, {});
    expect([third.status, third.body.error.code]).toEqual([422, "limit_reached"]);
    expect((await other.call("GET", `${SCIM}/Users`)).status).toBe(200);
    expect((await asDeveloper("DELETE", `${at}/orgs/${acme}/scim_tokens/${other.id}`)).status).toBe(204);
    expect((await other.call("GET", `${SCIM}/Users`)).status).toBe(401);
    expect((await other.call("GET", `${SCIM}/Users/usr_none`)).status).toBe(401);
    expect((await asProvider("GET", `${SCIM}/Users`)).status).toBe(200);
  });

  it("notes when it was used", async () => {
    const { asProvider, acme, as } = await aStage();
    await must(asProvider("GET", `${SCIM}/Users`), 200);
    const used = async () =>
      (await must(as(acme)("GET", `/api/v1/orgs/${acme}/scim_tokens`), 200)).data[0].last_used_at;
    await expect.poll(used).not.toBeNull();
  });

  it("is no credential anywhere else, and nothing else is one here", async () => {
    const { token, acme, globex, owners, aToken, secret_key, app } = await aStage();
    expect((await caller(bearer(token))("GET", "/api/v1/agents")).status).toBe(401);
    const { access_token, refresh_token } = await aToken(owners[acme]!);
    const moved = token.replace(acme.slice(4), globex.slice(4));
    const [unknown, hook] = [`${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}`, token.replace("scim_", "whk_")];
    const texts = [unknown, moved, hook, access_token, refresh_token, secret_key, "x", "", `scim_${app.slice(4)}`];
    const answers = await Promise.all(
      texts.map((text) => caller({ ...bearer(text), "X-Request-Id": "the-same-one" })("GET", `${SCIM}/Users`)),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    const { status, headers, body } = answers[0]!;
    expect([status, headers.get("Content-Type")]).toEqual([401, "application/scim+json"]);
    expect(body).toEqual({ schemas: ERROR, status: "401", detail: body.detail });
    expect((await caller()("GET", `${SCIM}/Users`)).status).toBe(401);
  });

  it("of a suspended org is refused, of a deleted one dead", async () => {
    const { asProvider, asDeveloper, at, acme } = await aStage();
    const set = (status: string) => must(asDeveloper("PATCH", `${at}/orgs/${acme}`, { status }), 200);
    await set("suspended");
    expect((await asProvider("GET", `${SCIM}/Users`)).status).toBe(403);
    await set("active");
    expect((await asProvider("GET", `${SCIM}/Users`)).status).toBe(200);
    await asDeveloper("DELETE", `${at}/orgs/${acme}`);
    expect((await asProvider("GET", `${SCIM}/Users`)).status).toBe(401);
  });

  it("reaches its own org: another's users and groups are absent, to the byte, and unchanged", async () => {
    const { aPerson, aGroup, aProvider, globex } = await aStage();
    const [{ id: user }, { id: group }] = [await aPerson(), await aGroup()];
    const { call } = await aProvider(globex);
    const same = { "X-Request-Id": "the-same-one" };
    const off = patch({ op: "replace", value: { active: false, displayName: "X" } });
    for (const [kind, id, absent] of [
      ["Users", user, `usr_${"0".repeat(22)}`],
      ["Groups", group, `scg_${"0".repeat(22)}`],
    ] as const) {
      for (const [method, body] of [
        ["GET"],
        ["DELETE"],
        ["PATCH", off],
        ["PUT", { userName: "a@b.example", displayName: "X" }],
      ] as const) {
        const ask = (one: string) => call(method, `${SCIM}/${kind}/${one}`, body, same);
        const [foreign, none, malformed] = [await ask(id), await ask(absent), await ask("x")];
        // An address is refused before anybody is looked for.
        expect([kind, method, foreign.status]).toEqual([
          kind,
          method,
          kind === "Users" && method === "PUT" ? 400 : 404,
        ]);
        expect(foreign.text).toBe(none.text);
        if (foreign.status === 404) expect(malformed.text).toBe(none.text);
      }
    }
    expect(await sql("select deactivated_at from data.users where id = $1", [user])).toEqual([
      { deactivated_at: null },
    ]);
  });

  it("of one sandbox opens that sandbox", async () => {
    const { asDeveloper, at } = await aStage();
    const { id } = await must(asDeveloper("POST", "/api/v1/sandboxes", { name: "Box", slug: "box" }), 201);
    const { full_key } = await must(asDeveloper("POST", `/api/v1/sandboxes/${id}/keys`, { type: "secret" }), 200);
    const inside = caller(bearer(full_key));
    const org = await must(inside("POST", `${at}/orgs`, { name: "O", slug: "inside", domain: "inside.example" }), 201);
    const { token } = await must(inside("POST", `${at}/orgs/${org.id}/scim_tokens`, {}), 201);
    const call = caller(bearer(token));
    await must(call("POST", `${SCIM}/Users`, { userName: "ada@inside.example" }), 201);
    await must(asDeveloper("DELETE", `/api/v1/sandboxes/${id}`), 204);
    expect((await call("GET", `${SCIM}/Users`)).status).toBe(401);
  });
});

describe("an error", () => {
  it("is RFC 7644's, whatever is wrong", async () => {
    const { asProvider } = await aStage();
    for (const [method, path, body, status, scimType] of [
      ["POST", "/Users", "{", 400, "invalidSyntax"],
      ["POST", "/Users", "[]", 400, "invalidSyntax"],
      ["POST", "/Users", { userName: "x" }, 400, "invalidValue"],
      ["POST", "/Users", `{"userName": "a\\u0000"}`, 400, "invalidValue"],
      ["PATCH", "/Users/usr_x", { Operations: [{ op: "remove" }] }, 400, "noTarget"],
      ["PATCH", "/Users/usr_x", { Operations: [{ op: "add", path: "__proto__.x", value: 1 }] }, 400, "invalidPath"],
      ["GET", "/Users?startIndex=0", undefined, 400, "invalidValue"],
      ["GET", "/Users/x", undefined, 404, undefined],
      ["GET", "/Me", undefined, 404, undefined],
      ["POST", "/Bulk", {}, 404, undefined],
      ["DELETE", "/Users", undefined, 405, undefined],
    ] as const) {
      const answer = await asProvider(method, SCIM + path, body);
      const { detail, ...error } = answer.body;
      expect([path, answer.status, error]).toEqual([
        path,
        status,
        { schemas: ERROR, status: String(status), ...(scimType && { scimType }) },
      ]);
      expect(detail).toMatch(/\.$/);
      expect(answer.headers.get("Content-Type")).toBe("application/scim+json");
    }
    const text = await caller({})("POST", `${SCIM}/Users`, "x", { "Content-Type": "text/plain" });
    expect(text.status).toBe(401);
    expect((await asProvider("POST", `${SCIM}/Users`, "x", { "Content-Type": "text/plain" })).status).toBe(415);
  });

  it("bounds how much a body holds", async () => {
    const { asProvider } = await aStage();
    const members = Array.from({ length: 10_001 }, () => null);
    expect((await asProvider("POST", `${SCIM}/Groups`, { displayName: "x", members })).status).toBe(400);
  });
});

describe("discovery", () => {
  it("tells what is kept and what is supported, to who has a token", async () => {
    const { asProvider } = await aStage();
    const get = (path: string) => must(asProvider("GET", `${SCIM}/${path}`), 200);
    expect(await get("ServiceProviderConfig")).toMatchObject({
      patch: { supported: true },
      filter: { supported: true, maxResults: 200 },
      bulk: { supported: false },
    });
    expect((await get("ResourceTypes")).Resources.map(({ endpoint }: any) => endpoint)).toEqual(["/Users", "/Groups"]);
    const [user] = (await get("Schemas")).Resources;
    expect(user.attributes.map(({ name }: any) => name)).toEqual([
      ...["userName", "externalId", "displayName", "name", "emails", "active", "groups"],
    ]);
    expect((await caller()("GET", `${SCIM}/Schemas`)).status).toBe(401);
  });
});
