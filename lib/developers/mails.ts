/** What who asks to sign in as a developer is mailed. Whose address it is, the mail alone says: the page never does. */
import { compose, plain } from "../mail/compose.ts";
import type { Mail } from "../mail/send.ts";

export function developerMail(to: string, app_name: string, code: string | null): Mail {
  const app = plain(app_name);
  if (code === null) {
    const asked = `Somebody asked to sign in as a developer of ${app} with this address.`;
    return compose(to, `Signing in to ${app}`, [asked, "No developer of it has this address."]);
  }
  return compose(to, `${code} is your developer's code for ${app}`, [
    `Your code as a developer of ${app} is below. It works once, for ten minutes. Give it to nobody.`,
    { big: code },
    "If it wasn't you who asked for this, ignore this mail. Nobody gets in without it.",
  ]);
}
