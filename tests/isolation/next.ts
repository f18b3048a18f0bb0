import { expect, it } from "vitest";
import { bearer, caller, must, type Role } from "../harness/index.ts";
import {
  ABSENT,
  addressOf,
  bodyOf,
  ENDS_OTHERS,
  guarded,
  makeRows,
  type Operation,
  type Values,
} from "./operations.ts";
import { aPlace, aSandbox, aToken, type Place, post } from "./places.ts";
import { codeOf, forAll, isOfPersons } from "./refusals.ts";
import { fill, rowOf, type Stage } from "./stage.ts";

export function onTheNextRequest(the: () => Stage) {
  const asToken = guarded.filter(isOfPersons);
  /** Status and code of every operation that a token may ask, each with the rows it is given. */
  const everywhere = async (place: Place, text: string, rows: (operation: Operation) => Values) => {
    const call = caller(bearer(text), the().base);
    const ask = async (operation: Operation) => {
      const path = addressOf(operation, rows(operation));
      const { status, body } = await call(operation.method, path, bodyOf(operation, { home: place }));
      const code = status < 400 ? null : codeOf({ body });
      // What a fresh row is refused by may have the status of a suspension.
      const works = status === operation.success && code !== "org_suspended";
      return [operation.name, works ? "works" : `${status} ${code}`];
    };
    const isLast = ({ name }: Operation) => ENDS_OTHERS.includes(name);
    const first = await forAll(
      asToken.filter((operation) => !isLast(operation)),
      ask,
    );
    return Object.fromEntries([...first, ...(await forAll(asToken.filter(isLast), ask))]);
  };
  const all = (what: string) => Object.fromEntries(asToken.map(({ name }) => [name, what]));
  const aDoomedPlace = async () => {
    const { app, secret_key: key } = await the().anApp();
    const place = await fill(await aPlace("doomed", { app, sandbox: null, key }, the().base));
    const { id, access_token: token } = await aToken(place, place.owner);
    return { place, id, token };
  };

  it("a suspended org is refused on every route, and works again once it is active", async () => {
    const { place, token } = await aDoomedPlace();
    const fresh = await forAll(asToken, ({ parameters }) => makeRows(parameters, place, place.owner));
    const set = (status: string) => must(place.asDeveloper("PATCH", `${place.at}/orgs/${place.org}`, { status }), 200);
    await set("suspended");
    expect(await everywhere(place, token, () => place.rows)).toEqual(all("403 org_suspended"));
    await set("trialing");
    expect((await caller(bearer(token), the().base)("GET", "/api/v1/users/me")).status).toBe(200);
    await set("active");
    expect(await everywhere(place, token, (operation) => fresh[asToken.indexOf(operation)]!)).toEqual(all("works"));
  });

  it("a revoked token is refused on every route", async () => {
    const { place, id, token } = await aDoomedPlace();
    await must(place.asDeveloper("DELETE", `${place.at}/users/${place.owner}/tokens/${id}`), 200);
    expect(await everywhere(place, token, () => place.rows)).toEqual(all("401 unauthenticated"));
  });

  it("a deleted user is refused on every route", async () => {
    const { place, token } = await aDoomedPlace();
    await post(place.asDeveloper, `${place.at}/users`, { org: place.org, role: "owner" });
    await must(place.asDeveloper("DELETE", `${place.at}/users/${place.owner}`), 204);
    expect(await everywhere(place, token, () => place.rows)).toEqual(all("401 unauthenticated"));
  });

  it("a deleted org is refused on every route", async () => {
    const { place, token } = await aDoomedPlace();
    await must(place.asDeveloper("DELETE", `${place.at}/orgs/${place.org}`), 204);
    expect(await everywhere(place, token, () => place.rows)).toEqual(all("401 unauthenticated"));
  });

  it("a demoted user may no longer do what the new role does not hold, and may again what it does", async () => {
    const { place, token } = await aDoomedPlace();
    const call = caller(bearer(token), the().base);
    await post(place.asDeveloper, `${place.at}/users`, { org: place.org, role: "owner" });
    const become = (role: Role) => must(place.asDeveloper("PATCH", `${place.at}/users/${place.owner}`, { role }), 200);
    const write = async () => (await call("POST", "/api/v1/agents", { name: "A" })).status;
    const read = async () => (await call("GET", "/api/v1/agents")).status;
    expect([await write(), await read()]).toEqual([200, 200]);
    await become("viewer");
    expect([await write(), await read()]).toEqual([403, 200]);
    const refused = await call("DELETE", `/api/v1/agents/${rowOf(place, "agent")}`);
    expect(refused.headers.get("WWW-Authenticate")).toContain('error="insufficient_scope", scope="agents:write"');
    await become("billing");
    expect([await write(), await read()]).toEqual([403, 403]);
    await become("member");
    expect([await write(), await read()]).toEqual([200, 200]);
  });

  it("a revoked key and a deleted sandbox's key are refused on every route of the developer", async () => {
    const { asDeveloper, app, at } = await the().anApp();
    const key = await post(asDeveloper, `${at}/keys`, { type: "secret" });
    const box = await aSandbox(asDeveloper);
    await must(asDeveloper("DELETE", `${at}/keys/${key.id}`), 200);
    await must(asDeveloper("DELETE", `/api/v1/sandboxes/${box.id}`), 204);
    for (const text of [key.full_key, box.key]) {
      const call = caller(bearer(text), the().base);
      const statuses = await forAll(guarded, async (operation) => {
        const path = addressOf(operation, { ...ABSENT, "apps/{app_id}": app });
        const { status } = await call(operation.method, path, bodyOf(operation, { home: the().places[0]! }));
        return [operation.name, status];
      });
      expect(statuses).toEqual(guarded.map(({ name }) => [name, 401]));
    }
  });
}
