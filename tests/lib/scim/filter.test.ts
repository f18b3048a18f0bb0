/** What providers ask for, and that nothing else is taken for it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiError } from "../../../lib/errors.ts";
import { type Condition, type Filtered, readFilter } from "../../../lib/scim/filter.ts";

const one = (attribute: Filtered, value: string): Condition[] => [{ attribute, value }];
const taken: [filter: string, conditions: Condition[]][] = [
  // Okta's
  ['userName eq "ada@acme.example"', one("userName", "ada@acme.example")],
  ['displayName eq "Support"', one("displayName", "Support")],
  ['id eq "usr_1"', one("id", "usr_1")],
  // Entra's
  ['userName Eq "Ada@Acme.Example"', one("userName", "Ada@Acme.Example")],
  ['externalId eq "00u1"', one("externalId", "00u1")],
  ['emails[type eq "work"].value eq "ada@acme.example"', one("emails.value", "ada@acme.example")],
  ['emails.value eq "ada@acme.example"', one("emails.value", "ada@acme.example")],
  ['urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ada"', one("userName", "ada")],
  ['  USERNAME   eq\t"ada"  ', one("userName", "ada")],
  ['id eq "scg_1" and displayName EQ "Support"', [...one("id", "scg_1"), ...one("displayName", "Support")]],
  // A value is a JSON text: what stands in it is no filter.
  ['displayName eq "say \\"hi\\" and id eq \\u0041"', one("displayName", 'say "hi" and id eq A')],
  ['displayName eq ""', one("displayName", "")],
];

const refused = [
  "",
  "userName",
  "userName eq",
  "userName eq ada",
  'userName eq "ada',
  'userName eq "ada" and',
  'userName eq "ada" or id eq "1"',
  'userName eq "ada" id eq "1"',
  'not (userName eq "ada")',
  '(userName eq "ada")',
  'userName ne "ada"',
  'userName co "a"',
  'userName sw "a"',
  "userName pr",
  "active eq true",
  'active eq "true"',
  'password eq "x"',
  '__proto__ eq "x"',
  'constructor eq "x"',
  'emails[type eq "home"].value eq "x"',
  'emails[value eq "x"] eq "x"',
  'userName eq "a\\q"',
  'userName eq "\\u0000"',
  'userName eq "\\ud800"',
  `userName eq "${"a".repeat(1000)}"`,
  Array.from({ length: 11 }, () => 'id eq "1"').join(" and "),
];

describe("a filter", () => {
  it.each(taken)("%s is read", (filter, conditions) => {
    expect(readFilter(filter)).toEqual(conditions);
  });

  it.each(refused)("%s is a 400, invalidFilter", (filter) => {
    expect(() => readFilter(filter)).toThrow(expect.objectContaining({ status: 400, code: "invalidFilter" }));
  });

  it("of ten conditions is read", () => {
    expect(readFilter(Array.from({ length: 10 }, () => 'id eq "1"').join(" and "))).toHaveLength(10);
  });

  it("gives back each value that is asked for, whatever stands in it", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 100 }), (value) => {
        fc.pre(!value.includes("\0"));
        expect(readFilter(`externalId eq ${JSON.stringify(value)}`)).toEqual(one("externalId", value));
      }),
    );
  });

  it("is refused and never breaks, whatever it is", () => {
    const words = fc.constantFrom("userName", "eq", "and", '"a"', "(", '"', "\\", " ", "emails[", "].value", "\0");
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(words).map((all) => all.join(" ")),
        ),
        (text) => {
          try {
            for (const { attribute } of readFilter(text))
              expect(attribute).toMatch(/^(id|\w+Name|externalId|emails.value)$/);
          } catch (error) {
            expect(error).toBeInstanceOf(ApiError);
          }
        },
      ),
    );
  });
});
