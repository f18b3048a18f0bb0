import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { HmacScheme, WebhookProvider } from "../../../lib/db/schema.ts";
import { headersOf, isSigned, keysOf } from "../../../lib/inbound-webhooks/providers.ts";
import { senders } from "../../hooks/senders.ts";

const hmacOf = (fields: object = {}): HmacScheme => ({
  ...{ header: "X-Sig", algorithm: "sha256", encoding: "hex", prefix: "", timestamp_header: null, signed: "body" },
  ...{ id_header: "Idempotency-Key" },
  ...(fields as { hmac?: Partial<HmacScheme> }).hmac,
});

describe.each(Object.entries(senders))("%s", (_, { provider, fields, secret, body, sign, bears }) => {
  const hook = { provider: provider as WebhookProvider, hmac: provider === "hmac" ? hmacOf(fields) : null };
  const key = secret();
  const [text, at] = [body("one"), new Date()];
  const holds = async (secrets: string[], sent: string, change: (value: string) => string = (value) => value) => {
    const headers = await sign(key, text, "one", at);
    const said = new Headers({ ...headers, [bears]: change(headers[bears]!) });
    return isSigned(hook, await keysOf(hook, secrets), said, Buffer.from(sent) as never, at.getTime());
  };

  it("holds by its secret, whichever of the live ones that is, over each byte of the body, and by no other", async () => {
    expect(await holds([key], text)).toBe(true);
    expect(await holds([secret(), key], text)).toBe(true);
    expect(await holds([secret()], text)).toBe(false);
    expect(await holds([], text)).toBe(false);
    await fc.assert(
      fc.asyncProperty(fc.nat(text.length - 1), fc.integer({ min: 1, max: 127 }), async (i, xor) => {
        const other = String.fromCharCode(text.charCodeAt(i) ^ xor);
        expect(await holds([key], text.slice(0, i) + other + text.slice(i + 1))).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  it("doesn't hold by whatever else is said where its signature stands, and fails by none of it", async () => {
    const latin = fc.string({ unit: fc.integer({ min: 0x21, max: 0xff }).map((code) => String.fromCharCode(code)) });
    await fc.assert(
      fc.asyncProperty(latin, fc.nat(80), async (said, cut) => {
        expect(await holds([key], text, () => said)).toBe(false);
        expect(await holds([key], text, (value) => value.slice(0, Math.min(cut, value.length - 4)) + said)).toBe(false);
      }),
      { numRuns: 30 },
    );
  });
});

it("of headers those are kept that say what was sent: twenty, of 200 characters, and never what bears the signature", () => {
  const hook = { provider: "hmac", hmac: hmacOf({ hmac: { header: "X-Acme-Event" } }) } as const;
  const names = Array.from({ length: 25 }, (_, i) => `x-source-${i}-event`);
  const kept = headersOf(
    hook,
    new Headers({ "x-acme-event": "x", ...Object.fromEntries(names.map((one) => [one, "y".repeat(300)])) }),
  );
  expect(Object.values(kept)).toEqual(Array(20).fill("y".repeat(200)));
  const secret = ["authorization", "cookie", "x-api-key", "x-gitlab-token", "x-hub-signature", "x-slack-signature"];
  const signatures = [
    "webhook-signature",
    "svix-signature",
    "stripe-signature",
    "x-twilio-signature",
    "x-event-key-id",
  ];
  expect(headersOf(hook, new Headers([...secret, ...signatures].map((name) => [name, "z"])))).toEqual({});
});
