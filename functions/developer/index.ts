import { worker } from "../../lib/http/worker.ts";
import apps from "./apps.ts";
import domains from "./domains.ts";
import invitations from "./invitations.ts";
import keys from "./keys.ts";
import oauthClients from "./oauth-clients.ts";
import orgs from "./orgs.ts";
import sandboxes from "./sandboxes.ts";
import scim from "./scim.ts";
import signIns from "./sign-ins.ts";
import sso from "./sso.ts";
import tokens from "./tokens.ts";
import users from "./users.ts";

export const routers = [
  apps,
  keys,
  orgs,
  users,
  tokens,
  signIns,
  sandboxes,
  domains,
  invitations,
  scim,
  oauthClients,
  sso,
];
export default worker(...routers);
