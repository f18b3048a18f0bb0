import { setPassword } from "../../lib/accounts/queries.ts";
import { passwordBody } from "../../lib/accounts/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { givesNothing } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { ownUser } from "./users.ts";

const passwords = router();

/** Takes the old password, or a sign-in of the last ten minutes; other sign-ins end. Sent again, it is the same password. */
passwords.put(
  "/api/v1/users/:user/password",
  named("Set a user's password"),
  allow("session"),
  valid("json", passwordBody),
  givesNothing(429),
  async (c) => {
    const { db, credential } = c.var;
    const user = await ownUser(db, c.req.param("user"));
    await setPassword(db, c.env.ROOT_SECRETS, credential, user, c.req.valid("json"));
    return c.var.answer();
  },
);

export default passwords;
