import { worker } from "../../lib/http/worker.ts";
import domains from "./domains.ts";
import invitations from "./invitations.ts";
import invites from "./invites.ts";
import orgs from "./orgs.ts";
import passwords from "./passwords.ts";
import scim from "./scim.ts";
import signIns from "./sign-ins.ts";
import sso from "./sso.ts";
import tokens from "./tokens.ts";
import users from "./users.ts";

export const routers = [users, tokens, signIns, orgs, domains, invitations, invites, scim, passwords, sso];
export default worker(...routers);
