/** What the expressions of an ask come to. */
import { isMap } from "../http/valid.ts";
import { valueOfExpression } from "../script/expression.ts";
import type { Json } from "../script/index.ts";
import { fillJson, fillUrl, fillWhole, type Resolve, Unusable } from "../script/template.ts";
import { ADDRESS, LITERAL, MAX_EXPRESSIONS } from "./program.ts";

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
