/** Every way to fill an address, and what the order of refusals says to it: door, permission, ids, liveness, rows. */
import { kinds } from "../../lib/kinds.ts";
import type { Answer } from "../harness/index.ts";
import {
  ABSENT,
  makerOf,
  makers,
  NAMED_WITH_OWNER,
  ONESELF,
  type Operation,
  PERSON_ONLY,
  PRODUCTION_ONLY,
  type Values,
} from "./operations.ts";
import { type Credential, isForeign, type Stage } from "./stage.ts";

type Way = "own" | "foreign" | "absent" | "malformed" | "empty";
/** One way to fill an address. `absent` is the same way with absent ids where these are not the credential's own. */
export type Variant = { way: Way; what: string; values: Values; absent: Values; changed: string[] };
export type Refusal = { status: number; code: string };

const MALFORMED = [
  ...["x", "-", "*", "null", "undefined", "0", "%00", "%20", "%ff", "..%2f..", "%27%20or%201%3D1--", "a".repeat(2000)],
  ...["dap_", `agi_${"!".repeat(22)}`, `usr_${"0".repeat(23)}`, `org_${"0".repeat(22)}%0a`, "%E2%80%AEusr"],
];

/** Those who try each parameter by itself with every place's row, and every malformed id where both walls stand. */
const THOROUGH = ["acme's owner", "acme's secret key"];

/** Each parameter by itself and, where there are several, all of them. */
const subsets = (parameters: string[]) => [
  ...parameters.map((one) => [one]),
  ...(parameters.length > 1 ? [parameters] : []),
];
const pick = (parameters: string[], from: Values): Values =>
  Object.fromEntries(parameters.map((one) => [one, from[one] ?? "no such row"]));

/** The credential's own rows: a person's own user is itself. */
export const ownRows = ({ home, user }: Credential): Values => ({ ...home.rows, ...(user && { [ONESELF]: user }) });

export function variantsOf(operation: Operation, credential: Credential, { places, standing }: Stage): Variant[] {
  const { parameters } = operation;
  if (!parameters.length) return [{ way: "own", what: "own place", values: {}, absent: {}, changed: [] }];
  const own = pick(parameters, ownRows(credential));
  const change = (way: Way, what: string, changed: Values): Variant => {
    const names = Object.keys(changed);
    return {
      ...{ way, what: `${way} ${what}`, changed: names },
      ...{ values: { ...own, ...changed }, absent: { ...own, ...pick(names, ABSENT) } },
    };
  };
  const isDeployed = standing === "as deployed";
  // Its own row is what it would be given if nothing refused it.
  if (!isDeployed && isRefusedBefore(operation, credential)) return [change("own", "row", {})];
  // Who is refused whatever the row is asked with all parameters at once, who isn't also with one after the other.
  const sets = refusalToOwn(operation, credential) ? [parameters] : subsets(parameters);
  const isThorough = THOROUGH.includes(credential.name);
  const some = operation.name.length + credential.name.length;
  // What is asked with several parameters is asked with one after the other by the thorough; by everybody else, with one of them.
  const tried = (at: number) =>
    sets.filter((_, i) => isThorough || i === sets.length - 1 || i === (some + at) % sets.length);
  const foreign = places.flatMap((place, at) =>
    tried(at)
      .map((names) => names.filter((name) => isForeign(makerOf(name).kind, credential, place)))
      .filter((names) => names.length)
      .map((names) => change("foreign", `${names} of ${place.name}`, pick(names, place.rows))),
  );
  // An id of another kind, of a row that is there.
  const another = (name: string) =>
    own[name]!.replace(/^[a-z]+/, kinds[makerOf(name).kind === "key" ? "app" : "key"].prefix);
  // Each route is given all of them by one of the thorough: what reads an id is the same for all.
  const gives = isThorough && THOROUGH[operation.name.length % THOROUGH.length] === credential.name;
  const malformed = tried(0).flatMap((names) => [
    change(
      "malformed",
      `${names}: another kind's prefix`,
      Object.fromEntries(names.map((name) => [name, another(name)])),
    ),
    ...(gives && names.length === 1 ? MALFORMED : MALFORMED.slice(0, 1)).map((value) =>
      change("malformed", `${names} ${value.slice(0, 30)}`, Object.fromEntries(names.map((name) => [name, value]))),
    ),
  ]);
  // Who is refused before a row is looked at can't tell one from another: each route tries it with some, all routes with all.
  if (isRefusedBefore(operation, credential)) {
    const absent = change("absent", String(parameters), pick(parameters, ABSENT));
    return [change("own", "row", {}), absent, ...[foreign, malformed].flatMap((all) => all[some % all.length] ?? [])];
  }
  const rows = [
    change("own", "row", {}),
    ...foreign,
    ...sets.map((names) => change("absent", String(names), pick(names, ABSENT))),
  ];
  // What is no id comes no further than the router, whatever stands behind it.
  if (!isDeployed) return rows;
  const empty = isThorough || !credential.user ? parameters : [];
  return [...rows, ...malformed, ...empty.map((name) => change("empty", name, { [name]: "" }))];
}

const isDevelopers = ({ permission }: Operation) => permission!.startsWith("developer:");
export const isOfPersons = (operation: Operation) => !isDevelopers(operation);

/** What the order says to the credential. Null: the request succeeds. */
export function refusalOf(
  operation: Operation,
  { way, changed }: Pick<Variant, "way" | "changed">,
  credential: Credential,
): Refusal | null {
  const { refused, power, home } = credential;
  const notFound = { status: 404, code: "not_found" };
  // There is no such address.
  if (way === "empty") return notFound;
  if (refused?.at === "door") return refused;
  const holds =
    credential.kind === "key" || operation.permission === "self" || (power === "all" && isOfPersons(operation));
  if (!holds) return { status: 403, code: "insufficient_scope" };
  if (refused) return refused;
  if (way === "malformed" && NAMED_WITH_OWNER.includes(operation.name))
    return { status: 422, code: "validation_failed" };
  if (way === "malformed" && !changed.every((name) => makers[name]?.named)) return notFound;
  if (credential.kind === "key" && PERSON_ONLY.includes(operation.name)) return { status: 403, code: "no_user" };
  if (way !== "own") return notFound;
  if (home.sandbox !== null && PRODUCTION_ONLY.includes(operation.name)) return { status: 403, code: "sandbox_key" };
  return null;
}

/** What the credential is told of its own rows. */
export const refusalToOwn = (operation: Operation, credential: Credential) =>
  refusalOf(operation, { way: "own", changed: [] }, credential);

/** Whether the credential is refused before anything is made of the row that it names. */
const isRefusedBefore = (operation: Operation, credential: Credential) =>
  refusalToOwn(operation, credential)?.code ===
  refusalOf(operation, { way: "foreign", changed: operation.parameters }, credential)?.code;

/** The code of a refusal; OAuth's own form has it by itself. */
export const codeOf = ({ body: { error } }: Pick<Answer, "body">): string =>
  typeof error === "string" ? error : error.code;

/** The whole answer, but for the time of day: two that are equal here are equal on the wire. */
export const wire = ({ status, headers, text }: Answer) =>
  JSON.stringify([status, [...headers].filter(([name]) => name !== "date"), text]);
export const short = (answer: Answer) => `${answer.status} ${answer.text.slice(0, 200)}`;

/** Says where the answer tells of a mark. */
export const leaks = (answer: Answer, marks: string[]) =>
  marks.filter((mark) => answer.text.includes(mark)).map((mark) => `tells of ${mark}: ${short(answer)}`);

/** Runs over all items, some at a time. */
export async function forAll<T, R>(items: T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  const work = async () => {
    for (const [i, item] of left) results[i] = await run(item);
  };
  await Promise.all(Array.from({ length: 12 }, work));
  return results;
}

/** Gathers what was found wrong of any item. */
export const faultsOf = async <T>(items: T[], check: (item: T) => Promise<(string | false)[]>): Promise<string[]> =>
  (await forAll(items, check)).flat().filter((fault) => fault !== false);
