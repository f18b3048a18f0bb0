import { signInRoutes } from "../../lib/sign-ins/routes.ts";
import { ownUser } from "./users.ts";

export default signInRoutes("/api/v1/users/:user/sessions", "session", ["session", "session"], (db, { user }) =>
  ownUser(db, user!),
);
