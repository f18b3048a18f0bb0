/**
 * Mail, whoever carries it: a mailbox of this machine, Resend, Postmark or Cloudflare's own binding. A sandbox's is carried by
 * nobody, but kept where its developer reads it.
 */
import { openPlace } from "../auth/allow.ts";
import { NONE, type None } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { ApiError } from "../errors.ts";
import type { Id } from "../ids.ts";
import { keepMail } from "./queries.ts";

export type Mail = { to: string; subject: string; text: string; html: string };

const MOST_MS = 10_000;

type Carrier = (env: Bindings, mail: Mail, from: string) => Promise<unknown>;

const post = (url: string, headers: Record<string, string>, body: object) =>
  fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", ...headers },
    body: JSON.stringify(body),
    redirect: "manual",
    signal: AbortSignal.timeout(MOST_MS),
  });

const carriers: Record<string, Carrier> = {
  resend: (env, { to, ...mail }, from) =>
    post(
      "https://api.resend.com/emails",
      { Authorization: `Bearer ${env.MAIL_API_KEY ?? ""}` },
      { from, to: [to], ...mail },
    ),
  postmark: (env, { to, subject, text, html }, from) =>
    post(
      "https://api.postmarkapp.com/email",
      { "X-Postmark-Server-Token": env.MAIL_API_KEY ?? "" },
      { From: from, To: to, Subject: subject, TextBody: text, HtmlBody: html },
    ),
  cloudflare: (env, mail, from) => env.EMAIL!.send({ from, ...mail }),
};

/** Who carries mail here. 503 `mail_not_configured`, which says what to set. */
function carrierOf(env: Bindings): (mail: Mail) => Promise<unknown> {
  const { MAIL_PROVIDER = "", MAIL_FROM } = env;
  const mailbox = env.MAILBOX;
  if (mailbox) return (mail) => mailbox.fetch("http://mailbox/", { method: "POST", body: JSON.stringify(mail) });
  const carrier = Object.hasOwn(carriers, MAIL_PROVIDER) && carriers[MAIL_PROVIDER];
  const ready = MAIL_PROVIDER === "cloudflare" ? env.EMAIL : env.MAIL_API_KEY;
  if (!carrier || !ready || !MAIL_FROM) {
    throw new ApiError(
      503,
      "mail_not_configured",
      "This service sends no mail yet. Its operator sets MAIL_PROVIDER (resend, postmark or cloudflare), MAIL_FROM and MAIL_API_KEY, or the binding EMAIL.",
    );
  }
  return (mail) => carrier(env, mail, MAIL_FROM);
}

/** Refuses what would have to be mailed, before anything is done: 503 `mail_not_configured`. A sandbox needs nobody for it. */
export function mustSendMail(env: Bindings, sandbox: Id<"sandbox"> | None): void {
  if (sandbox === NONE) carrierOf(env);
}

/**
 * Sends a mail of a place of an app, or keeps it, where that is a sandbox. 503 `mail_not_configured` where nobody carries any. What
 * the carrier doesn't take is for the log, which learns neither address nor text: to be called after the answer, which must not
 * say what became of it.
 */
export async function sendMail(
  env: Bindings,
  { app, sandbox }: { app: Id<"app">; sandbox: Id<"sandbox"> | None },
  mail: Mail,
): Promise<void> {
  const place = { app_id: app, sandbox_id: sandbox, org_id: NONE } as const;
  const carry = sandbox === NONE ? carrierOf(env) : async (one: Mail) => keepMail(await openPlace(env, place), one);
  try {
    const answer = await carry(mail);
    if (answer instanceof Response && !answer.ok) console.error(JSON.stringify({ mail_refused: answer.status }));
  } catch (error) {
    console.error(JSON.stringify({ mail_not_sent: (error as Error).name }));
  }
}
