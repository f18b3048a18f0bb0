/** Every group that serves something, and its routers. */
import { routers as activity } from "./activity/index.ts";
import { routers as agents } from "./agents/index.ts";
import { routers as ai } from "./ai/index.ts";
import { routers as auth } from "./auth/index.ts";
import { routers as configs } from "./configs/index.ts";
import { routers as developer } from "./developer/index.ts";
import { routers as events } from "./events/index.ts";
import { routers as hooks } from "./hooks/index.ts";
import { routers as pages } from "./pages/index.ts";
import { routers as people } from "./people/index.ts";
import { routers as root } from "./root/index.ts";
import { routers as routines } from "./routines/index.ts";
import { routers as scim } from "./scim/index.ts";
import { routers as sessions } from "./sessions/index.ts";
import { routers as sso } from "./sso/index.ts";
import { routers as webhooks } from "./webhooks/index.ts";

export const groups = {
  root,
  developer,
  auth,
  pages,
  sso,
  people,
  agents,
  routines,
  activity,
  configs,
  ai,
  sessions,
  events,
  hooks,
  webhooks,
  scim,
};
