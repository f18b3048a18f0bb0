import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { webhookProviders } from "../../../lib/db/schema.ts";
import { mustBeStorable } from "../../../lib/http/valid.ts";
import { bodyOf } from "../../../lib/inbound-webhooks/body.ts";

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.oneof(fc.json(), fc.string({ unit: "binary" }), fc.webQueryParameters()).map((text) => Buffer.from(text)),
);
const type = fc.constantFrom("", "application/json", "text/plain", "application/x-www-form-urlencoded", "image/png");

describe("whatever came", () => {
  it("is told as a value that is kept as it is, and never fails", () => {
    fc.assert(
      fc.property(fc.constantFrom(...webhookProviders), bytes, type, (provider, bytes, type) => {
        const value = bodyOf(provider, bytes, type);
        mustBeStorable({ value });
        expect(JSON.parse(JSON.stringify({ value }))).toEqual({ value });
      }),
    );
  });

  it("from Slack is told without the token by which it was known, in JSON and in its forms, and from others with it", () => {
    const said = { type: "block_actions", token: "a-word-that-is-known" };
    const forms: [string, string][] = [
      [JSON.stringify(said), "application/json"],
      [String(new URLSearchParams(said)), "application/x-www-form-urlencoded"],
      [
        String(new URLSearchParams({ payload: JSON.stringify(said) })),
        "application/x-www-form-urlencoded; charset=utf-8",
      ],
    ];
    for (const [text, type] of forms) {
      expect(bodyOf("slack", Buffer.from(text), type)).toEqual({ type: "block_actions" });
      expect(bodyOf("github", Buffer.from(text), type)).toEqual(said);
    }
  });
});
