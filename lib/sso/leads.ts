import { problemResponse, withSpec } from "../http/spec.ts";

/** What such a route answers: a redirect, or its own content; a page where nobody is signed in. */
export const leads = (type?: string) =>
  withSpec((async (_: unknown, next: () => Promise<void>) => next()) as never, {
    responses: {
      ...(type
        ? { 200: { description: "OK", content: { [type]: { schema: { type: "string" } } } } }
        : { 303: { description: "See Other" } }),
      400: {
        description: "A page that says that it came to nothing",
        content: { "text/html": { schema: { type: "string" } } },
      },
      403: problemResponse("The org is suspended"),
      404: problemResponse("The org has no SSO"),
    },
  });
