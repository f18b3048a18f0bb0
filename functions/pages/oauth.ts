import type { Context } from "hono";
import { openDb } from "../../lib/auth/allow.ts";
import { mustBeSameOrigin } from "../../lib/auth/sessions.ts";
import { NONE } from "../../lib/db/schema.ts";
import { ApiError } from "../../lib/errors.ts";
import { readBody } from "../../lib/http/body.ts";
import { type Env, router } from "../../lib/http/router.ts";
import { isId } from "../../lib/ids.ts";
import { answerTo, loginTo, readAsking, readVisitor, type Visitor } from "../../lib/oauth/consent.ts";
import { type Decision, readDevice, readUserCode, showUserCode } from "../../lib/oauth/device.ts";
import { describedScopes } from "../../lib/oauth/schema.ts";
import { readParameters } from "../../lib/oauth/wire.ts";
import { errorPage, formField, type Html, html, mustBeOurForm, page } from "../../lib/pages/page.ts";

/** Where people decide what a program may do for them. In no document: a person's browser asks. */
const oauth = router();
oauth.onError(errorPage);

const scopeList = (scopes: string[]) =>
  html`<ul>${scopes.map((scope) => html`<li>${describedScopes[scope]}</li>`)}</ul>`;
/** Of a sign-in, and of what is decided in it. */
const formOf = ({ sign_in }: Pick<Visitor, "sign_in">, what: string) => `${what} ${sign_in}`;
const buttons = html`<button name="decision" value="approved">Allow</button>
<button name="decision" value="denied">Don't allow</button>`;

type Form = { form?: string; decision?: string; user_code?: string };
/** What a form of ours sends; the browser says whose page it came from, and the form that it is ours, for this. */
async function readForm(c: Context<Env>, visitor: Pick<Visitor, "sign_in">, what: (sent: Form) => string) {
  mustBeSameOrigin(c);
  const sent: Form = readParameters(new URLSearchParams(new TextDecoder().decode(await readBody(c as Context))));
  await mustBeOurForm(c.env.ROOT_SECRETS, formOf(visitor, what(sent)), sent.form ?? "");
  const decision: Decision = sent.decision === "approved" ? "approved" : "denied";
  return { ...sent, decision };
}

/** Asks the person whether the client may: who isn't signed in is sent to sign in first, and a client's fault to the client. */
oauth.get("/oauth/authorize", async (c) => {
  const url = new URL(c.req.url);
  const asking = await readAsking(c, url);
  if (asking.refused) return c.redirect(answerTo(c, asking, errorOf(asking.refused)));
  const { client, visitor, scopes, redirect_uri } = asking;
  if (!visitor) return c.redirect(loginTo(url, placeOf(url)));
  // What is seen is what is allowed, whatever the client may have by then.
  url.searchParams.set("scope", scopes.join(" "));
  const body = html`<p><strong>${client.name}</strong> asks to use ${client.app_name} as ${whoIs(visitor)}.</p>
<h2>It could</h2>${scopeList(scopes)}
<p>Afterwards you are sent to <strong>${new URL(redirect_uri).host || redirect_uri}</strong>.</p>
<form method="post" action="/oauth/authorize${url.search}">
${await formField(c.env.ROOT_SECRETS, formOf(visitor, "authorize"))}${buttons}</form>`;
  return page(c, `Let ${client.name} in?`, body);
});

/** The decision. A form may not be redirected elsewhere (Chromium holds form-action against it), so a page leads on. */
oauth.post("/oauth/authorize", async (c) => {
  const url = new URL(c.req.url);
  const session = await readVisitor(c, placeOf(url));
  if (!session) return c.redirect(loginTo(url, placeOf(url)), 303);
  const { decision } = await readForm(c, session, () => "authorize");
  const asking = await readAsking(c, url, decision === "approved");
  if (!asking.visitor) return c.redirect(loginTo(url, placeOf(url)), 303);
  const refused = asking.refused ?? (asking.code === null ? denied : null);
  const leadsTo = answerTo(c, asking, refused ? errorOf(refused) : { code: asking.code! });
  const title = refused ? "You didn't let it in" : "You let it in";
  const body = html`<p>You are on your way back to ${asking.client.name}.</p><p><a href="${leadsTo}">Go there now</a></p>`;
  return page(c, title, body, { leadsTo });
});

const denied = new ApiError(400, "access_denied", "The person said no.");
const errorOf = ({ code, message }: ApiError) => ({ error: code, error_description: message });
const whoIs = ({ row }: Visitor) => row.email ?? row.name ?? row.id;

/** The place that a query names, by a client's id or, of a device, by itself. */
function placeOf({ searchParams }: URL) {
  const [, app, sandbox] = searchParams.get("client_id")?.match(/^cli_(\w{22})_(\w{22})?_/) ?? [];
  const named = app ? `dap_${app}` : (searchParams.get("app") ?? "");
  const box = sandbox ? `dsb_${sandbox}` : (searchParams.get("sandbox") ?? "");
  return { app: isId("app", named) ? named : NONE, sandbox: isId("sandbox", box) ? box : NONE };
}

/** Where somebody types what a device shows, sees who asks and for what, and decides. */
oauth.get("/device", async (c) => {
  const url = new URL(c.req.url);
  const place = placeOf(url);
  const session = await readVisitor(c, place.app === NONE ? undefined : place);
  const typed = c.req.query("user_code")?.slice(0, 40) ?? "";
  if (!session) return place.app === NONE ? page(c, NO_PLACE, askHere) : c.redirect(loginTo(url, place));
  const db = openDb(c, session, "self");
  try {
    if (!typed) {
      await db.enter();
      return page(c, "Sign in on a device", typeCode());
    }
    const waiting = await readDevice(c, db, session, typed);
    if (!waiting) return page(c, "Sign in on a device", typeCode(typed), { status: 400 });
    const code = showUserCode(readUserCode(typed)!);
    const body = html`<p><strong>${waiting.client_name}</strong> asks to act as you, on a device that shows
<strong>${code}</strong>. Go on only if you have it before you.</p>
<h2>It could</h2>${scopeList(waiting.scopes)}
<form method="post" action="/device">${await formField(c.env.ROOT_SECRETS, formOf(session, `device ${code}`))}
<input type="hidden" name="user_code" value="${code}">${buttons}</form>`;
    return page(c, `Let ${waiting.client_name} in?`, body);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    return c.redirect(loginTo(url, session));
  }
});

oauth.post("/device", async (c) => {
  const session = await readVisitor(c);
  if (!session) return page(c, NO_PLACE, askHere, { status: 401 });
  const { decision, user_code } = await readForm(c, session, ({ user_code }) => `device ${user_code}`);
  const done = await readDevice(c, openDb(c, session, "self"), session, user_code ?? "", decision);
  if (!done) return page(c, "Sign in on a device", typeCode(user_code), { status: 400 });
  const title = decision === "approved" ? "You let it in" : "You didn't let it in";
  return page(c, title, html`<p>You can close this page. ${done.client_name} goes on by itself.</p>`);
});

const NO_PLACE = "Not signed in";
const askHere = html`<p>Open the whole address that your device shows: it says where you sign in.</p>`;
const typeCode = (wrong?: string): Html => html`<form action="/device">
${wrong === undefined ? "" : html`<p role="alert">Nothing waits under this code. It may be over, or decided.</p>`}
<label for="user_code">The code that your device shows</label>
<input class="code" id="user_code" name="user_code" required maxlength="12" autocomplete="off" autocapitalize="characters">
<button>Go on</button></form>`;

export default oauth;
