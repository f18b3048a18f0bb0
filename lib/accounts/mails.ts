/** What people are mailed of their sign-ins. Whose address it is, the mail alone says: the answer never does. */
import { compose, plain } from "../mail/compose.ts";
import type { Mail } from "../mail/send.ts";

/** Whom an address belongs to, as app.ask_by_mail says; `open`: whoever has no account may register. */
export type Reached = {
  state: "live" | "deactivated" | "suspended" | "no_org" | "sso" | null;
  app_name: string;
  org_name: string | null;
  /** The login page of the org. */
  login: string | null;
  open: boolean;
};
/** What gets its reader in: a code to type, or a link to follow; and whether who has no account is registering. */
export type Proof = ({ code: string } | { link: string }) & { registers: boolean };

const ENDINGS = {
  deactivated: "Your account is deactivated. An admin of your organization can make it active again.",
  suspended: "Your organization is suspended. Nobody of it can sign in until it is active again.",
  no_org: "Your account belongs to no organization yet, and so there is nothing to sign in to.",
  sso: "Your organization lets its people in by its own sign-in alone. It begins on this page:",
};
const NOT_YOU = "If it wasn't you who asked for this, ignore this mail. Nobody gets in without it.";

/** The mail that an address gets which was asked to sign in, or to register. */
export function signInMail(to: string, { state, app_name, org_name, login, open }: Reached, proof: Proof): Mail {
  const app = plain(app_name);
  if (state !== "live" && !(state === null && proof.registers && open)) {
    const why = state === null ? "There is no account with this address." : ENDINGS[state];
    const where = state === "sso" && login !== null ? [{ link: login }] : [];
    return compose(to, `Signing in to ${app}`, [
      ...[`Somebody asked to sign in to ${app} with this address.`, why, ...where],
    ]);
  }
  const where = org_name === null ? app : `${plain(org_name)} at ${app}`;
  if ("code" in proof) {
    const say = `Your code for ${where} is below. It works once, for ten minutes. Give it to nobody.`;
    return compose(to, `${proof.code} is your code for ${app}`, [say, { big: proof.code }, NOT_YOU]);
  }
  const say = `Follow this link to sign in to ${where}. It works once, for fifteen minutes.`;
  return compose(to, `Sign in to ${app}`, [say, { link: proof.link }, NOT_YOU]);
}
