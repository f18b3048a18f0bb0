import { runScript } from "./execute.ts";
import { edgeWorld } from "./http.ts";
import { Unusable } from "./template.ts";
import type { Json } from "./values.ts";

/** The longest beginning of a text that is told to people. */
const MAX_TOLD = 100;
/** Nothing is outside. */
const nowhere = edgeWorld({ fetch: async () => Response.error() });

/** The value of an expression of the script language, which reaches nothing but `$` and `env`. */
export async function valueOfExpression(
  expression: string,
  { input, env = {} }: { input: Json; env?: Readonly<Record<string, string>> },
): Promise<Json> {
  const limits = { time_ms: 1000, steps: 1_000_000, calls: 0 };
  const { status, result, error } = await runScript(expression, { input, env, world: nowhere, limits });
  if (status !== "done") throw new Unusable(`{{ ${expression.slice(0, MAX_TOLD)} }} has no value: ${error}`);
  return result;
}
