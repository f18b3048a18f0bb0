/** How people register with a password: at once where no address need be proven for it, else by what is mailed there. */
import type { Asked } from "../auth/allow.ts";
import { hashesOf, newWorking } from "../auth/passwords.ts";
import { hex } from "../auth/secrets.ts";
import { countedBy, ipOf, openVisitor, type Visitor } from "../auth/visitors.ts";
import { ApiError, badRequest, forbidden, refused, tooMany } from "../errors.ts";
import { acceptInvitation, mustUseProvider } from "../invitations/queries.ts";
import { askForCode, type Entered, enter, idsToBe } from "./queries.ts";
import type { Register } from "./schema.ts";

const taken = () => refused("taken", "There is an account with this address. Sign in instead.");
type Said = { created?: boolean; invited?: boolean; wait?: number; refused?: string };

/**
 * Makes a user, and signs in. 400 without a password; 403 `sign_up_closed`, and `verification_required` where the address has
 * to be proven: a code is on its way there, and the password isn't kept, since who types the code needn't have chosen it; 404
 * on an invitation that isn't of this address, and on any of a team; 409 `taken`; 429 beyond ten an hour from one place.
 */
export async function registerByPassword(c: Asked, visitor: Visitor, body: Register): Promise<Entered> {
  const { email, password, full_name, alias, invite_code, team_invite } = body;
  if (team_invite) throw new ApiError(404, "not_found", "No such team invite.");
  if (!password) throw badRequest("password_required", "Registering takes a password.");
  const roots = c.env.ROOT_SECRETS;
  const profile = { name: full_name, alias };
  const working = newWorking();
  const [hash] = await hashesOf(roots, password, working);
  const kept = { salt: hex(working.salt), rounds: working.rounds, hash: hex(hash!) };
  const door = await openVisitor<Said>(
    ...[c, visitor, "register_by_password" as const],
    { method: "password", message: email },
    [
      ...[email, JSON.stringify({ profile, password: kept, invited: Boolean(invite_code) }), idsToBe()],
      await countedBy(roots, visitor, `registers.${ipOf(c)}`),
    ],
  );
  const { said, entered } = await enter(c, door, "password", "api").catch((error) => {
    // Somebody else came first.
    throw error instanceof ApiError && error.code === "conflict" ? taken() : error;
  });
  if (entered) return entered;
  if (said?.invited) {
    const user_agent = c.req.header("User-Agent");
    const who = { ...visitor, email, ...profile, password: { ...working, hash: hash! } };
    const accepted = await acceptInvitation(c, invite_code!, { carrier: "api", user_agent }, who);
    if (!accepted) throw mustUseProvider();
    return { ...accepted, created: true };
  }
  if (said?.wait) throw tooMany(said.wait, "Too many accounts were made from here. Try again later.");
  if (said?.refused === "taken") throw taken();
  if (said?.refused !== "verification_required") throw forbidden("sign_up_closed", "This app lets nobody register.");
  await askForCode(c, visitor, email, { register: "must", profile });
  throw forbidden("verification_required", "This address has to be proven: a code was mailed there, which signs in.");
}
