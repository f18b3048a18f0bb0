import * as v from "valibot";
import { text } from "../http/valid.ts";
import { OWN_PATH } from "../pages/page.ts";
import { timeZone } from "../schedules/time-zone.ts";

const email = v.pipe(text(254), v.rfcEmail("must be an e-mail address"));
/** By characters, of which one may be any sign. */
const password = v.pipe(v.string(), v.minLength(10, "must have at least 10 characters"), v.maxLength(256));
const name = v.nullish(text(200), null);
const alias = v.nullish(text(100), null);
/** Checked, and not kept: nothing shows times of a person's own yet. */
const timezone = v.nullish(timeZone);
/** Asked for, or not: what an app's `sign_up` says holds. */
const set_org = v.nullish(v.boolean());

const redirect_uri = v.nullish(
  v.pipe(
    text(2000),
    v.check((url) => /^https?:\/\//i.test(url) && URL.canParse(url), "must be an http or https address"),
  ),
  null,
);

export const loginCodeBody = v.strictObject({ email });
export const registerCodeBody = v.strictObject({ email, full_name: name, alias, timezone, set_org });
/** `invite_code`: the key of an invitation into an org. */
export const registerBody = v.strictObject({
  ...{ email, full_name: name, alias, timezone, set_org, password: v.nullish(password) },
  ...{ invite_code: v.nullish(text(200)), team_invite: v.nullish(text(200)) },
});
export type Register = v.InferOutput<typeof registerBody>;
export const verifyCodeBody = v.strictObject({ email, code: text(40), timezone });
export const loginLinkBody = v.strictObject({ email, redirect_uri });
export const registerLinkBody = v.strictObject({ email, full_name: name, alias, redirect_uri, timezone, set_org });
const noted = v.nullish(text(200));
export const requestLinkBody = v.strictObject({
  ...{ email, full_name: name, redirect_uri, set_org },
  /** What a client says of where it was asked; nothing is made of it. */
  ...{ mcp_client_id: noted, signup_origin: noted },
});
export const verifyLinkBody = v.strictObject({ token: text(200) });
export const loginBody = v.strictObject({ email, password: v.pipe(v.string(), v.maxLength(256)) });
export const passwordBody = v.strictObject({
  current_password: v.nullish(v.pipe(v.string(), v.maxLength(256))),
  password,
});

/** The forms of our pages. `form` is what shows that a page of ours carried it. */
const form = v.pipe(v.string(), v.maxLength(100));
const return_to = v.optional(v.pipe(v.string(), v.regex(OWN_PATH)));
/** `by` a code, though the address's domain has a provider: of who comes in while that is out of order. */
export const codeForm = v.strictObject({
  ...{ form, email, code: v.optional(text(40)), return_to, by: v.optional(v.literal("code")) },
});
export const linkForm = v.strictObject({ form, token: text(200) });
export const endForm = v.strictObject({ form, sign_in: v.optional(text(40)), return_to });

/** What somebody says of himself who registers. */
export type Profile = { name: string | null; alias: string | null };

export const authMethods = v.strictObject({
  data: v.array(v.strictObject({ slug: v.string(), name: v.string(), description: v.string() })),
});
