import { openDb, readPageSession } from "../../lib/auth/allow.ts";
import { mustBeSameOrigin } from "../../lib/auth/sessions.ts";
import { connect } from "../../lib/db/neon.ts";
import { ApiError } from "../../lib/errors.ts";
import { router } from "../../lib/http/router.ts";
import { validForm } from "../../lib/http/valid.ts";
import { acceptInvitation, type ShownInvitation, showingInvitation } from "../../lib/invitations/queries.ts";
import { acceptForm } from "../../lib/invitations/schema.ts";
import { errorPage, formField, type Html, html, mustBeOurForm, page } from "../../lib/pages/page.ts";
import { readingUser } from "../../lib/users/queries.ts";
import { homeOf, letIn, type Page, pathOf } from "./home.ts";

/** Where somebody sees what a mailed invitation is, and accepts it: its key was mailed to the address that it is for. */
const invitations = router();
invitations.onError(errorPage);

const pathWith = (key: string) => `/invitation?${new URLSearchParams({ key })}`;

/** What a key is for, and who is signed in in this browser, in one trip: nobody, where that sign-in is over. */
async function look(c: Page, key: string) {
  const { app, sandbox, showing } = await showingInvitation(c, key);
  const credential = await readPageSession(c);
  if (credential?.app === app && credential.sandbox === sandbox) {
    try {
      const db = openDb(c, credential, "self");
      const { shown, user } = await db.batch({ shown: showing, user: readingUser(db, credential.user) });
      return { shown: shown[0]!.shown, person: { ...user[0]!, sign_in: credential.sign_in } };
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) throw error;
    }
  }
  const [answer] = await connect(c.env.DATABASE_URL, c.env.DATABASE)([showing.compile()], "read");
  return { shown: (answer!.rows[0] as { shown: ShownInvitation | null }).shown, person: null };
}
type Looked = Awaited<ReturnType<typeof look>>;

const isOver = (c: Page) =>
  page(
    c,
    "Invitation",
    html`<p role="alert">This invitation was accepted, was taken back, or has expired. Whoever invited you can send another one.</p>`,
    { status: 404 },
  );

/** A mail scanner follows links, too: looking at one uses up nothing. */
invitations.get("/invitation", async (c) => {
  const key = (c.req.query("key") ?? "").slice(0, 200);
  const { shown, person } = await look(c, key);
  if (!shown) return isOver(c);
  const by = shown.inviter === null ? "You are invited" : `${shown.inviter} invites you`;
  return page(c, `Join ${shown.org_name}`, [
    html`<p>${by} to ${shown.org_name} at ${shown.app_name}, as ${shown.role}. This is for ${shown.email}.</p>`,
    person ? await forPerson(c, shown, person, key) : await forVisitor(c, key),
  ]);
});

const forVisitor = async (c: Page, key: string) =>
  html`<form method="post" action="/invitation">${await formField(c.env.ROOT_SECRETS, "invitation")}
<input type="hidden" name="key" value="${key}">
<p>Press the button to accept, and to sign in.</p><button>Accept</button></form>`;

/** An account is of one org for good: whoever is signed in has theirs already, or is somebody else. */
async function forPerson(
  c: Page,
  { email, org, org_name }: ShownInvitation,
  person: NonNullable<Looked["person"]>,
  key: string,
): Promise<Html> {
  const home = homeOf(person);
  if (person.email?.toLowerCase() === email.toLowerCase()) {
    return person.org_id === org
      ? html`<p><a href="${home}">You are in ${org_name} already</a></p>`
      : html`<p role="alert">This address is of ${person.org_name} already, and no address is of two organizations. Ask to be invited by another one.</p>`;
  }
  return html`<p role="alert">You are signed in as ${person.email ?? person.name ?? person.id}. Sign out first, to accept what is for somebody else.</p>
<form method="post" action="/logout">${await formField(c.env.ROOT_SECRETS, person.sign_in)}
<input type="hidden" name="return_to" value="${pathWith(key)}"><button>Sign out</button></form>`;
}

invitations.post("/invitation", validForm(acceptForm), async (c) => {
  mustBeSameOrigin(c);
  const { form, key } = c.req.valid("form");
  await mustBeOurForm(c.env.ROOT_SECRETS, "invitation", form);
  const { app, sandbox, org } = await showingInvitation(c, key);
  try {
    const entered = await acceptInvitation(c, key, { carrier: "browser", user_agent: c.req.header("User-Agent") });
    if (entered) return await letIn(c, entered);
    // A form of ours may lead nowhere else, so a page does.
    const leadsTo = `/sso/${app}/${sandbox}/${org}/start`;
    const body = html`<p>You are in. <a href="${leadsTo}">Go on to your organization's sign-in</a></p>`;
    return page(c, "Sign in", body, { leadsTo });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) return isOver(c);
    if (error.status !== 409) throw error;
    return page(
      c,
      "You have an account",
      html`<p role="alert">This address has an account already.</p><p><a href="${pathOf({ app, sandbox, slug: "" })}">Sign in</a></p>`,
      error,
    );
  }
});

export default invitations;
