/** What the expressions of an ask come to. */
import { isMap } from "../http/valid.ts";
import type { Json } from "../script/index.ts";
import { fillJson, fillUrl, fillWhole, type Resolve, Unusable, valueOfExpression } from "../script/template.ts";

/**
 * `{[ADDRESS]: text}` is an address: what stands in its braces is percent-encoded, and leads to no other host or path.
 * `{[LITERAL]: value}` is no template. No text that comes from outside holds a NUL, so that nobody else spells these.
 */
export const ADDRESS = "\0address";
export const LITERAL = "\0literal";

/** Of one ask: each costs the copying of its scope. */
export const MAX_EXPRESSIONS = 100;
/** Of all that they come to, in characters of JSON. */
const MAX_CHARACTERS = 1_000_000;

/**
 * A template with its expressions evaluated: `$` is the scope, and a text that is one expression keeps its value's type.
 * Gives the same for the same. Throws an error with a sentence for people.
 */
export async function evaluate(
  template: Json,
  scope: Json,
  { env = {} }: { env?: Readonly<Record<string, string>> } = {},
): Promise<Json> {
  let count = 0;
  let characters = 0;
  const resolve: Resolve = async (inner) => {
    if (++count > MAX_EXPRESSIONS) throw new Unusable(`there are more than ${MAX_EXPRESSIONS} expressions`);
    const value = await valueOfExpression(inner, { input: scope, env });
    characters += JSON.stringify(value).length;
    if (characters > MAX_CHARACTERS)
      throw new Unusable(`what they come to is longer than ${MAX_CHARACTERS} characters`);
    return value;
  };
  const fill = async (value: Json): Promise<Json> => {
    if (!isMap(value)) return (await fillJson(value, resolve)) as Json;
    const fields: [string, Json][] = [];
    for (const [name, inner] of Object.entries(value as Record<string, Json>)) {
      if (name === LITERAL) return inner;
      if (name === ADDRESS) return addressOf(String(inner), resolve);
      fields.push([name, await fill(inner)]);
    }
    return Object.fromEntries(fields);
  };
  return fill(template);
}

/** One that is an expression as a whole leads wherever that says. */
async function addressOf(text: string, resolve: Resolve): Promise<string> {
  const whole = await fillWhole(text, resolve);
  if (whole === undefined) return fillUrl(text, resolve);
  if (typeof whole !== "string") throw new Unusable("an address must be a text");
  return whole;
}
