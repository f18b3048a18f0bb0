/** What Okta and Entra send, what it means, and that nothing else is written. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import {
  type GroupChange,
  readGroup,
  readGroupPatch,
  readUser,
  readUserPatch,
  type UserChange,
  userAttributes,
} from "../../../lib/scim/changes.ts";

const [ada, bob, eve] = [newId("user"), newId("user"), newId("user")];
const schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
const patch = (...Operations: unknown[]) => ({ schemas, Operations });
const ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

const users: [dialect: string, operations: unknown[], change: Partial<UserChange>][] = [
  ["Okta: an end", [{ op: "replace", value: { active: false } }], { active: false }],
  ["Okta: a beginning", [{ op: "replace", value: { active: true } }], { active: true }],
  [
    "Okta: a value with its id",
    [{ op: "replace", value: { id: "usr_1", userName: "ada@acme.example", name: { givenName: "Ada" } } }],
    { set: { userName: "ada@acme.example", givenName: "Ada" } },
  ],
  ["Entra: an end", [{ op: "Replace", path: "active", value: "False" }], { active: false }],
  ["Entra: a beginning", [{ op: "Add", path: "active", value: "True" }], { active: true }],
  ["Entra: an end, a boolean", [{ op: "Replace", path: "active", value: false }], { active: false }],
  [
    "Entra: another name",
    [{ op: "Replace", path: "displayName", value: "Ada L." }],
    { set: { displayName: "Ada L." } },
  ],
  ["Entra: a part of the name", [{ op: "Add", path: "name.givenName", value: "Ada" }], { set: { givenName: "Ada" } }],
  [
    "Entra: the address for work",
    [{ op: "Replace", path: 'emails[type eq "work"].value', value: "ada@acme.example" }],
    { email: "ada@acme.example" },
  ],
  [
    "Entra: dotted names, no path",
    [
      {
        op: "replace",
        value: { "name.familyName": "Lovelace", 'emails[type eq "work"].value': "a@acme.example", active: "True" },
      },
    ],
    { set: { familyName: "Lovelace" }, email: "a@acme.example", active: true },
  ],
  [
    "Entra: names with their schema",
    [{ op: "Replace", path: "urn:ietf:params:scim:schemas:core:2.0:User:externalId", value: "e1" }],
    { set: { externalId: "e1" } },
  ],
  ["Entra: an extension", [{ op: "Add", path: `${ENTERPRISE}:department`, value: "R&D" }], {}],
  ["Entra: an extension, no path", [{ op: "add", value: { [ENTERPRISE]: { department: "R&D" } } }], {}],
  ["what we don't keep", [{ op: "add", path: "title", value: "Countess" }], {}],
  ["another address", [{ op: "add", path: 'emails[type eq "home"].value', value: "x" }], {}],
  ["a phone", [{ op: "add", path: 'phoneNumbers[type eq "work"].value', value: "1" }], {}],
  ["a remove", [{ op: "Remove", path: "displayName" }], { unset: ["displayName"] }],
  ["a null is a remove", [{ op: "replace", path: "externalId", value: null }], { unset: ["externalId"] }],
  ["an empty text is one", [{ op: "replace", path: "name.formatted", value: "" }], { unset: ["formatted"] }],
  ["of a name all parts", [{ op: "remove", path: "name" }], { unset: ["formatted", "givenName", "familyName"] }],
  [
    "the primary address of several",
    [
      {
        op: "replace",
        path: "emails",
        value: [
          { value: "b@b.example", type: "work" },
          { value: "a@a.example", primary: "True" },
        ],
      },
    ],
    { email: "a@a.example" },
  ],
  [
    "else that for work",
    [{ op: "replace", path: "emails", value: [{ value: "b@b.example" }, { value: "a@a.example", type: "Work" }] }],
    { email: "a@a.example" },
  ],
  [
    "else the first",
    [{ op: "add", path: "emails", value: [{ value: "a@a.example" }, { value: "b@b.example" }] }],
    { email: "a@a.example" },
  ],
  [
    "the address by primary",
    [{ op: "add", path: 'emails[primary eq "True"].value', value: "a@a.example" }],
    { email: "a@a.example" },
  ],
  [
    "the last of two",
    [
      { op: "replace", path: "displayName", value: "A" },
      { op: "remove", path: "displayName" },
      { op: "remove", path: "externalId" },
      { op: "add", path: "externalId", value: "e2" },
    ],
    { set: { externalId: "e2" }, unset: ["displayName"] },
  ],
  ["names in any case", [{ OP: "REPLACE", Path: "USERNAME", Value: "ada" }], { set: { userName: "ada" } }],
];

const groups: [dialect: string, operations: unknown[], change: Partial<GroupChange>][] = [
  ["Okta: a member more", [{ op: "add", path: "members", value: [{ value: ada, display: "Ada" }] }], { added: [ada] }],
  ["Okta: a member less", [{ op: "remove", path: `members[value eq "${ada}"]` }], { removed: [ada] }],
  [
    "Okta: these members",
    [{ op: "replace", path: "members", value: [{ value: ada }] }],
    { cleared: true, added: [ada] },
  ],
  ["Okta: another name", [{ op: "replace", value: { id: "scg_1", displayName: "Ops" } }], { displayName: "Ops" }],
  ["Entra: a member more", [{ op: "Add", path: "members", value: [{ $ref: null, value: ada }] }], { added: [ada] }],
  ["Entra: a member less, by value", [{ op: "Remove", path: "members", value: [{ value: ada }] }], { removed: [ada] }],
  ["Entra: nobody is left", [{ op: "Remove", path: "members" }], { cleared: true }],
  ["Entra: another name", [{ op: "Replace", path: "displayName", value: "Ops" }], { displayName: "Ops" }],
  ["one member as an object", [{ op: "add", path: "members", value: { value: ada } }], { added: [ada] }],
  [
    "no path",
    [{ op: "add", value: { members: [{ value: ada }], externalId: "g1" } }],
    { added: [ada], externalId: "g1" },
  ],
  ["no external id", [{ op: "remove", path: "externalId" }], { externalId: null }],
  [
    "in their order: out and in again",
    [
      { op: "remove", path: "members", value: [{ value: ada }, { value: bob }] },
      { op: "add", path: "members", value: [{ value: bob }, { value: bob }] },
    ],
    { added: [bob], removed: [ada] },
  ],
  [
    "in their order: in and out again",
    [
      { op: "add", path: "members", value: [{ value: ada }, { value: bob }] },
      { op: "remove", path: `members[value eq "${bob}"]` },
    ],
    { added: [ada], removed: [bob] },
  ],
  [
    "what came before all go is forgotten",
    [
      { op: "add", path: "members", value: [{ value: eve }] },
      { op: "remove", path: "members" },
      { op: "add", path: "members", value: [{ value: ada }] },
    ],
    { cleared: true, added: [ada] },
  ],
  ["what we don't keep", [{ op: "add", path: "owners", value: [{ value: "x" }] }], {}],
];

const bad: [fault: string, body: unknown, code: string][] = [
  ["no object", [], "invalidSyntax"],
  ["no operations", {}, "invalidSyntax"],
  ["an empty list", patch(), "invalidSyntax"],
  ["too many", patch(...Array.from({ length: 1001 }, () => ({ op: "remove", path: "title" }))), "invalidSyntax"],
  ["an operation that is none", patch("remove"), "invalidSyntax"],
  ["another verb", patch({ op: "move", path: "active" }), "invalidSyntax"],
  ["a remove of nothing", patch({ op: "remove" }), "noTarget"],
  ["no path, no object", patch({ op: "add", value: "x" }), "invalidSyntax"],
  ["a path that is no text", patch({ op: "add", path: 1, value: "x" }), "invalidPath"],
  ["the prototype", patch({ op: "add", path: "__proto__.x", value: "x" }), "invalidPath"],
  [
    "the prototype, without a path",
    patch({ op: "add", value: JSON.parse('{"__proto__": {"x": 1}}') as unknown }),
    "invalidPath",
  ],
  ["two brackets", patch({ op: "add", path: "emails[a][b]", value: "x" }), "invalidPath"],
  ["a long path", patch({ op: "add", path: "a".repeat(501), value: "x" }), "invalidPath"],
];
const badOfUsers: typeof bad = [
  ["no flag", patch({ op: "replace", path: "active", value: "no" }), "invalidValue"],
  ["a number for a flag", patch({ op: "replace", path: "active", value: 0 }), "invalidValue"],
  ["no address", patch({ op: "replace", path: "emails", value: [{ value: "ada" }] }), "invalidValue"],
  ["addresses that are none", patch({ op: "replace", path: "emails", value: ["a@a.example"] }), "invalidValue"],
  ["no address left", patch({ op: "remove", path: "emails" }), "invalidValue"],
  ["no userName left", patch({ op: "remove", path: "userName" }), "invalidValue"],
  ["a name of a line break", patch({ op: "replace", path: "displayName", value: "A\nB" }), "invalidValue"],
  ["a name of half a character", patch({ op: "replace", path: "displayName", value: "\ud800" }), "invalidValue"],
  ["a long name", patch({ op: "replace", path: "displayName", value: "a".repeat(255) }), "invalidValue"],
  ["a name that is a number", patch({ op: "replace", path: "displayName", value: 1 }), "invalidValue"],
  ["a name that is a list", patch({ op: "replace", path: "name", value: [] }), "invalidValue"],
];
const badOfGroups: typeof bad = [
  ["a stranger's id", patch({ op: "add", path: "members", value: [{ value: "usr_1" }] }), "invalidValue"],
  ["a group's id", patch({ op: "add", path: "members", value: [{ value: newId("agent") }] }), "invalidValue"],
  ["a member of no id", patch({ op: "add", path: "members", value: [{}] }), "invalidValue"],
  ["no name left", patch({ op: "remove", path: "displayName" }), "invalidValue"],
  ["to add by a filter", patch({ op: "add", path: `members[value eq "${ada}"]`, value: [] }), "invalidPath"],
  ["another filter", patch({ op: "remove", path: 'members[display eq "Ada"]' }), "invalidPath"],
];

const refusal = (code: string) => expect.objectContaining({ status: 400, code }) as Error;

describe("a PATCH of a user", () => {
  it.each(users)("%s", (_, operations, change) => {
    expect(readUserPatch(patch(...operations))).toEqual({ set: {}, unset: [], ...change });
  });

  it.each([...bad, ...badOfUsers])("of %s is a 400", (_, body, code) => {
    expect(() => readUserPatch(body)).toThrow(refusal(code));
  });
});

describe("a PATCH of a group", () => {
  it.each(groups)("%s", (_, operations, change) => {
    expect(readGroupPatch(patch(...operations))).toEqual({ cleared: false, added: [], removed: [], ...change });
  });

  it.each([...bad, ...badOfGroups])("of %s is a 400", (_, body, code) => {
    expect(() => readGroupPatch(body)).toThrow(refusal(code));
  });
});

describe("a user, whole", () => {
  it("is what was said of it, and nothing else", () => {
    const body = {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User", ENTERPRISE],
      ...{ userName: "ada", externalId: "e1", displayName: "Ada L.", active: "False", password: "not kept" },
      name: { givenName: "Ada", familyName: "Lovelace", middleName: "not kept" },
      emails: [{ value: "ada@acme.example", type: "work", primary: true }],
      [ENTERPRISE]: { department: "not kept" },
    };
    expect(readUser(body)).toEqual({
      set: { userName: "ada", externalId: "e1", displayName: "Ada L.", givenName: "Ada", familyName: "Lovelace" },
      ...{ unset: ["formatted"], email: "ada@acme.example", active: false },
    });
  });

  it("has its userName for an address where it has no other, and is active", () => {
    const whole = readUser({ userName: "ada@acme.example", emails: [] });
    expect(whole).toMatchObject({ email: "ada@acme.example", active: true });
  });

  it.each([
    ["no userName", { emails: [{ value: "a@a.example" }] }],
    ["an empty one", { userName: "" }],
    ["no address", { userName: "ada" }],
    ["no object", "ada"],
  ])("without: %s, a 400", (_, body) => {
    expect(() => readUser(body)).toThrow(ApiError);
  });
});

describe("a group, whole", () => {
  it("has its members and no others", () => {
    const body = {
      displayName: "Support",
      externalId: "g1",
      members: [{ value: ada }, { value: ada }, { value: bob }],
    };
    expect(readGroup(body)).toEqual({
      ...{ displayName: "Support", externalId: "g1", cleared: true, added: [ada, bob], removed: [] },
    });
  });

  it("has nobody and no external id, if none was named", () => {
    expect(readGroup({ displayName: "Support" })).toMatchObject({ externalId: null, cleared: true, added: [] });
  });

  it("without a name is a 400", () => {
    expect(() => readGroup({ members: [] })).toThrow(refusal("invalidValue"));
  });
});

/** Bodies made of the words that mean something, and of those that an attacker would try. */
const names = ["Operations", "op", "path", "value", "userName", "active", "emails", "name", "members", "displayName"];
const odd = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "__proto__.x",
  "constructor.prototype.x",
  "name.__proto__",
];
const { body } = fc.letrec<{ body: unknown }>((tie) => ({
  body: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom<unknown>(
      "add",
      "Replace",
      "remove",
      "False",
      "members",
      'emails[type eq "work"].value',
      ada,
      null,
      true,
      1,
    ),
    fc.constantFrom<unknown>(...odd),
    fc.array(tie("body"), { maxLength: 4 }),
    fc
      .array(fc.tuple(fc.constantFrom(...names, ...odd), tie("body")), { maxLength: 5 })
      // Own keys, as JSON.parse makes them of `__proto__`, too.
      .map(
        (entries) =>
          JSON.parse(
            `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`,
          ) as unknown,
      ),
  ),
}));

describe("whatever is sent", () => {
  it("is understood or a 400, and writes to nothing but the change", () => {
    const before = JSON.stringify(Object.getOwnPropertyNames(Object.prototype));
    const operations = fc.array(fc.record({ op: body, path: body, value: body }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.oneof(
          body,
          operations.map((all) => patch(...all)),
        ),
        (sent) => {
          for (const read of [readUser, readUserPatch, readGroup, readGroupPatch]) {
            try {
              const change = read(sent);
              expect(Object.getPrototypeOf(change)).toBe(Object.prototype);
              if ("set" in change) {
                const known: string[] = [...userAttributes];
                expect([...Object.keys(change.set), ...change.unset].filter((name) => !known.includes(name))).toEqual(
                  [],
                );
                expect(change.unset.filter((name) => Object.hasOwn(change.set, name))).toEqual([]);
                expect(Object.getPrototypeOf(change.set)).toBe(Object.prototype);
              } else {
                expect(change.added.filter((user) => change.removed.includes(user))).toEqual([]);
              }
            } catch (error) {
              expect(error).toBeInstanceOf(ApiError);
            }
          }
          expect(JSON.stringify(Object.getOwnPropertyNames(Object.prototype))).toBe(before);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("takes linear time, of paths and values that are all alike", () => {
    const started = performance.now();
    const long = { op: "replace", path: `${"a[".repeat(200)}`, value: "x" };
    expect(() => readUserPatch(patch(long))).toThrow(ApiError);
    const many = Array.from({ length: 1000 }, (_, n) => ({
      op: n % 2 ? "add" : "remove",
      path: "members",
      value: [{ value: ada }, { value: bob }],
    }));
    readGroupPatch(patch(...many));
    readGroup({ displayName: "x", members: Array.from({ length: 5000 }, () => ({ value: newId("user") })) });
    expect(performance.now() - started).toBeLessThan(2000);
  });
});
