/** Providers, as strangers' packages and documents have them sign: none of what is tested is used. */
import { createHmac } from "node:crypto";
import { sign as signGithub } from "@octokit/webhooks-methods";
import { Webhook as Standard } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";
import { aSecret } from "../harness/canary.ts";

export type Headers = Record<string, string>;
/** A delivery of a provider: its headers, by a secret, at a time. `id`: what it calls the delivery. */
type Sender = {
  provider: string;
  fields?: object;
  /** One that the provider could have made. */
  secret: () => string;
  body: (id: string) => string;
  sign: (secret: string, body: string, id: string, at: Date) => Headers | Promise<Headers>;
  /** The header that bears the signature. */
  bears: string;
  /** Whether a time is signed, and a delivery has a name of its own. */
  timed: boolean;
};

const seconds = (at: Date) => String(Math.floor(at.getTime() / 1000));
const aStandardSecret = () => `whsec_${btoa(aSecret())}`;
const stripe = new Stripe("sk_test_of_nobody");
const hmacOf = (algorithm: string, secret: string, text: string) => createHmac(algorithm, secret).update(text);

export const senders: Record<string, Sender> = {
  standard: {
    ...{ provider: "standard", secret: aStandardSecret, bears: "webhook-signature", timed: true },
    body: (id) => JSON.stringify({ type: "order.paid", about: id }),
    sign: (secret, body, id, at) => ({
      ...{ "webhook-id": id, "webhook-timestamp": seconds(at) },
      "webhook-signature": new Standard(secret).sign(id, at, body),
    }),
  },
  svix: {
    ...{ provider: "standard", secret: aStandardSecret, bears: "svix-signature", timed: true },
    body: (id) => JSON.stringify({ type: "order.paid", about: id }),
    sign: (secret, body, id, at) => ({
      ...{ "svix-id": id, "svix-timestamp": seconds(at) },
      "svix-signature": new Svix(secret).sign(id, at, body),
    }),
  },
  github: {
    ...{ provider: "github", secret: aSecret, bears: "x-hub-signature-256", timed: false },
    body: (id) => JSON.stringify({ action: "opened", about: id }),
    sign: async (secret, body, id) => ({
      ...{ "x-github-delivery": id, "x-github-event": "pull_request" },
      "x-hub-signature-256": await signGithub(secret, body),
    }),
  },
  stripe: {
    ...{ provider: "stripe", secret: () => `whsec_${aSecret()}`, bears: "stripe-signature", timed: true },
    body: (id) => JSON.stringify({ id, object: "event", type: "charge.succeeded" }),
    sign: (secret, payload, _, at) => ({
      "stripe-signature": stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: Number(seconds(at)) }),
    }),
  },
  slack: {
    ...{ provider: "slack", secret: aSecret, bears: "x-slack-signature", timed: true },
    body: (id) =>
      JSON.stringify({ token: aSecret(), type: "event_callback", event_id: id, event: { type: "message" } }),
    sign: (secret, body, _, at) => ({
      "x-slack-request-timestamp": seconds(at),
      "x-slack-signature": `v0=${hmacOf("sha256", secret, `v0:${seconds(at)}:${body}`).digest("hex")}`,
    }),
  },
  "hmac, sha256 over the body": {
    ...{ provider: "hmac", secret: aSecret, bears: "x-acme-hmac", timed: false },
    fields: { hmac: { header: "X-Acme-Hmac", prefix: "sha256=" } },
    body: (id) => JSON.stringify({ about: id }),
    sign: (secret, body, id) => ({
      ...{ "idempotency-key": id, "x-acme-hmac": `sha256=${hmacOf("sha256", secret, body).digest("hex")}` },
    }),
  },
  "hmac, sha512 in base64 over time and body": {
    ...{ provider: "hmac", secret: aSecret, bears: "x-acme-event", timed: true },
    fields: {
      hmac: {
        ...{ header: "x-acme-event", algorithm: "sha512", encoding: "base64", timestamp_header: "x-acme-timestamp" },
        ...{ signed: "timestamp.body", id_header: "x-acme-delivery" },
      },
    },
    body: (id) => JSON.stringify({ about: id }),
    sign: (secret, body, id, at) => ({
      ...{ "x-acme-delivery": id, "x-acme-timestamp": seconds(at) },
      "x-acme-event": hmacOf("sha512", secret, `${seconds(at)}.${body}`).digest("base64"),
    }),
  },
  "hmac, sha1 as Slack signs": {
    ...{ provider: "hmac", secret: aSecret, bears: "x-sig", timed: true },
    fields: {
      hmac: { header: "X-Sig", algorithm: "sha1", timestamp_header: "X-At", signed: "v0:timestamp:body" },
    },
    body: (id) => JSON.stringify({ about: id }),
    sign: (secret, body, id, at) => ({
      ...{ "idempotency-key": id, "x-at": seconds(at) },
      "x-sig": hmacOf("sha1", secret, `v0:${seconds(at)}:${body}`).digest("hex"),
    }),
  },
};
