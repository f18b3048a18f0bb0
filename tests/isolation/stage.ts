/** Five places that must never see one another, and everybody who might try. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Kind } from "../../lib/kinds.ts";
import { aBrowser } from "../harness/browser.ts";
import { openDatabase } from "../harness/database.ts";
import { anApp, bearer, type Call, caller, must } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem, type StartOptions, type Walls, walls } from "../harness/own.ts";
import { type Change, type GoingOn, goesOn, watch } from "./changes.ts";
import { makeRows, makers } from "./operations.ts";
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

export type Stage = {
  base: string;
  standing: Walls;
  places: Place[];
  live: Credential[];
  others: Credential[];
  /** A fresh app of the stage's system. */
  anApp: () => ReturnType<typeof anApp>;
  /** Every change of the database since one of these was last asked; `changes`: but for what goes on by itself where it was set going. */
  allChanges: () => Promise<Change[]>;
  changes: () => Promise<Change[]>;
  goingOn: GoingOn;
  close: () => Promise<void>;
};

/** Gives the answers to the walk's requests one id, the same for all, so that equal refusals are equal to the byte. */
export const walking = { "X-Request-Id": "isolation-walk" };

/** A system and a database of the walk's own, so that several walk side by side and nobody else changes a row. */
export async function aStage(standing: Walls): Promise<Stage> {
  const own = await ownSystem(openDatabase());
  const signingKey = await newSigningKey("walk");
  // What an agent's health writes down by itself would come while others ask.
  const calm = { "pace.ts": resolve(import.meta.dirname, "../harness/calm-pace.ts") };
  const { alias, ...more }: StartOptions = walls[standing];
  const root = newRoot();
  const mailDir = await mkdtemp(join(tmpdir(), "agentry-mail-"));
  const base = await own.start([signingKey], [root], { ...more, mailDir, alias: { ...alias, ...calm } });
  const allChanges = await watch(own.database);
  const goingOn: GoingOn = new Map();
  const changes = async () => (await allChanges()).filter((change) => !goesOn(change, goingOn));
  const sql = own.database.query;
  const anotherApp = () => anApp({ base, newApp: own.newApp });
  const [one, other] = await Promise.all([anotherApp(), anotherApp()]);
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
  // With a wall less each border is seen from one side.
  const isDeployed = standing === "as deployed";
  for (const home of isDeployed ? [acme, globex, elsewhere] : [acme]) {
    live.push(token(`${home.name}'s owner`, home, home.owner, (await aToken(home, home.owner)).access_token));
  }
  // Of persons one asks from a browser.
  const { headers } = await aBrowser(sql, root, boxed.owner);
  live.push(token("boxed's owner", boxed, boxed.owner, "", { call: caller(headers, base) }));
  for (const home of isDeployed ? [acme, boxed, elsewhere] : [acme, boxed])
    live.push(key(`${home.name}'s secret key`, home));
  await Promise.all(places.map(fill));

  // Those who were somebody once.
  const { access_token: revoked, id: revokedId } = await aToken(acme, acme.owner);
  await must(acme.asDeveloper("DELETE", `${acme.at}/users/${acme.owner}/tokens/${revokedId}`), 200);
  const { access_token: aged, id: agedId } = await aToken(acme, acme.owner);
  await sql("update data.tokens set expires_at = now() - interval '1 second' where id = $1", [agedId]);
  const { access_token: expiring } = await aToken(acme, acme.owner);
  const past = Math.floor(Date.now() / 1000) - 3600;
  const expired = await signed(signingKey, { ...claimsOf(expiring), iat: past - 60, exp: past });
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

  // Another owner: the one who walks ends all other sign-ins of itself.
  const second = await post(acme.asDeveloper, `${acme.at}/users`, { name: acme.word, org: acme.org, role: "owner" });
  const { access_token: powerless } = await aToken(acme, second.id, { scopes: ["ssh_keys:read"] });
  const others: Credential[] = [
    { name: "nobody", kind: "nobody", home: acme, user: null, call: caller({}, base), power: "none", refused: atDoor },
    token("a powerless token", acme, second.id, powerless, { power: "none" }),
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
  const close = async () => {
    await own.close();
    await rm(mailDir, { recursive: true });
  };
  return { base, standing, places, live, others, anApp: anotherApp, allChanges, changes, goingOn, close };
}

/** Gives the place a row for each parameter. Its org is itself: what else is behind an address lives in it. */
export async function fill(place: Place): Promise<Place> {
  place.rows = await makeRows(Object.keys(makers), place, place.owner);
  for (const [parameter, { kind }] of Object.entries(makers)) if (kind === "org") place.rows[parameter] = place.org;
  return place;
}

/** The place's row of a kind. */
export const rowOf = ({ rows }: Place, kind: Kind): string =>
  rows[Object.keys(makers).find((parameter) => makers[parameter]!.kind === kind) ?? ""] ?? `no ${kind} was made`;

/** Whether the place is one that the credential must learn nothing of. */
export const isStranger = ({ kind, home }: Credential, place: Place): boolean =>
  kind === "key" ? place.app !== home.app || place.sandbox !== home.sandbox : place.org !== home.org;

/** Whether the place's row of the kind is one that the credential must not reach. */
export function isForeign(kind: Kind, credential: Credential, place: Place): boolean {
  const { home } = credential;
  if (kind === "app") return place.app !== home.app;
  // A production developer keeps the records of all of the app's sandboxes.
  if (kind === "sandbox" && home.sandbox === null) return place.app !== home.app;
  if (kind === "sandbox") return rowOf(place, "sandbox") !== home.sandbox;
  return isStranger(credential, place);
}

/** The places that the credential must learn nothing of. */
export const strangersTo = (credential: Credential, places: Place[]) =>
  places.filter((place) => isStranger(credential, place));

/** What may not be in an answer to the credential: words and ids of other places. */
export const marksFor = (credential: Credential, places: Place[]): string[] =>
  strangersTo(credential, places).flatMap((place) => [
    ...[place.word, place.org, place.owner, place.member, place.script],
    ...Object.entries(place.rows)
      .filter(([parameter]) => isForeign(makers[parameter]!.kind, credential, place))
      .map(([, id]) => id),
  ]);
