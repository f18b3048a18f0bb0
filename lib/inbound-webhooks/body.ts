/** A body as it is told: whatever came, a value that Postgres keeps and a script reads. */
import { toBase64 } from "../auth/secrets.ts";
import type { WebhookProvider } from "../db/schema.ts";
import { isMap, mustBeStorable } from "../http/valid.ts";

/**
 * JSON by its value; a form by its fields, and what it has as JSON in `payload`, if it has nothing else (so GitHub and
 * Slack send); other text as text. What is no text, or can't be kept as that: `{"base64"}`. JSON that can't be kept as
 * such, since it is nested too deep, holds too many values or numbers too large, is its text. Of Slack's without `token`,
 * by which its apps were known before it signed.
 */
export function bodyOf(provider: WebhookProvider, bytes: Uint8Array, type: string): unknown {
  const text = textOf(bytes);
  if (text === null) return { base64: toBase64(bytes) };
  const value = /^application\/x-www-form-urlencoded\b/i.test(type) ? formOf(text) : jsonOf(text, type);
  if (provider !== "slack" || !isMap(value)) return value;
  const { token: _, ...rest } = value;
  return rest;
}

function textOf(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function formOf(text: string): unknown {
  const fields = [...new URLSearchParams(text)];
  const [first] = fields;
  if (fields.length === 1 && first![0] === "payload") return jsonOf(first![1], "application/json");
  return storable(Object.fromEntries(fields), text);
}

/** What says that it is JSON, or is an object or a list of it: a text that is a number is still a text. */
function jsonOf(text: string, type: string): unknown {
  try {
    const value = JSON.parse(text, ofSensibleSize);
    const isJson = /^application\/([\w.+-]+\+)?json\b/i.test(type) || typeof value === "object";
    return isJson ? storable(value, text) : text;
  } catch {
    return text;
  }
}

/** Throws on a number that JSON has in a few letters, and Postgres writes out with hundreds of digits. */
function ofSensibleSize(_: string, value: unknown): unknown {
  if (typeof value === "number" && /e/.test(String(value))) throw new RangeError();
  return value;
}

function storable(value: unknown, otherwise: string): unknown {
  try {
    mustBeStorable({ value });
    return value;
  } catch {
    return otherwise.replaceAll("\0", "");
  }
}
