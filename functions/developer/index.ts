import { worker } from "../../lib/http/worker.ts";
import apps from "./apps.ts";
import keys from "./keys.ts";
import orgs from "./orgs.ts";
import sandboxes from "./sandboxes.ts";
import tokens from "./tokens.ts";
import users from "./users.ts";

export const routers = [apps, keys, orgs, users, tokens, sandboxes];
export default worker(...routers);
