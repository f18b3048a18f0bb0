import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import { sumOf } from "../lists.ts";

/** Numbers are finite throughout: a root of -1 is an error, never a value. */
function finite(name: string, value: number): number {
  if (!Number.isFinite(value)) throw fail("runtime", `\`${name}\` has no result for this number`);
  return value;
}

const one = (name: string, doc: string, example: string, gives: number, calculate: (x: number) => number) =>
  entry({
    name,
    params: ["x: number"],
    returns: "number",
    doc,
    example,
    gives,
    run: (_, x) => finite(name, calculate(x)),
  });

/** Half away from zero, in decimal: `round(1.005, 2)` is 1.01. */
function round(x: number, digits: number): number {
  const shifted = Number(`${Math.abs(x)}e${digits}`);
  // A number written with an exponent already cannot be shifted by writing another.
  const rounded = Number.isFinite(shifted) ? Number(`${Math.round(shifted)}e${-digits}`) : Math.abs(x);
  return Number.isFinite(rounded) ? Math.sign(x) * rounded : x;
}

export const math = namespace(
  "math",
  "Numbers. There is one kind, with fractions; `/` divides exactly.",
  [
    one("abs", "Without its sign.", "math.abs(-2)", 2, Math.abs),
    one("ceil", "The next whole number at or above.", "math.ceil(1.2)", 2, Math.ceil),
    one("floor", "The next whole number at or below.", "math.floor(-1.2)", -2, Math.floor),
    one("trunc", "Without what is after the point.", "math.trunc(-1.7)", -1, Math.trunc),
    one("sign", "-1, 0 or 1.", "math.sign(-3)", -1, Math.sign),
    one("sqrt", "The square root.", "math.sqrt(9)", 3, Math.sqrt),
    one("cbrt", "The cube root.", "math.cbrt(8)", 2, Math.cbrt),
    one("exp", "e to this power.", "math.exp(0)", 1, Math.exp),
    one("log", "The natural logarithm.", "math.log(1)", 0, Math.log),
    one("log2", "The logarithm to the base 2.", "math.log2(8)", 3, Math.log2),
    one("log10", "The logarithm to the base 10.", "math.log10(1000)", 3, Math.log10),
    one("sin", "The sine of an angle in radians.", "math.sin(0)", 0, Math.sin),
    one("cos", "The cosine of an angle in radians.", "math.cos(0)", 1, Math.cos),
    one("tan", "The tangent of an angle in radians.", "math.tan(0)", 0, Math.tan),
    one("asin", "The angle with this sine.", "math.asin(0)", 0, Math.asin),
    one("acos", "The angle with this cosine.", "math.acos(1)", 0, Math.acos),
    one("atan", "The angle with this tangent.", "math.atan(0)", 0, Math.atan),
    entry({
      name: "atan2",
      params: ["y: number", "x: number"],
      returns: "number",
      doc: "The angle of a point.",
      example: "math.atan2(0, 1)",
      gives: 0,
      run: (_, y, x) => Math.atan2(y, x),
    }),
    entry({
      name: "round",
      params: ["x: number", "digits?: int"],
      returns: "number",
      doc: "Rounded, to so many digits after the point; halves go away from zero.",
      example: "[math.round(2.5), math.round(1.005, 2), math.round(1250, -2)]",
      gives: [3, 1.01, 1300],
      run: (_, x, digits = 0) => round(x, Math.min(20, Math.max(-20, digits))),
    }),
    entry({
      name: "pow",
      params: ["base: number", "exponent: number"],
      returns: "number",
      doc: "A number to a power.",
      example: "math.pow(2, 10)",
      gives: 1024,
      run: (_, base, exponent) => finite("pow", base ** exponent),
    }),
    entry({
      name: "mod",
      params: ["x: number", "by: number"],
      returns: "number",
      doc: "The remainder with the sign of the divisor; `%` has that of the dividend.",
      example: "[math.mod(-1, 3), -1 % 3]",
      gives: [2, -1],
      run: (_, x, by) => finite("mod", ((x % by) + by) % by),
    }),
    entry({
      name: "div",
      params: ["x: number", "by: number"],
      returns: "int",
      doc: "Divided, and rounded down to a whole number.",
      example: "math.div(7, 2)",
      gives: 3,
      run: (_, x, by) => finite("div", Math.floor(x / by)),
    }),
    entry({
      name: "min",
      params: ["first: number", "...others: number"],
      returns: "number",
      doc: "The least. Of an array: `array.min`.",
      example: "math.min(2, 1)",
      gives: 1,
      run: (_, first, ...others) => others.reduce((a, b) => Math.min(a, b), first),
    }),
    entry({
      name: "max",
      params: ["first: number", "...others: number"],
      returns: "number",
      doc: "The greatest. Of an array: `array.max`.",
      example: "math.max(2, 1)",
      gives: 2,
      run: (_, first, ...others) => others.reduce((a, b) => Math.max(a, b), first),
    }),
    entry({
      name: "clamp",
      params: ["x: number", "low: number", "high: number"],
      returns: "number",
      doc: "The number, or the bound it is beyond.",
      example: "math.clamp(12, 0, 10)",
      gives: 10,
      run: (_, x, low, high) => Math.min(Math.max(x, low), high),
    }),
    entry({
      name: "sum",
      params: ["list: array"],
      returns: "number",
      doc: "The sum of the numbers in an array.",
      example: "math.sum([1, 2])",
      gives: 3,
      run: (run, list) => sumOf(run, "sum", list),
    }),
    entry({
      name: "mean",
      params: ["list: array"],
      returns: "number|null",
      doc: "The mean of the numbers in an array, null of none.",
      example: "math.mean([1, 2])",
      gives: 1.5,
      run: (run, list) => (list.length ? sumOf(run, "mean", list) / list.length : null),
    }),
    entry({
      name: "isInteger",
      params: ["x: any"],
      returns: "bool",
      doc: "Whether it is a whole number.",
      example: "[math.isInteger(2), math.isInteger(2.5)]",
      gives: [true, false],
      run: (_, x) => Number.isInteger(x),
    }),
    entry({
      name: "random",
      params: [],
      returns: "number",
      doc: "A number from 0 to below 1. Not for secrets.",
      example: "math.floor(math.random())",
      gives: 0,
      run: (run) => run.random(),
    }),
    entry({
      name: "randomInt",
      params: ["low: int", "high: int"],
      returns: "int",
      doc: "A whole number from `low` to `high`, both possible. Not for secrets.",
      example: "math.randomInt(4, 4)",
      gives: 4,
      run: (run, low, high) => low + Math.floor(run.random() * (Math.max(low, high) - low + 1)),
    }),
  ],
  { pi: Math.PI, e: Math.E },
);
