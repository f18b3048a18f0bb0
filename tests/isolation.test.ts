import { describe, expect, it } from "vitest";
import {
  guarded,
  makers,
  operations,
  PERSON_ONLY,
  PRODUCTION_ONLY,
  PUBLIC,
  referenceOf,
  SPENDS_ITSELF,
  samples,
} from "./isolation/operations.ts";
import { walk } from "./isolation/walk.ts";

describe("the document", () => {
  it("has a maker for each parameter of an address and a sample for each body", () => {
    const wanted = guarded.flatMap(({ name, parameters, body }) => [
      ...parameters.filter((one) => !makers[one]).map((one) => `${name}: give ${one} a maker`),
      ...(body && !samples[name] ? [`${name}: give its body a sample`] : []),
    ]);
    expect(wanted, "in tests/isolation/operations.ts").toEqual([]);
  });

  it("names no row in a query or a body that the walk has none of", () => {
    const made = Object.values(makers).map(({ kind }) => kind as string);
    const unknown = guarded.flatMap(({ name, query, body }) =>
      [...query, ...(body ?? [])]
        .map((one) => ({ one, kind: referenceOf(one) }))
        .filter(({ kind }) => kind !== null && !made.includes(kind))
        .map(({ one, kind }) => `${name}: ${one} is a reference to a row of kind ${kind}?`),
    );
    expect(unknown, "give the kind a maker, or the name a line in NOT_ROWS").toEqual([]);
  });

  it("has a permission on every route that is not public, and none on those that are", () => {
    const without = operations.filter(({ permission }) => !permission).map(({ name }) => name);
    expect(without.sort()).toEqual([...PUBLIC].sort());
  });

  it("has every route that the tables of this test name", () => {
    const names = operations.map(({ name }) => name);
    const named = [...Object.keys(samples), ...PRODUCTION_ONLY, ...PERSON_ONLY, ...SPENDS_ITSELF];
    expect(named.filter((name) => !names.includes(name))).toEqual([]);
    const parameters = operations.flatMap((operation) => operation.parameters);
    expect(Object.keys(makers).filter((parameter) => !parameters.includes(parameter))).toEqual([]);
  });
});

walk("as deployed");
