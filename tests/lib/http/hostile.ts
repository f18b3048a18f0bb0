/** Bodies that hold far too much, over the schemas of all routes: for the tests, and for the bench to send. */
import fc from "fast-check";
import { findTargetHandler } from "hono/utils/handler";
import type * as v from "valibot";
import { groups } from "../../../functions/groups.ts";
import { part } from "../../../lib/http/spec.ts";

export type Check = (c: unknown, next: () => Promise<void>) => Promise<void>;
type Carrying = Check & { [part]?: { target?: string; schema: v.GenericSchema } };
/** What takes a body: its check, and the schema that this holds. */
export const routes = Object.values(groups)
  .flat()
  .flatMap(({ routes }) => routes)
  .flatMap(({ method, path, handler }) => {
    const check = findTargetHandler(handler) as unknown as Carrying;
    const carried = check[part];
    return carried?.target === "json"
      ? [{ name: `${method} ${path}`, method, path, check, schema: carried.schema }]
      : [];
  });
/** Where in a body something may stand: all that comes before it, and all that comes after. */
type Place = [before: string, after: string];
type Schema = { type: string; wrapped?: Schema; item?: Schema; entries?: Record<string, Schema> };

function placesIn(schema: Schema): Place[] {
  const around = (before: string, after: string, inner: Schema): Place[] =>
    placesIn(inner).map(([a, b]): Place => [before + a, b + after]);
  if (schema.wrapped) return placesIn(schema.wrapped);
  const inside = schema.entries
    ? Object.entries(schema.entries).flatMap(([name, entry]) => around(`{${JSON.stringify(name)}:`, "}", entry))
    : schema.item
      ? around("[", "]", schema.item)
      : [];
  return [["", ""], ...inside];
}

const atoms = [
  ...['""', "{}", "[]", "null", "0", "true", "-1e400", '"\\u0000"', '"\\ud800"', '"a"', '{"a":1}', "[[]]", "[[[],{}]]"],
  ...['{"principal_type":"everyone","actions":["read"]}', '{"actions":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}'],
  ...['{"principal_type":"org","principal":0}', '"agents:read"', '"agents:*"', '"full_access"', '{"__proto__":{}}'],
];
const letters = ["a", "é", "漢", "😀", "-", ".", "a.", "a@", "\\u0041", "\\u0000", "\\ud800", "\\n", " ", "0"];
const names: ((i: number) => string)[] = [
  (i) => `k${i}`,
  (i) => String(i),
  (i) => String(i * 40_000),
  (i) => `\\u0000${i}`,
  (i) => `\\ud800${i}`,
  (i) => `${i}`.repeat(20),
  () => "__proto__",
  () => "constructor",
];

/** Something of about so many bytes. */
const payload = (bytes: number): fc.Arbitrary<string> => {
  const listOf = (atom: string) => `[${Array(Math.ceil(bytes / (atom.length + 1))).fill(atom)}]`;
  const mapOf = (name: (i: number) => string, atom: string) => {
    const count = Math.ceil(bytes / (atom.length + name(1000).length + 4));
    return `{${Array.from({ length: count }, (_, i) => `"${name(i)}":${atom}`)}}`;
  };
  const atom = fc.constantFrom(...atoms);
  return fc.oneof(
    atom.map(listOf),
    fc.array(atom, { minLength: 2, maxLength: 20 }).map((some) => listOf(`[${some}]`)),
    fc.tuple(fc.constantFrom(...names), atom).map(([name, value]) => mapOf(name, value)),
    fc.constantFrom(...letters).map((letter) => `"${letter.repeat(Math.ceil(bytes / letter.length))}"`),
    fc.constantFrom(...letters).map((letter) => `{"${letter.repeat(Math.ceil(bytes / letter.length))}":[0,{}]}`),
    fc.constantFrom("1", "-0.", "1e", "9e-").map((head) => head + "1".repeat(bytes)),
    fc
      .constantFrom<Place>(["[", "]"], ['{"a":', "}"], ['[{"":', "}]"])
      .map(([open, close]) => `${open.repeat(bytes / 8)}1${close.repeat(bytes / 8)}`),
  );
};

/** The route, and a body in which one or two of its places hold far too much; sometimes cut off. */
export const hostile = fc.constantFrom(...routes).chain((route) => {
  const place = fc.constantFrom(...placesIn(route.schema as unknown as Schema));
  // Sizes of every order alike, from a hundred bytes to a million.
  const size = fc.double({ min: 2, max: 6, noNaN: true }).map((power) => Math.floor(10 ** power));
  const member = size.chain((bytes) => fc.tuple(place, payload(bytes))).map(([[a, b], inner]) => a + inner + b);
  const joined = fc.array(member, { minLength: 1, maxLength: 2 }).map((members) => {
    const [one, two] = members;
    if (!two?.startsWith("{") || !one!.endsWith("}") || one === "{}" || two === "{}") return one!;
    return `${one!.slice(0, -1)},${two.slice(1)}`;
  });
  const cut = fc.tuple(joined, fc.nat({ max: 20 })).map(([body, n]) => (n === 0 ? body.slice(0, -1) : body));
  return cut.map((body) => ({ route, body }));
});
