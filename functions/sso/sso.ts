import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import * as v from "valibot";
import { openOnce, openSso, readPageSession, type SsoPlace } from "../../lib/auth/allow.ts";
import { readPlaceToken } from "../../lib/auth/place-tokens.ts";
import { giveSession, mustBeSameOrigin, takeSession } from "../../lib/auth/sessions.ts";
import { loginPath } from "../../lib/auth/visitors.ts";
import { NONE } from "../../lib/db/schema.ts";
import type { TenantDb } from "../../lib/db/tenant-db.ts";
import { notFound } from "../../lib/errors.ts";
import { wakeDispatcher } from "../../lib/events/remote.ts";
import { readBody } from "../../lib/http/body.ts";
import { type Env, router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { isId } from "../../lib/ids.ts";
import { errorPage, html, mustBeOurForm, OWN_PATH, page } from "../../lib/pages/page.ts";
import { signIn } from "../../lib/sign-ins/queries.ts";
import { heard, leads } from "../../lib/sso/leads.ts";
import {
  begin,
  FINISH,
  lifetimeOf,
  note,
  type Outcome,
  type Parked,
  readConnection,
  spKeys,
  takeCallback,
  takeResponse,
} from "../../lib/sso/login.ts";
import { leave, takeBackchannel, takeLogout } from "../../lib/sso/logout.ts";
import { spMetadata } from "../../lib/sso/saml/metadata.ts";
import { Refused } from "../../lib/sso/saml/refused.ts";
import { addressesOf, url } from "../../lib/sso/schema.ts";
import { loginToken } from "../../lib/tokens/login-token.ts";

const sso = router();
// People come by these; a provider's program looks at the status.
sso.onError(errorPage);
const COOKIE = "agentry-sso";
const OF_COOKIE = { prefix: "host", secure: true, path: "/", httpOnly: true, sameSite: "Lax", maxAge: 600 } as const;

type Asked = Context<Env, "/sso/:app/:sandbox/:org/any">;
/** The org that an address names. A malformed one is absent. */
function placeOf(c: Asked): SsoPlace {
  const { app, sandbox, org } = c.req.param();
  if (!isId("app", app) || !isId("org", org)) throw notFound("sso");
  if (sandbox !== NONE && !isId("sandbox", sandbox)) throw notFound("sso");
  return { app, sandbox, org } as SsoPlace;
}
const open = (c: Asked) => openSso(c, placeOf(c));

/** What the SP publishes: with it a provider is set up. */
sso.get(
  "/sso/:app/:sandbox/:org/metadata",
  named("Read an org's SAML metadata"),
  leads("application/samlmetadata+xml"),
  async (c) => {
    const row = await readConnection(await open(c));
    return c.body(spMetadata(addressesOf(c.env, row), spKeys(c.env)), 200, {
      "Content-Type": "application/samlmetadata+xml",
    });
  },
);

/** Sends the browser to the provider. */
sso.get("/sso/:app/:sandbox/:org/start", named("Sign in by an org's SSO"), leads(), async (c) => {
  const place = placeOf(c);
  const { return_to = null, redirect_uri = null } = c.req.query();
  if (return_to !== null && !OWN_PATH.test(return_to)) return refused(c, "return_to");
  if (redirect_uri !== null && !v.is(url, redirect_uri)) return refused(c, "redirect_uri");
  const session = await readPageSession(c);
  const own = session?.org === place.org ? session : null;
  try {
    const { location, cookie } = await begin(await openSso(c, place), c.env, {
      ...{ place, session: own },
      to: { return_to, redirect_uri },
    });
    setCookie(c, COOKIE, cookie, OF_COOKIE);
    return c.redirect(location, 303);
  } catch (error) {
    if (error instanceof Refused) return refused(c, "start");
    throw error;
  }
});

/** Where a SAML provider has the browser post its response. No cookie comes along: that this browser asked, `finish` sees. */
sso.post("/sso/:app/:sandbox/:org/acs", named("Take a SAML response"), leads(), async (c) => {
  const db = await open(c);
  const form = await readForm(c, db);
  return goOn(c, await takeResponse(db, c.env, form.get("SAMLResponse") ?? ""));
});

/** Where an OIDC provider sends the browser back to. */
sso.get("/sso/:app/:sandbox/:org/callback", named("Take an OIDC answer"), leads(), async (c) =>
  goOn(c, await takeCallback(await open(c), c.env, new URL(c.req.url))),
);

/**
 * Signs in the browser that began; or, where an address of the app's was named, sends it there with a login token. Two round
 * trips: who it is, and until when, is known by what was parked.
 */
sso.get("/sso/:app/:sandbox/:org/finish", named("Finish an SSO login"), leads(), async (c) => {
  const place = placeOf(c);
  const cookie = getCookie(c, COOKIE, "host") ?? "";
  const { app, sandbox, org } = await readPlaceToken(FINISH.prefix, cookie);
  if (app !== place.app || sandbox !== place.sandbox || org !== place.org) return refused(c, "finish");
  const { db, payload } = await openOnce(c, FINISH, cookie);
  await db.enter();
  const parked = payload() as Parked | null;
  if (!parked) return refused(c, "finish");
  const at = await openSso(c, place);
  const { method, details, user } = parked;
  const max_s = lifetimeOf(parked, new Date());
  deleteCookie(c, COOKIE, OF_COOKIE);
  if (parked.redirect_uri) {
    const { kept, read } = await loginToken(at, user, { method, auth_time: true, details, max_s });
    const made = read((await at.batch({ kept })).kept);
    return made ? c.redirect(withToken(parked.redirect_uri, made.token), 303) : refused(c, "finish");
  }
  const user_agent = c.req.header("User-Agent");
  const { statements, read } = signIn(at, user, { method, carrier: "browser", user_agent, details, max_s });
  const signedIn = read(await at.batch(statements));
  if (!signedIn) return refused(c, "finish");
  const { sign_in } = signedIn;
  await giveSession(c, c.env.ROOT_SECRETS, { ...place, user, sign_in: sign_in.id }, sign_in.ends_at);
  return c.redirect(parked.return_to ?? loginPath(place, signedIn.user.org_slug!), 303);
});

/** Where a SAML provider sends logout messages, by either binding. */
sso.get("/sso/:app/:sandbox/:org/slo", named("Take a SAML logout by redirect"), leads(), async (c) =>
  loggedOut(c, await open(c), { query: new URL(c.req.url).search.slice(1) }),
);
sso.post("/sso/:app/:sandbox/:org/slo", named("Take a SAML logout by form"), leads(), async (c) => {
  const db = await open(c);
  return loggedOut(c, db, { form: await readForm(c, db) });
});

/** Ends this browser's sign-in, and then tells the provider. A page leads there: forms of ours may lead nowhere else. */
sso.post("/sso/:app/:sandbox/:org/logout", named("Sign out of an org's SSO"), leads("text/html", true), async (c) => {
  mustBeSameOrigin(c);
  const place = placeOf(c);
  const session = await readPageSession(c);
  if (session?.org !== place.org) return refused(c, "logout");
  const db = await openSso(c, place);
  const form = await readForm(c, db);
  await mustBeOurForm(c.env.ROOT_SECRETS, session.sign_in, form.get("form") ?? "");
  const { location, slug } = await leave(db, c.env, session);
  takeSession(c);
  // The org's own page, which doesn't start SSO by itself.
  return location === null ? c.redirect(loginPath(place, slug), 303) : signedOut(c, location);
});

/** Where a provider sends the browser back to that has signed out there: to the org's own page. It ends nothing. */
sso.get("/sso/:app/:sandbox/:org/logout", named("Come back from an org's SSO"), leads(), async (c) => {
  const [org] = await (await open(c)).selectFrom("orgs").select("slug").execute();
  return c.redirect(loginPath(placeOf(c), org!.slug), 303);
});

/** Where an OIDC provider tells, past the browser, that somebody has signed out there. */
sso.post("/sso/:app/:sandbox/:org/backchannel", named("Take an OIDC logout"), heard, async (c) => {
  const db = await open(c);
  const token = (await readForm(c, db)).get("logout_token") ?? "";
  const row = await readConnection(db);
  c.header("Cache-Control", "no-store");
  try {
    await takeBackchannel(db, c.env, row, token);
    return c.body(null, 200);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const error_description = `The reason is written down as ${await note(db, row, error)}.`;
    return c.json({ error: "invalid_request", error_description }, 400);
  }
});

async function loggedOut(c: Context, db: TenantDb, sent: Parameters<typeof takeLogout>[3]) {
  const row = await readConnection(db);
  try {
    return c.redirect((await takeLogout(db, c.env, row, sent)) ?? "logout", 303);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return refused(c, await note(db, row, error));
  }
}

/** A form that a provider has the browser post. A large one is read for an org that has SSO alone. */
async function readForm(c: Context, db: TenantDb): Promise<URLSearchParams> {
  c.set("db", db);
  return new URLSearchParams(new TextDecoder().decode(await readBody(c)));
}

function goOn(c: Asked, outcome: Outcome) {
  if (!("location" in outcome)) return refused(c, outcome.refused);
  // Somebody may be new here.
  const { app: app_id, sandbox: sandbox_id, org: org_id } = placeOf(c);
  c.executionCtx.waitUntil(wakeDispatcher(c.env, { app_id, sandbox_id, org_id }));
  return c.redirect(outcome.location, 303);
}

/** One page for whatever was wrong: its reference leads an admin to the sentence that says it. */
function refused(c: Context, reference: string) {
  return page(
    c,
    "You could not be signed in",
    html`<p>Ask an admin of your organization, who finds the reason by this reference: ${reference}</p>`,
    { status: 400 },
  );
}

function withToken(redirect_uri: string, token: string): string {
  const url = new URL(redirect_uri);
  url.searchParams.set("token", token);
  return url.href;
}

const signedOut = (c: Context, leadsTo: string) =>
  page(c, "You are signed out", html`<p><a href="${leadsTo}">Go on to your provider</a></p>`, { leadsTo });

export default sso;
