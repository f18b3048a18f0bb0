/** The mail of this machine: nothing leaves it. Each is a file of the data directory, and a loopback page shows the newest. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Mail } from "../mail/send.ts";

const MOST_SHOWN = 50;

const base64 = (text: string) => Buffer.from(text).toString("base64");
/** An encoded word (RFC 2047): no line of a subject ends the header. */
const word = (text: string) => (/^[\x20-\x7e]*$/.test(text) ? text : `=?utf-8?B?${base64(text)}?=`);
const part = (type: string, text: string, boundary: string) =>
  [
    `--${boundary}`,
    `Content-Type: ${type}; charset=utf-8`,
    "Content-Transfer-Encoding: base64",
    "",
    base64(text).replace(/.{76}/g, "$&\r\n"),
  ].join("\r\n");

/** A mail as RFC 5322 and 2046 write one. */
export function toEml({ to, subject, text, html }: Mail, date: Date): string {
  const boundary = randomBytes(12).toString("hex");
  return [
    "From: agentry <agentry@localhost>",
    `To: ${word(to)}`,
    `Subject: ${word(subject)}`,
    `Date: ${date.toUTCString().replace("GMT", "+0000")}`,
    "MIME-Version: 1.0",
    `Content-Type: multipart/alternative; boundary="${boundary}"`,
    "",
    part("text/plain", text, boundary),
    part("text/html", html, boundary),
    `--${boundary}--`,
    "",
  ].join("\r\n");
}

/** What such a file says: the headers that are shown, and its text. */
export function readEml(eml: string) {
  const header = (name: string) => {
    const value = eml.match(new RegExp(`^${name}: (.*)\r$`, "m"))?.[1] ?? "";
    const encoded = value.match(/^=\?utf-8\?B\?(.*)\?=$/)?.[1];
    return encoded === undefined ? value : Buffer.from(encoded, "base64").toString();
  };
  const text = eml.match(/text\/plain[\s\S]*?\r\n\r\n([\s\S]*?)\r\n--/)?.[1] ?? "";
  return {
    to: header("To"),
    subject: header("Subject"),
    date: header("Date"),
    text: Buffer.from(text, "base64").toString(),
  };
}

/** Takes mail into a directory; the names of its files are in the order in which they came. */
export function openMailbox(dir: string) {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  let serial = 0;
  return (mail: Mail): void => {
    const name = `${new Date().toISOString().replaceAll(":", "-")}-${String(serial++).padStart(6, "0")}.eml`;
    writeFileSync(join(dir, name), toEml(mail, new Date()), { mode: 0o600 });
  };
}

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]!);
const linked = (text: string) => escaped(text).replace(/https?:\/\/[^\s<]+/g, '<a href="$&" rel="noreferrer">$&</a>');

/**
 * Shows a mailbox on loopback, under an address that has to be known: codes and links are in it, and any page that a browser of
 * this machine has open can ask loopback.
 */
export async function showMailbox(dir: string): Promise<{ url: string; server: Server }> {
  const path = `/${randomBytes(16).toString("base64url")}`;
  const server = createServer((request, response) => {
    if (request.url !== path) return response.writeHead(404).end();
    const newest = readdirSync(dir)
      .filter((name) => name.endsWith(".eml"))
      .sort()
      .reverse()
      .slice(0, MOST_SHOWN);
    const mails = newest.map((name) => readEml(readFileSync(join(dir, name), "utf8")));
    const shown = mails.map(
      ({ to, subject, date, text }) =>
        `<article><h2>${escaped(subject)}</h2><p>To ${escaped(to)}, ${escaped(date)}</p><pre>${linked(text)}</pre></article>`,
    );
    response.writeHead(200, {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
      "Referrer-Policy": "no-referrer",
      "Cache-Control": "no-store",
      Refresh: "5",
    });
    return response.end(
      `<!doctype html><html lang="en"><title>Mailbox</title><h1>Mailbox</h1>${shown.join("") || "<p>No mail yet.</p>"}</html>`,
    );
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, server };
}
