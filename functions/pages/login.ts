import { html } from "hono/html";
import type * as v from "valibot";
import { askForCode, enterByCode, enterByLink, visitorOfLink } from "../../lib/accounts/queries.ts";
import { codeForm, endForm, linkForm } from "../../lib/accounts/schema.ts";
import { type BrowserCredential, openDb, readPageSession } from "../../lib/auth/allow.ts";
import { mustBeSameOrigin, takeSession } from "../../lib/auth/sessions.ts";
import { showLogin, ssoOf } from "../../lib/auth/visitors.ts";
import { NONE } from "../../lib/db/schema.ts";
import { domainOf } from "../../lib/domains/public-mail.ts";
import { ApiError, notFound } from "../../lib/errors.ts";
import { router } from "../../lib/http/router.ts";
import { validForm } from "../../lib/http/valid.ts";
import { type Id, isId } from "../../lib/ids.ts";
import { errorPage, formField, mustBeOurForm, OWN_PATH, page, STYLE } from "../../lib/pages/page.ts";
import { endingSignIns, listingSignIns, readingSignIn } from "../../lib/sign-ins/queries.ts";
import { readingUser } from "../../lib/users/queries.ts";
import { type Here, homeOf, letIn, type Page, pathOf } from "./home.ts";

const login = router();
login.onError(errorPage);

/** The place that an address names: of nothing but an app's own pages. No slug looks like a sandbox's id. */
function placeOf(c: Page): Here {
  const { app, sandbox, slug = "" } = c.req.param() as Record<string, string | undefined>;
  if (!app || !isId("app", app) || (sandbox !== undefined && !isId("sandbox", sandbox))) throw notFound("address");
  if (isId("sandbox", slug)) return { app, sandbox: slug, slug: "" };
  return { app, sandbox: (sandbox as Id<"sandbox"> | undefined) ?? NONE, slug };
}

/** Who is signed in here, and the database behind that; null where nobody is, or no longer. */
async function personOf(c: Page): Promise<{ credential: BrowserCredential; db: ReturnType<typeof openDb> } | null> {
  const credential = await readPageSession(c);
  return credential && { credential, db: openDb(c, credential, "self") };
}

login.get("/login.css", (c) =>
  c.body(STYLE, 200, {
    "Content-Type": "text/css; charset=utf-8",
    "Cache-Control": "public, max-age=3600",
    "Content-Security-Policy": "default-src 'none'",
  }),
);

/** A mail scanner follows links, too: looking at one uses up nothing. */
login.get("/login/link", async (c) => {
  const token = (c.req.query("token") ?? "").slice(0, 200);
  return page(
    c,
    "Sign in",
    html`<form method="post" action="/login/link">${await formField(c.env.ROOT_SECRETS, "link")}
<input type="hidden" name="token" value="${token}">
<p>Press the button to sign in. The link works once.</p><button>Sign in</button></form>`,
  );
});

login.post("/login/link", validForm(linkForm), async (c) => {
  mustBeSameOrigin(c);
  const { form, token } = c.req.valid("form");
  await mustBeOurForm(c.env.ROOT_SECRETS, "link", form);
  try {
    return await letIn(c, await enterByLink(c, await visitorOfLink(token), token, "browser"));
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    return page(c, "Sign in", html`<p role="alert">This link was used or has expired. Ask for another one.</p>`, error);
  }
});

/** What a form carries on besides: where somebody is to be led then, and whether by a code whatever the domain. */
type Asking = Pick<v.InferOutput<typeof codeForm>, "return_to" | "by">;
const hidden = (fields: Record<string, string | undefined>) =>
  Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [html`<input type="hidden" name="${name}" value="${value}">`],
  );

/** The two forms: an address first, and then what was mailed to it. */
const emailPage = async (c: Page, here: Here, title: string, { return_to, by }: Asking) =>
  page(
    c,
    title,
    html`<form method="post" action="${pathOf(here)}">${await formField(c.env.ROOT_SECRETS, pathOf(here))}${hidden({ return_to, by })}
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="email" required maxlength="254">
<button>Continue</button></form>
${by ? "" : html`<p><a href="${pathOf(here)}?${new URLSearchParams({ by: "code", ...(return_to && { return_to }) })}">Sign in by a code</a></p>`}`,
  );

const codePage = async (c: Page, here: Here, email: string, asking: Asking, fault?: ApiError) =>
  page(
    c,
    "Check your mail",
    html`<p>If ${email} may sign in here, six digits are on their way to it. They work once, for ten minutes.</p>
${fault ? html`<p role="alert" id="fault">${fault.message}</p>` : ""}
<form method="post" action="${pathOf(here)}">${await formField(c.env.ROOT_SECRETS, pathOf(here))}
${hidden({ email, ...asking })}
<label for="code">Code</label>
<input id="code" name="code" class="code" inputmode="numeric" autocomplete="one-time-code" required maxlength="20"${fault ? html` aria-describedby="fault" aria-invalid="true"` : ""}>
<button>Sign in</button></form>
<p><a href="${pathOf(here)}">Use another address</a></p>`,
    fault && { status: fault.status },
  );

async function showHere(c: Page): Promise<Response> {
  const here = placeOf(c);
  const person = await personOf(c);
  if (person?.credential.app === here.app && person.credential.sandbox === here.sandbox) {
    try {
      return await showPerson(c, person);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      takeSession(c);
    }
  }
  const place = await showLogin(c, here, here.slug);
  if (!place) throw notFound("address");
  const { return_to = "", by } = c.req.query();
  return emailPage(c, here, `Sign in to ${place.org ?? place.app}`, {
    ...(OWN_PATH.test(return_to) && { return_to }),
    ...(by === "code" && { by }),
  });
}

async function showPerson(c: Page, { credential, db }: NonNullable<Awaited<ReturnType<typeof personOf>>>) {
  const found = await db.batch({
    user: readingUser(db, credential.user),
    // It may be older than all that are shown: whatever is minted for a person is a sign-in, too.
    own: readingSignIn(db, credential.user, credential.sign_in),
    sign_ins: listingSignIns(db, credential, credential.user, { limit: 20, from: null }),
  });
  // The door found both.
  const [user, own] = [found.user[0]!, found.own[0]!];
  const field = await formField(c.env.ROOT_SECRETS, credential.sign_in);
  const rows = found.sign_ins.map(
    ({ id, method, user_agent, created_at, current }) => html`<li>${user_agent ?? "A program"}<br>
by ${method}, since <time datetime="${created_at}">${created_at.slice(0, 16).replace("T", " ")} UTC</time>
${
  current
    ? html`<br>This one`
    : html`<form method="post" action="/logout">${field}<input type="hidden" name="sign_in" value="${id}"><button>End this sign-in</button></form>`
}</li>`,
  );
  // Its provider is told, too.
  const viaProvider = own.method === "saml" || own.method === "oidc";
  return page(
    c,
    `You are signed in to ${user.org_name ?? user.app_name}`,
    html`<p>As ${user.name ?? user.email}${user.name && user.email ? html` (${user.email})` : ""}.</p>
<form method="post" action="${viaProvider ? `/sso/${credential.app}/${credential.sandbox}/${credential.org}/logout` : "/logout"}">${field}<button>Sign out</button></form>
<h2>Where you are signed in</h2><ul>${rows}</ul>`,
  );
}

async function takeForm(c: Page, { form, email, code, ...asking }: v.InferOutput<typeof codeForm>) {
  mustBeSameOrigin(c);
  const here = placeOf(c);
  await mustBeOurForm(c.env.ROOT_SECRETS, pathOf(here), form);
  const visitor = { app: here.app, sandbox: here.sandbox, beside: null };
  if (code === undefined) {
    // By its domain alone: it tells nothing of who has the address.
    const org = asking.by ? null : await ssoOf(c, here, domainOf(email));
    if (org) return toProvider(c, here, org, asking);
    await askForCode(c, visitor, email, null);
    return codePage(c, here, email, asking);
  }
  try {
    return await letIn(c, await enterByCode(c, visitor, { email, code }, "browser"), asking.return_to);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "invalid_code") throw error;
    return codePage(c, here, email, asking, error);
  }
}

/** A form of ours may lead nowhere else, so a page does. */
function toProvider(c: Page, { app, sandbox }: Here, org: Id<"org">, { return_to }: Asking) {
  const leadsTo = `/sso/${app}/${sandbox}/${org}/start${return_to ? `?${new URLSearchParams({ return_to })}` : ""}`;
  return page(c, "Sign in", html`<p><a href="${leadsTo}">Go on to your organization's sign-in</a></p>`, { leadsTo });
}

for (const path of ["/login/:app", "/login/:app/:slug", "/login/:app/:sandbox/:slug"] as const) {
  login.get(path, showHere);
  login.post(path, validForm(codeForm), (c) => takeForm(c, c.req.valid("form")));
}

const signedOut = (c: Page) => page(c, "You are signed out", html`<p>Nobody is signed in in this browser.</p>`);

login.get("/logout", async (c) => {
  const person = await personOf(c);
  if (!person) return signedOut(c);
  const field = await formField(c.env.ROOT_SECRETS, person.credential.sign_in);
  return page(c, "Sign out", html`<form method="post" action="/logout">${field}<button>Sign out</button></form>`);
});

/** Ends the sign-in of this browser, or another one of the same person, and leads to the org's page. Twice is once. */
login.post("/logout", validForm(endForm), async (c) => {
  mustBeSameOrigin(c);
  const { form, sign_in, return_to } = c.req.valid("form");
  const person = await personOf(c);
  if (!person) return signedOut(c);
  const { credential, db } = person;
  await mustBeOurForm(c.env.ROOT_SECRETS, credential.sign_in, form);
  const which = sign_in === undefined ? credential.sign_in : sign_in;
  if (which === credential.sign_in) takeSession(c);
  try {
    const { user } = await db.batch({
      user: readingUser(db, credential.user),
      ...(isId("sign_in", which) && { ended: endingSignIns(db, credential.user, { one: which }) }),
    });
    return c.redirect(return_to ?? homeOf(user[0]!), 303);
  } catch (error) {
    // It was over before.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    return signedOut(c);
  }
});

export default login;
