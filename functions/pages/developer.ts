/** Where developers sign in, for their app's own addresses. In no document: a browser asks. */
import type { Context } from "hono";
import { type DeveloperCredential, openDb, readDeveloperSession } from "../../lib/auth/allow.ts";
import { giveDeveloperSession, mustBeSameOrigin, takeDeveloperSession } from "../../lib/auth/sessions.ts";
import { showLogin } from "../../lib/auth/visitors.ts";
import { NONE } from "../../lib/db/schema.ts";
import { askForCode, endSession, enterByCode, getDeveloper } from "../../lib/developers/queries.ts";
import { developerForm, endDeveloperForm } from "../../lib/developers/schema.ts";
import { ApiError, notFound } from "../../lib/errors.ts";
import { type Env, router } from "../../lib/http/router.ts";
import { validForm } from "../../lib/http/valid.ts";
import { type Id, isId } from "../../lib/ids.ts";
import { errorPage, formField, html, mustBeOurForm, page } from "../../lib/pages/page.ts";

const developer = router();
developer.onError(errorPage);

type Page = Context<Env>;

const HOME = "/developer";
const LOGIN = "/developer/login";
const pathOf = (app: Id<"app">) => `${LOGIN}/${app}`;

function appOf(c: Page): Id<"app"> {
  const app = c.req.param("app") ?? "";
  if (!isId("app", app)) throw notFound("address");
  return app;
}

/** Asks which app: nobody is told which there are. */
developer.get(LOGIN, async (c) => {
  const app = c.req.query("app")?.trim();
  if (app !== undefined && isId("app", app)) return c.redirect(pathOf(app), 303);
  return page(
    c,
    "Sign in as a developer",
    html`<form action="${LOGIN}">
${app === undefined ? "" : html`<p role="alert" id="fault">This is no app's id. One looks like dap_… and stands in its keys, too.</p>`}
<label for="app">The app's id</label>
<input id="app" name="app" required maxlength="40" autocomplete="off" autocapitalize="none" spellcheck="false"${app === undefined ? "" : html` aria-describedby="fault" aria-invalid="true"`}>
<button>Continue</button></form>`,
    app === undefined ? {} : { status: 400 },
  );
});

developer.get("/developer/login/:app", async (c) => {
  const app = appOf(c);
  const place = await showLogin(c, { app, sandbox: NONE }, "");
  if (!place) throw notFound("address");
  return page(
    c,
    `Sign in as a developer of ${place.app}`,
    html`<form method="post" action="${pathOf(app)}">${await formField(c.env.ROOT_SECRETS, pathOf(app))}
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="email" required maxlength="254">
<button>Continue</button></form>`,
  );
});

const codePage = async (c: Page, app: Id<"app">, email: string, fault?: ApiError) =>
  page(
    c,
    "Check your mail",
    html`<p>If ${email} is a developer's, eight letters are on their way to it. They work once, for ten minutes.</p>
${fault ? html`<p role="alert" id="fault">${fault.message}</p>` : ""}
<form method="post" action="${pathOf(app)}">${await formField(c.env.ROOT_SECRETS, pathOf(app))}
<input type="hidden" name="email" value="${email}">
<label for="code">Code</label>
<input id="code" name="code" class="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false" required maxlength="20"${fault ? html` aria-describedby="fault" aria-invalid="true"` : ""}>
<button>Sign in</button></form>
<p><a href="${pathOf(app)}">Use another address</a></p>`,
    fault && { status: fault.status },
  );

developer.post("/developer/login/:app", validForm(developerForm), async (c) => {
  mustBeSameOrigin(c);
  const app = appOf(c);
  const { form, email, code } = c.req.valid("form");
  await mustBeOurForm(c.env.ROOT_SECRETS, pathOf(app), form);
  if (code === undefined) {
    await askForCode(c, app, email);
    return codePage(c, app, email);
  }
  try {
    const { ends_at, ...session } = await enterByCode(c, app, email, code);
    await giveDeveloperSession(c, c.env.ROOT_SECRETS, session, ends_at);
    return c.redirect(HOME, 303);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "invalid_code") throw error;
    return codePage(c, app, email, error);
  }
});

/** What goes on in a sign-in that may be over: then the browser is told so, and who is there signs in again. */
async function whileSignedIn(c: Page, show: (credential: DeveloperCredential) => Promise<Response>): Promise<Response> {
  const credential = await readDeveloperSession(c);
  if (!credential) return c.redirect(LOGIN, 303);
  try {
    return await show(credential);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    takeDeveloperSession(c);
    return c.redirect(pathOf(credential.app), 303);
  }
}

developer.get(HOME, (c) =>
  whileSignedIn(c, async (credential) => {
    const { app, session } = credential;
    const { email, app_name } = await getDeveloper(openDb(c, credential, "developer:read"), credential);
    return page(
      c,
      app_name,
      html`<p>You are signed in as its developer, ${email}.</p>
<p>The app's id is <code>${app}</code>.</p>
<h2>What you may ask</h2>
<ul><li>Pages of this host may ask all that is below <a href="/protected/api/v2/developer/apps/${app}">/protected/api/v2/developer/apps/${app}</a>,
as a secret key of production does.</li>
<li>A program sends a secret key. Its operator makes one: <code>npm run app -- rotate-key</code></li>
<li><a href="/openapi.json">Every address</a>, as an OpenAPI document</li>
<li><a href="/login/${app}">Where the app's people sign in</a></li></ul>
<form method="post" action="/developer/logout">${await formField(c.env.ROOT_SECRETS, session)}<button>Sign out</button></form>`,
    );
  }),
);

developer.post("/developer/logout", validForm(endDeveloperForm), (c) => {
  mustBeSameOrigin(c);
  return whileSignedIn(c, async (credential) => {
    await mustBeOurForm(c.env.ROOT_SECRETS, credential.session, c.req.valid("form").form);
    await endSession(openDb(c, credential, "developer:write"), credential);
    takeDeveloperSession(c);
    return c.redirect(pathOf(credential.app), 303);
  });
});

export default developer;
