import { expect, it } from "vitest";
import { addressOf, guarded, makeRows, makers, type Operation } from "./operations.ts";
import { faultsOf, forAll, ownRows, refusalToOwn } from "./refusals.ts";
import { type Credential, isStranger, type Stage, strangersTo, walking } from "./stage.ts";

type List = { operation: Operation; credential: Credential; path: string; what: string };

const isList = ({ method, path }: Operation) => method === "GET" && !path.endsWith("}") && !path.endsWith("/me");

/** Every list, as everybody who may read it. */
const listsOf = ({ live }: Stage): List[] =>
  guarded.filter(isList).flatMap((operation) =>
    live
      .filter((credential) => !refusalToOwn(operation, credential))
      .map((credential) => {
        const path = addressOf(operation, ownRows(credential));
        return { operation, credential, path, what: `${credential.name}: ${operation.name}` };
      }),
  );

async function read({ credential, path }: List): Promise<string> {
  const { text } = await credential.call("GET", `${path}?page_size=100&limit=100`, undefined, walking);
  // A browser's use moves the end of its sign-in.
  const moves = path.endsWith("/sessions") ? "last_used_at|expires_at" : "last_used_at|checked_at";
  return text
    .replace(new RegExp(`"(${moves})":("[^"]*"|null)`, "g"), "")
    .replace(/"(before|after)_cursor":"[^"]*"/g, "");
}

export function lists(the: () => Stage) {
  it("don't change, nor does any count, by what strangers make", async () => {
    const { places } = the();
    const all = listsOf(the());
    const known = new Map<string, string>();
    const isTheirs = ({ credential }: List, at: number) =>
      places[at] !== undefined && isStranger(credential, places[at]!);
    // Each place makes rows in turn. A list is read before those that are strangers to it have theirs, and after.
    for (let at = -1; at < places.length; at++) {
      if (at >= 0) {
        const place = places[at]!;
        // A sandbox's record is the production developer's own.
        const parameters = Object.keys(makers).filter(
          (parameter) => makers[parameter]!.kind !== "sandbox" || place.sandbox !== null,
        );
        await makeRows(parameters, place, place.owner);
      }
      const due = all.filter((list) => isTheirs(list, at) !== isTheirs(list, at + 1));
      // What an agent lacks is written down when somebody asks how it is.
      await forAll(
        due.filter(({ path }) => path.endsWith("/health")),
        read,
      );
      const faults = await faultsOf(due, async (list) => {
        const now = await read(list);
        const before = known.get(list.what);
        known.set(list.what, now);
        return [isTheirs(list, at) && now !== before && `${list.what}: ${now} instead of ${before}`];
      });
      expect(faults, `after ${places[at]?.name}`).toEqual([]);
    }
    expect(known.size).toBe(all.length);
  });

  it("find nothing of strangers by search", async () => {
    const asked = listsOf(the()).filter(({ operation }) => operation.query.includes("search"));
    const faults = await faultsOf(asked, async ({ credential, path, what }) => {
      const found: string[] = [];
      for (const { word } of strangersTo(credential, the().places)) {
        const { body } = await credential.call("GET", `${path}?search=${word}`);
        if (body.total_entries !== 0 || body.data.length !== 0) found.push(`${what} finds ${word}`);
      }
      const { body } = await credential.call("GET", `${path}?search=${credential.home.word}`);
      if (body.total_entries === 0) found.push(`${what} does not find its own`);
      return found;
    });
    expect(asked.length).toBeGreaterThan(10);
    expect(faults).toEqual([]);
  });

  const byCursor = guarded.filter(({ query }) => query.includes("before_cursor")).map(({ name }) => name);
  it.each(byCursor)(
    "%s opens no cursor of another org, sandbox or app, nor of another kind of credential",
    async (name) => {
      const asked = listsOf(the()).filter(({ operation }) => operation.name === name);
      const cursors = await forAll(asked, async ({ credential, path }) => {
        const { body } = await credential.call("GET", `${path}?limit=1`);
        // A queue begins with what is oldest.
        return { of: credential, cursor: body.before_cursor ?? body.after_cursor };
      });
      expect(asked.length).toBeGreaterThan(1);
      const faults = await faultsOf(asked, async ({ credential, path }) => {
        const faults: string[] = [];
        for (const { of, cursor } of cursors) {
          if (typeof cursor !== "string") faults.push(`${of.name} was given no cursor`);
          for (const direction of ["before_cursor", "after_cursor"]) {
            const { status, body } = await credential.call("GET", `${path}?limit=1&${direction}=${cursor}`);
            const isRight = of === credential ? status === 200 : status === 400 && body.error.code === "invalid_cursor";
            if (!isRight) faults.push(`${credential.name} with the cursor of ${of.name}: ${status}`);
          }
        }
        return faults;
      });
      expect(faults).toEqual([]);
    },
  );
}
