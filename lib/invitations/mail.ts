import { compose, plain } from "../mail/compose.ts";
import type { Mail } from "../mail/send.ts";

/** What somebody is mailed who is invited into an org: a link to our page, with the key, which is all that it takes. */
export function invitationMail(
  to: string,
  { org, app, key, link }: { org: string; app: string; key: string; link: string },
): Mail {
  const invited = `You are invited to ${plain(org)} at ${plain(app)}`;
  return compose(to, invited, [
    `${invited}. Accept on this page, once, within seven days. It signs you in: forward it to nobody.`,
    { link },
    "Where an app asks you for the key of an invitation, it is this one.",
    key,
    "If you don't know who invited you, ignore this mail.",
  ]);
}
