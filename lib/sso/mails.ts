/** What an org's owners are mailed of its SSO. */
import type { None } from "../db/schema.ts";
import type { Bindings } from "../env.ts";
import { ApiError } from "../errors.ts";
import type { Id } from "../ids.ts";
import { compose, plain } from "../mail/compose.ts";
import { type Mail, mustSendMail, sendMail } from "../mail/send.ts";

type Where = { org: string; app: string };
type Place = { app: Id<"app">; sandbox: Id<"sandbox"> | None };

/** Somebody has set another provider: whoever it names comes in, so the owners hear of it. */
export const untestedMail = (to: string, { org, app }: Where, issuer: string): Mail =>
  compose(to, `The SSO of ${plain(org)} was changed`, [
    `The single sign-on of ${plain(org)} at ${plain(app)} now asks another identity provider, or another key of it: ${plain(issuer)}.`,
    "Nobody has signed in by it yet. Sign in once to try it. If none of you has changed it, take it back, and look who could.",
  ]);

export const endingMail = (to: string, { org, app }: Where, ends_at: string): Mail =>
  compose(to, `A certificate of the SSO of ${plain(org)} ends soon`, [
    `A certificate of the identity provider of ${plain(org)} at ${plain(app)} ends on ${ends_at.slice(0, 10)}. What it signs is refused from then on.`,
    "Ask for your provider's next certificate, and set it beside this one before that day.",
  ]);

/** Mails the owners, where mail is sent at all: what they are told of holds without it. */
export async function mailOwners(env: Bindings, place: Place, mails: Mail[]): Promise<void> {
  try {
    mustSendMail(env, place.sandbox);
  } catch (error) {
    if (error instanceof ApiError) return;
    throw error;
  }
  await Promise.all(mails.map((mail) => sendMail(env, place, mail)));
}
