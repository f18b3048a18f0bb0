import { compose, plain } from "../mail/compose.ts";
import type { Mail } from "../mail/send.ts";

/** What somebody is mailed who is invited into an org: with the key, which is all that it takes. */
export function invitationMail(to: string, { org, app, key }: { org: string; app: string; key: string }): Mail {
  const invited = `You are invited to ${plain(org)} at ${plain(app)}`;
  return compose(to, invited, [
    `${invited}. This key accepts the invitation, once, within seven days. It signs you in: give it to nobody.`,
    key,
    "If you don't know who invited you, ignore this mail.",
  ]);
}
