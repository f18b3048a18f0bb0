/**
 * What stands in `{{ }}` of an HttpTool: `{{ name }}` is a value of the tool's arguments, by its path (`{{ user.name }}`), or
 * what an expression of the script language gives, whose `$` is all of them (`{{ string.uppercase($.name) }}`).
 * `{{ env.NAME }}` alone is an env var of the agent.
 */
import { isMap } from "../http/valid.ts";
import { valueOfExpression } from "../script/expression.ts";
import type { Json } from "../script/index.ts";
import { type Resolve, Unusable } from "../script/template.ts";

const PATH = /^[\p{L}_][\p{L}\p{N}_-]*(\.[\p{L}\p{N}_-]+)*$/u;

/** What templates are filled with. */
export type Values = { args: Record<string, unknown>; env: Readonly<Record<string, string>> };

/** The value of an env var, which must be there. */
export function envVar({ env }: Pick<Values, "env">, name: string): string {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) throw new Unusable(`the agent has no env var ${name}`);
  return value;
}

export const valueIn =
  (values: Values): Resolve =>
  async (inner, isHost) => {
    const [, name] = inner.match(/^env\.([A-Za-z_][A-Za-z0-9_]*)$/) ?? [];
    if (name && isHost) throw new Unusable("an env var has no place in an address's host");
    if (name) return envVar(values, name);
    if (!PATH.test(inner)) return valueOfExpression(inner, { input: values.args as Json });
    return inner
      .split(".")
      .reduce<unknown>((at, key) => (isMap(at) && Object.hasOwn(at, key) ? at[key] : null), values.args);
  };
