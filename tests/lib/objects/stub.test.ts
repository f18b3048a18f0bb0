import { describe, expect, expectTypeOf, it } from "vitest";
import { NONE, type Row } from "../../../lib/db/schema.ts";
import { newId } from "../../../lib/ids.ts";
import { objectOf, objectOfTenant, type Place, readName } from "../../../lib/objects/stub.ts";
import type { Reminder } from "../../objects/reminder.ts";

const named: string[] = [];
/** A namespace that only notes by which name it was asked. */
const namespace = {
  getByName: (name: string) => {
    named.push(name);
    return {};
  },
} as unknown as DurableObjectNamespace<Reminder>;
const nameOf = (ask: () => unknown): string => {
  ask();
  return named.at(-1)!;
};

const place: Place = { app_id: newId("app"), sandbox_id: newId("sandbox"), org_id: newId("org") };
const row = { ...place, id: newId("agent"), name: "Ada" };

describe("row → stub", () => {
  it("gives the stub of the namespace's class", () => {
    expectTypeOf(objectOf(namespace, row)).toEqualTypeOf<DurableObjectStub<Reminder>>();
    expectTypeOf(objectOf<Reminder>)
      .parameter(1)
      .toEqualTypeOf<Place & { id: string }>();
    expectTypeOf<Row<"agents">>().toExtend<Parameters<typeof objectOf>[1]>();
  });

  it("takes a row and nothing less", () => {
    const id = newId("agent");
    // Never called: these must not compile.
    const refused = () => [
      // @ts-expect-error an id opens nothing
      objectOf(namespace, id),
      // @ts-expect-error nor does an id in an object
      objectOf(namespace, { id }),
      // @ts-expect-error a tenant has no id: its own object is reached otherwise
      objectOf(namespace, place),
      // @ts-expect-error nor is an id a tenant
      objectOfTenant(namespace, { id }),
      // @ts-expect-error text from an address is no id
      objectOfTenant(namespace, { ...place, org_id: "org_x" }),
    ];
    expect(refused).toBeTypeOf("function");
  });

  it("is the same for the same row, and another for the same id elsewhere", () => {
    const name = nameOf(() => objectOf(namespace, row));
    const renamed = { ...row, name: "Grace" };
    expect(nameOf(() => objectOf(namespace, renamed))).toBe(name);
    const elsewhere = [
      { ...row, org_id: newId("org") },
      { ...row, org_id: NONE } as const,
      { ...row, sandbox_id: NONE } as const,
      { ...row, app_id: newId("app") },
    ];
    const all = elsewhere.map((other) => nameOf(() => objectOf(namespace, other)));
    expect(new Set([name, ...all]).size).toBe(5);
  });

  it("is one for a tenant, whichever of its rows leads there", () => {
    const name = nameOf(() => objectOfTenant(namespace, place));
    expect(nameOf(() => objectOfTenant(namespace, row))).toBe(name);
    expect(nameOf(() => objectOf(namespace, row))).not.toBe(name);
  });
});

describe("a name", () => {
  it("says the row's place and id", () => {
    expect(readName(nameOf(() => objectOf(namespace, row)))).toEqual({ place, id: row.id });
    const own: Place = { app_id: row.app_id, sandbox_id: NONE, org_id: NONE };
    expect(readName(nameOf(() => objectOfTenant(namespace, own)))).toEqual({ place: own, id: NONE });
  });

  const { app_id, sandbox_id, org_id } = place;
  it.each([
    undefined,
    "",
    row.id,
    `${app_id}/${sandbox_id}/${org_id}`,
    `${app_id}/${sandbox_id}/${org_id}/`,
    `${app_id}/${sandbox_id}/${org_id}/${row.id}/`,
    `-/${sandbox_id}/${org_id}/${row.id}`,
    `${app_id}//${org_id}/${row.id}`,
    `${app_id}/${org_id}/${sandbox_id}/${row.id}`,
    `${app_id}/${sandbox_id}/*/${row.id}`,
    `${app_id}/${sandbox_id}/${org_id}/Ada`,
  ])("that is not a row's is refused: %s", (name) => {
    expect(() => readName(name)).toThrow("through its row");
  });

  it("stays below what the platform hands on, 1,024 bytes", () => {
    expect(nameOf(() => objectOf(namespace, row)).length).toBeLessThan(128);
  });
});
