/** How a Worker asks a session's object: what it refuses, and that it can't be reached, are answers of the API. */
import type { Credential } from "../auth/allow.ts";
import { ApiError, notFound, unavailable } from "../errors.ts";
import type { Refused, Sender } from "./remote.ts";

/** Who speaks: a person, or the app with its secret key. */
export const senderOf = (credential: Credential): Sender =>
  credential.kind === "user" ? { type: "user", id: credential.user } : { type: "app", id: null };

/** What the object answers. 503 where it is out of reach. */
export const reached = <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error) => {
    throw unavailable(error);
  });

/** What came of a change, unless the object refused it. */
export async function changed<V extends object>(answer: Promise<V | Refused>): Promise<V> {
  const view = await reached(answer);
  if (!("refused" in view)) return view;
  const { status, code, message } = (view as Refused).refused;
  throw status === 404 ? notFound("tool_call") : new ApiError(status, code, message);
}
