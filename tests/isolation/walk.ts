/**
 * Every operation of the document, as everybody, with every kind of id: foreign is absent to the byte, refusals come
 * in their order, and nobody else's row changes. Walked as deployed, and with each of the two walls taken away in
 * turn: three files, that walk side by side. What is refused before a row is looked at, whatever the id, is the same
 * behind fewer walls: all of its ways are walked as deployed, and one of them for each credential with a wall less (of
 * those that a door refuses, for one credential), whose walks try no malformed ids either, and see each border between
 * two places from one side.
 */
import { afterAll, beforeAll, describe } from "vitest";
import type { Walls } from "../harness/own.ts";
import { everyId, whatAnAccessListHides } from "./ids.ts";
import { lists } from "./lists.ts";
import { anIdempotencyKey, refusalsInOrder, uniqueValues, whatARequestNames, whatAScriptAsks } from "./names.ts";
import { onTheNextRequest } from "./next.ts";
import { aStage, type Stage } from "./stage.ts";

export function walk(standing: Walls) {
  const isDeployed = standing === "as deployed";
  describe(standing, { timeout: 300_000 }, () => {
    let stage: Stage;
    beforeAll(async () => {
      stage = await aStage(standing);
    });
    afterAll(() => stage?.close());
    const the = () => stage;

    describe("every credential and every id", () => everyId(the));
    describe("what an access list hides", () => whatAnAccessListHides(the));
    describe("what a request names", () => whatARequestNames(the));
    describe("what a script asks", () => whatAScriptAsks(the));
    // Nothing of these comes as far as a row, which is where the walls stand.
    describe.runIf(isDeployed)("refusals in their order", () => refusalsInOrder(the));
    describe("lists", () => lists(the));
    describe("values that must be unique", () => uniqueValues(the));
    describe("an idempotency key", () => anIdempotencyKey(the));
    describe.runIf(isDeployed)("on the very next request", () => onTheNextRequest(the));
  });
}
