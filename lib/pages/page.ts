/**
 * Our own pages: HTML for people, without a script, one stylesheet for all. Templates are hono's `html`, which escapes what is
 * put into them; Node runs them as they stand, for the document, which it would not do for JSX.
 */
import type { Context } from "hono";
import { html } from "hono/html";
import { mac, verifyMac } from "../auth/secrets.ts";
import { ApiError, forbidden } from "../errors.ts";
import { STATUS_CODES } from "../http/status.ts";

export { html } from "hono/html";
export type Html = ReturnType<typeof html>;

/** Nothing of others but pictures, forms to ourselves, in nobody's frame; no script at all. */
const CSP =
  "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/** A page. `leadsTo`, for what a form can't be redirected to (Chromium holds form-action against it): it goes there by itself. */
export async function page(
  c: Context,
  title: string,
  body: Html | Html[],
  { status = 200, leadsTo }: { status?: number; leadsTo?: string } = {},
): Promise<Response> {
  const text = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${leadsTo === undefined ? "" : html`<meta http-equiv="refresh" content="0; url=${leadsTo}">`}
<title>${title}</title>
<link rel="stylesheet" href="/login.css">
</head>
<body><main><h1>${title}</h1>
${body}
</main></body>
</html>`;
  return c.body(String(text), status as 200, {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": CSP,
    // An address may hold a token; forms still say where they come from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
  });
}

/** A refusal as a page: what a problem says, for people. Anything else is a bug, and is thrown on. */
export function errorPage(error: Error, c: Context): Response | Promise<Response> {
  if (!(error instanceof ApiError)) throw error;
  for (const [name, value] of Object.entries(error.headers)) if (name !== "WWW-Authenticate") c.header(name, value);
  const faults = error.fields.map(({ field, message }) => html`<p role="alert">${field} ${message}.</p>`);
  return page(c, STATUS_CODES[error.status] ?? "Error", [html`<p>${error.message}</p>`, ...faults], error);
}

/** A path of ours that somebody may be led to, and no other host's: `//host` and `/\\host` are. */
export const OWN_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}$/;

const HOUR_MS = 3_600_000;
const formText = (subject: string, hour: number) => `form.${subject}.${hour}`;
const hourOf = (ms: number) => Math.floor(ms / HOUR_MS);

/** The hidden field that a form of ours carries: made by us, of late, for this subject (a page, or a sign-in). */
export const formField = async (roots: string, subject: string): Promise<Html> => {
  const tag = await mac(roots, formText(subject, hourOf(Date.now())), "once");
  return html`<input type="hidden" name="form" value="${btoa(String.fromCharCode(...tag))}">`;
};

/** Refuses a form that isn't one of ours, or is more than an hour old: 403 `stale_form`. */
export async function mustBeOurForm(roots: string, subject: string, sent: string): Promise<void> {
  const tag = /^[\w+/]{43}=$/.test(sent)
    ? Uint8Array.from(atob(sent), (sign) => sign.charCodeAt(0))
    : new Uint8Array(32);
  const now = hourOf(Date.now());
  for (const hour of [now, now - 1]) if (await verifyMac(roots, formText(subject, hour), tag, "once")) return;
  throw forbidden("stale_form", "This page was open for too long. Go back, load it again, and try once more.");
}

/** For all pages; read by eye at 320 pixels, in the dark, and by keyboard. */
export const STYLE = `:root{color-scheme:light dark;--ink:#1a1a1a;--back:#fff;--line:#767676;--act:#0b57d0;--on:#fff;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--back:#161616;--line:#9a9a9a;--act:#a8c7fa;--on:#10213f;--bad:#f2b8b5}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
main{max-width:26rem;margin:0 auto;padding:2rem 1rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.1rem}
label{display:block;margin:1rem 0 .25rem;font-weight:600}
input,button{width:100%;min-height:2.75rem;padding:.5rem .75rem;font:inherit;border-radius:.375rem}
input{border:1px solid var(--line);background:var(--back);color:var(--ink)}
button{margin-top:1rem;border:0;background:var(--act);color:var(--on);font-weight:600;cursor:pointer}
:focus-visible{outline:3px solid var(--act);outline-offset:2px}
a{color:var(--act)}[role=alert]{color:var(--bad);font-weight:600}
ul{list-style:none;padding:0}li{border-top:1px solid var(--line);padding:.75rem 0}
.code{font-size:1.5rem;letter-spacing:.3em}`;
