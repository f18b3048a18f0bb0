import { entry, namespace } from "../entry.ts";
import { err, ok, Result, toText, type Value } from "../values.ts";

const asResult = (value: Value) => (value instanceof Result ? value : ok(value));

export const result = namespace("result", "Outcomes of what may fail: ok with a value, or an error with a message.", [
  entry({
    name: "ok",
    params: ["value?: any"],
    returns: "result",
    handsOn: true,
    doc: "An ok result.",
    example: "unwrap(result.ok(1))",
    gives: 1,
    run: (_, value = null) => ok(value),
  }),
  entry({
    name: "err",
    params: ["message: any"],
    returns: "result",
    handsOn: true,
    doc: "An error result.",
    example: 'unwrap(result.err("no"), "fallback")',
    gives: "fallback",
    run: (run, message) => err(toText(message, run)),
  }),
  entry({
    name: "isOk",
    params: ["value: any"],
    returns: "bool",
    doc: "Whether it is an ok result.",
    example: '[result.isOk(result.ok(1)), result.isOk(result.err("no"))]',
    gives: [true, false],
    run: (_, value) => value instanceof Result && value.ok,
  }),
  entry({
    name: "isErr",
    params: ["value: any"],
    returns: "bool",
    doc: "Whether it is an error result.",
    example: 'result.isErr(result.err("no"))',
    gives: true,
    run: (_, value) => value instanceof Result && !value.ok,
  }),
  entry({
    name: "value",
    params: ["result: result"],
    returns: "any",
    handsOn: true,
    doc: "The value of an ok result, null of an error.",
    example: 'result.value(result.err("no"))',
    gives: null,
    run: (_, one) => one.value,
  }),
  entry({
    name: "message",
    params: ["result: result"],
    returns: "string|null",
    handsOn: true,
    doc: "The message of an error result, null of an ok one.",
    example: 'result.message(result.err("no"))',
    gives: "no",
    run: (_, one) => (one.ok ? null : one.message),
  }),
  entry({
    name: "unwrapOr",
    params: ["result: any", "fallback: any"],
    returns: "any",
    handsOn: true,
    doc: "The value of an ok result, otherwise the fallback.",
    example: 'result.unwrapOr(result.err("no"), 0)',
    gives: 0,
    run: (_, one, fallback) => (one instanceof Result ? (one.ok ? one.value : fallback) : one),
  }),
  entry({
    name: "map",
    params: ["result: result", "each: fn"],
    returns: "result",
    handsOn: true,
    doc: "An ok result of what a function gives for the value; an error stays.",
    example: "unwrap(result.map(result.ok(1), fn(x) { x + 1 }))",
    gives: 2,
    *steps(run, one, each) {
      return one.ok ? ok(yield* run.calling(each, [one.value])) : one;
    },
  }),
  entry({
    name: "mapErr",
    params: ["result: result", "each: fn"],
    returns: "result",
    handsOn: true,
    doc: "An error result of what a function gives for the message; an ok one stays.",
    example: 'result.message(result.mapErr(result.err("no"), fn(m) { m + "!" }))',
    gives: "no!",
    *steps(run, one, each) {
      return one.ok ? one : err(toText(yield* run.calling(each, [one.message]), run));
    },
  }),
  entry({
    name: "andThen",
    params: ["result: result", "next: fn"],
    returns: "result",
    handsOn: true,
    doc: "What a function makes of the value, itself a result; an error stays.",
    example: 'unwrap(result.andThen(result.ok("1"), string.parseInt))',
    gives: 1,
    *steps(run, one, next) {
      return one.ok ? asResult(yield* run.calling(next, [one.value])) : one;
    },
  }),
  entry({
    name: "all",
    params: ["results: array"],
    returns: "result<array>",
    doc: "All values, or the first error.",
    example: "unwrap(result.all([result.ok(1), result.ok(2)]))",
    gives: [1, 2],
    run: (run, results) => {
      run.list(results.length);
      const bad = results.find((one) => one instanceof Result && !one.ok);
      return bad ?? ok(results.map((one) => (one instanceof Result ? one.value : one)));
    },
  }),
  entry({
    name: "fromNull",
    params: ["value: any", "message: string"],
    returns: "result",
    handsOn: true,
    doc: "An ok result of a value, or an error when it is null.",
    example: 'result.isErr(result.fromNull(null, "missing"))',
    gives: true,
    run: (_, value, message) => (value === null ? err(message) : ok(value)),
  }),
]);
