/** Five places that must never see one another, and everybody who might try. */
import { anApp, bearer, type Call, caller, must, sql } from "../harness/index.ts";
import { makers } from "./operations.ts";
import { aPlace, aSandbox, aToken, claimsOf, type Place, post, signed } from "./places.ts";

/**
 * Somebody who asks. `refused` is the status that a live one would not get: 401 before anything is looked at
 * (`at: "door"`), or what the database says of a credential that has died since.
 */
export type Credential = {
  name: string;
  kind: "nobody" | "token" | "key";
  home: Place;
  user: string | null;
  call: Call;
  /** What it holds besides `self`. */
  power: "all" | "none";
  refused: null | { at: "door" | "database"; status: 401 | 403; code: string };
};

export type Stage = { places: Place[]; live: Credential[]; others: Credential[] };

/** Gives the answers to the walk's requests one id, the same for all, so that equal refusals are equal to the byte. */
export const walking = { "X-Request-Id": "isolation-walk" };

export async function aStage(base: string): Promise<Stage> {
  const one = await anApp({ base });
  const other = await anApp({ base });
  const boxes = [await aSandbox(one.asDeveloper), await aSandbox(one.asDeveloper)];
  const production = { app: one.app, sandbox: null, key: one.secret_key };
  const acme = await aPlace("acme", production, base);
  const globex = await aPlace("globex", production, base);
  const boxed = await aPlace("boxed", { app: one.app, sandbox: boxes[0]!.id, key: boxes[0]!.key }, base);
  const boxed2 = await aPlace("boxedtwo", { app: one.app, sandbox: boxes[1]!.id, key: boxes[1]!.key }, base);
  const elsewhere = await aPlace("elsewhere", { app: other.app, sandbox: null, key: other.secret_key }, base);
  const places = [acme, globex, boxed, boxed2, elsewhere];

  const token = (
    name: string,
    home: Place,
    user: string,
    text: string,
    more: Partial<Credential> = {},
  ): Credential => ({
    ...{ name, kind: "token", home, user, call: caller(bearer(text), base), power: "all", refused: null },
    ...more,
  });
  const key = (name: string, home: Place, text = home.key, more: Partial<Credential> = {}): Credential => ({
    ...{ name, kind: "key", home, user: null, call: caller(bearer(text), base), power: "all", refused: null },
    ...more,
  });
  const dead = { at: "database", status: 401, code: "unauthenticated" } as const;
  const atDoor = { ...dead, at: "door" } as const;

  const live: Credential[] = [];
  for (const home of [acme, globex, boxed, elsewhere]) {
    live.push(token(`${home.name}'s owner`, home, home.owner, (await aToken(home, home.owner)).access_token));
  }
  for (const home of [acme, boxed, elsewhere]) live.push(key(`${home.name}'s secret key`, home));
  for (const place of places) {
    for (const [name, make] of Object.entries(makers)) place.rows[name] = await make(place, place.rows, place.owner);
    place.rows.org = place.org;
  }

  // Those who were somebody once.
  const { access_token: revoked, id: revokedId } = await aToken(acme, acme.owner);
  await must(acme.asDeveloper("DELETE", `${acme.at}/users/${acme.owner}/tokens/${revokedId}`), 200);
  const { access_token: aged, id: agedId } = await aToken(acme, acme.owner);
  await sql("update data.tokens set expires_at = now() - interval '1 second' where id = $1", [agedId]);
  const { access_token: expiring } = await aToken(acme, acme.owner);
  const past = Math.floor(Date.now() / 1000) - 3600;
  const expired = await signed({ ...claimsOf(expiring), iat: past - 60, exp: past });
  const leaver = await post(acme.asDeveloper, `${acme.at}/users`, { name: acme.word, org: acme.org });
  const { access_token: left } = await aToken(acme, leaver.id);
  await must(acme.asDeveloper("DELETE", `${acme.at}/users/${leaver.id}`), 204);
  const suspended = await aPlace("suspended", production, base);
  const { access_token: waiting } = await aToken(suspended, suspended.owner);
  await must(acme.asDeveloper("PATCH", `${acme.at}/orgs/${suspended.org}`, { status: "suspended" }), 200);
  const gone = await aPlace("gone", production, base);
  const { access_token: orphaned } = await aToken(gone, gone.owner);
  await must(acme.asDeveloper("DELETE", `${acme.at}/orgs/${gone.org}`), 204);
  const aKey = () => post(acme.asDeveloper, `${acme.at}/keys`, { type: "secret" });
  const revokedKey = await aKey();
  await must(acme.asDeveloper("DELETE", `${acme.at}/keys/${revokedKey.id}`), 200);
  const agedKey = await aKey();
  await sql("update data.keys set expires_at = now() - interval '1 second' where id = $1", [agedKey.id]);
  const lost = await aSandbox(one.asDeveloper);
  await must(one.asDeveloper("DELETE", `/api/v1/sandboxes/${lost.id}`), 204);

  const { access_token: powerless } = await aToken(acme, acme.owner, { scopes: ["ssh_keys:read"] });
  const others: Credential[] = [
    { name: "nobody", kind: "nobody", home: acme, user: null, call: caller({}, base), power: "none", refused: atDoor },
    token("a powerless token", acme, acme.owner, powerless, { power: "none" }),
    token("an expired token", acme, acme.owner, expired, { refused: atDoor }),
    token("a token whose row has expired", acme, acme.owner, aged, { refused: dead }),
    token("a revoked token", acme, acme.owner, revoked, { refused: dead }),
    token("a deleted user's token", acme, leaver.id, left, { refused: dead }),
    token("a deleted org's token", { ...gone, rows: acme.rows }, gone.owner, orphaned, { refused: dead }),
    token("a suspended org's token", { ...suspended, rows: acme.rows }, suspended.owner, waiting, {
      refused: { at: "database", status: 403, code: "org_suspended" },
    }),
    key("a revoked key", acme, revokedKey.full_key, { refused: dead }),
    key("an expired key", acme, agedKey.full_key, { refused: dead }),
    key("a deleted sandbox's key", { ...acme, sandbox: lost.id }, lost.key, { refused: dead }),
  ];
  return { places, live, others };
}

/** Whether the place's row for the parameter is one that the credential must not reach. */
export function isForeign(parameter: string, { kind, home }: Credential, place: Place): boolean {
  if (parameter === "app_id") return place.app !== home.app;
  // A production developer keeps the records of all of the app's sandboxes.
  if (parameter === "sandbox" && home.sandbox === null) return place.app !== home.app;
  if (parameter === "sandbox") return place.rows.sandbox !== home.sandbox;
  if (kind === "key") return place.app !== home.app || place.sandbox !== home.sandbox;
  return place.org !== home.org;
}

/** The places that the credential must learn nothing of. */
export const strangersTo = (credential: Credential, places: Place[]) =>
  places.filter((place) => isForeign("a row", credential, place));

/** What may not be in an answer to the credential: words and ids of other places. */
export const marksFor = (credential: Credential, places: Place[]): string[] =>
  strangersTo(credential, places).flatMap((place) => [
    place.word,
    place.org,
    place.owner,
    place.member,
    ...Object.entries(place.rows)
      .filter(([name]) => isForeign(name, credential, place))
      .map(([, id]) => id),
  ]);
