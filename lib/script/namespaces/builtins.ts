import { entry } from "../entry.ts";
import { fail } from "../errors.ts";
import { Result, typeOf } from "../values.ts";
import { merged } from "./map.ts";

export const builtinFunctions = [
  entry({
    name: "unwrap",
    params: ["value: any", "fallback?: any"],
    returns: "any",
    handsOn: true,
    doc: "The value of an ok result. Of an error result the fallback; without one the script fails with its message. What is no result is given back.",
    example: 'import("array").map([result.ok(1), result.err("no"), 3], fn(r) { unwrap(r, 0) })',
    gives: [1, 0, 3],
    run: (_, value, fallback) => {
      if (!(value instanceof Result)) return value;
      if (value.ok) return value.value;
      if (fallback === undefined) throw fail("error_result", value.message);
      return fallback;
    },
  }),
  entry({
    name: "println",
    params: ["...values: any"],
    returns: "null",
    doc: "Writes the values to the script's output, with blanks between them.",
    example: 'println("total", 3)',
    gives: null,
    run: (run, ...values) => {
      run.print(values, null);
      return null;
    },
  }),
  entry({
    name: "typeof",
    params: ["value: any"],
    returns: "string",
    handsOn: true,
    doc: "`null`, `boolean`, `number`, `string`, `array`, `object`, `result`, `function` or `namespace`.",
    example: "[typeof(null), typeof([]), typeof({}), typeof(1.5)]",
    gives: ["null", "array", "object", "number"],
    run: (_, value) => typeOf(value),
  }),
  entry({
    name: "merge",
    params: ["first: object|null", "second: object|null"],
    returns: "object",
    doc: "An object with the fields of both; where both have one, the second's. Null counts as empty.",
    example: "merge({ a: 1, b: 1 }, { b: 2 })",
    gives: { a: 1, b: 2 },
    run: (run, first, second) => merged(run, [first, second]),
  }),
];
