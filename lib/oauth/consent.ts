/** A person lets a client act, in a browser: what is asked, whether it may be asked, and the code that says yes. */
import { type Asked, newOneTime, openDb, readPageSession } from "../auth/allow.ts";
import type { Session } from "../auth/sessions.ts";
import { listOf } from "../env.ts";
import { ApiError } from "../errors.ts";
import { isRegistered, redirectTo } from "../oauth-clients/redirects.ts";
import { type ClientName, parseClientId } from "../oauth-clients/schema.ts";
import type { UserRow } from "../users/schema.ts";
import { type Client, CODE, enteringClient, hashOfCode, openClient } from "./doors.ts";
import { type Authorize, authorizeQuery, CODE_S, invalidScope, readScopes } from "./schema.ts";
import { invalidRequest, read, readParameters, refusal } from "./wire.ts";

/** A person's browser: who it is signed in as, and its row. */
export type Visitor = Session & { row: UserRow };

/** The browser's session where it is of this place. That it lives, only a trip says. */
export async function readVisitor(c: Asked, place?: { app: string; sandbox: string }) {
  const credential = await readPageSession(c);
  const isHere = credential && (!place || (credential.app === place.app && credential.sandbox === place.sandbox));
  return isHere ? credential : null;
}

/** Where a person signs in who then comes back here. */
export const loginTo = (url: URL, { app, sandbox }: { app: string; sandbox: string }) => {
  const page = sandbox === "-" ? `/login/${app}` : `/login/${app}/${sandbox}`;
  return `${page}?${new URLSearchParams({ return_to: url.pathname + url.search })}`;
};

/** What `/oauth/authorize` is asked. `scopes` null: all that the client may have. */
export type Asking = {
  client: Client;
  redirect_uri: string;
  visitor: Visitor | null;
  state: string | null;
} & ({ refused: ApiError } | { refused: null; scopes: string[]; said: Authorize });

const UNKNOWN = refusal(
  "invalid_client",
  "This link names no program that is known here, or an address that isn't its own. Nothing was shared with anybody.",
);

/**
 * Reads what is asked, by whom and for whom. Throws, and so nobody is sent anywhere, where the client or the address isn't
 * known; what else is wrong is `refused`, and told to the client. `allows`: whether a code is made meanwhile, which is worth
 * nothing until it is told.
 */
export async function readAsking(c: Asked, url: URL, allows = false): Promise<Asking & { code: string | null }> {
  const query = readParameters(url.searchParams);
  const name = parseClientId(query.client_id ?? "");
  const { redirect_uri } = query;
  if (!name || redirect_uri === undefined) throw UNKNOWN;
  const state = query.state === undefined || query.state.length > 1000 ? null : query.state;
  const wanted = readWanted(query);
  const made = allows && !("refused" in wanted) ? { ...wanted, client_id: query.client_id!, redirect_uri } : null;
  const { client, visitor, code } = await lookUp(c, name, made);
  if (!client || !isRegistered(client.redirect_uris, redirect_uri)) throw UNKNOWN;
  const known = { client, redirect_uri, visitor, state, code };
  if ("refused" in wanted) return { ...known, refused: wanted.refused };
  const scopes = wanted.scopes ?? client.scopes;
  const refused = !client.enabled
    ? refusal("unauthorized_client", "This app lets no OAuth client ask for access.")
    : scopes.every((scope) => client.scopes.includes(scope))
      ? null
      : invalidScope();
  return refused ? { ...known, refused } : { ...known, refused, scopes, said: wanted.said };
}

type Wanted = { said: Authorize; scopes: string[] | null };

function readWanted(query: Record<string, string>): Wanted | { refused: ApiError } {
  try {
    if (query.response_type !== undefined && query.response_type !== "code") {
      throw refusal("unsupported_response_type", "This gives codes.");
    }
    const said = read(authorizeQuery, query);
    return { said, scopes: readScopes(said.scope) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { refused: error.status === 422 ? invalidRequest("A parameter is not of the right form.") : error };
  }
}

type Made = Wanted & { client_id: string; redirect_uri: string };

/** The client and who asks, in one trip; in a second, where the session has ended meanwhile. */
async function lookUp(c: Asked, name: ClientName, made: Made | null) {
  const session = await readVisitor(c, name);
  if (session) {
    const db = openDb(c, session, "self");
    const person = db.selectFrom("users").where("users.id", "=", session.user);
    const code = made?.scopes ? await newCode(session, name, made) : null;
    try {
      const found = await db.batch({
        person: person.selectAll(),
        ...(code && { code: db.insertUnder(person, "one_time_secrets", code.row) }),
        client: await enteringClient(c, name),
      });
      const visitor = { ...session, row: found.person[0] as UserRow };
      return { client: found.client[0]!.client, visitor, code: code?.token ?? null };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
    }
  }
  const { db, client } = await openClient(c, name);
  await db.enter();
  return { client: client(), visitor: null, code: null };
}

/** A code, and the row that keeps what it is good for. */
async function newCode(session: Session, { client }: ClientName, { said, scopes, client_id, redirect_uri }: Made) {
  const { token, row } = await newOneTime(session, CODE, {
    ...{ user: session.user, payload: { client, scopes }, seconds: CODE_S },
  });
  const hash = await hashOfCode(token, { client_id, redirect_uri, code_challenge: said.code_challenge });
  return { token, row: { ...row, hash } };
}

/** Where the browser is sent with an answer: `iss` tells the client whose it is (RFC 9207). */
export const answerTo = (
  c: Asked,
  { redirect_uri, state }: Pick<Asking, "redirect_uri" | "state">,
  said: { code: string } | { error: string; error_description: string },
) => redirectTo(redirect_uri, { ...said, state, iss: listOf(c.env.ISSUERS)[0]! });
