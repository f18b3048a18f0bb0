import { withSpec } from "../http/spec.ts";

const aPage = (description: string) => ({
  description,
  content: { "text/html": { schema: { type: "string" as const } } },
});

/** What such a route answers: a redirect, or its own content, or either; a page where it came to nothing. */
export const leads = (type?: string, redirects = type === undefined) =>
  withSpec((async (_: unknown, next: () => Promise<void>) => next()) as never, {
    responses: {
      ...(type && { 200: { description: "OK", content: { [type]: { schema: { type: "string" } } } } }),
      ...(redirects && { 303: { description: "See Other" } }),
      400: aPage("A page that says that it came to nothing"),
      403: aPage("A page: the org is suspended"),
      404: aPage("A page: the org has no SSO"),
    },
  });

/** What a provider is answered who tells of a logout past the browser (OpenID Connect Back-Channel Logout 1.0). */
export const heard = withSpec((async (_: unknown, next: () => Promise<void>) => next()) as never, {
  responses: {
    200: { description: "The sign-ins that it names have ended" },
    400: {
      description: "The logout token doesn't hold, or came before",
      content: {
        "application/json": {
          schema: {
            type: "object",
            properties: { error: { type: "string" }, error_description: { type: "string" } },
            required: ["error", "error_description"],
            additionalProperties: false,
          },
        },
      },
    },
    403: aPage("A page: the org is suspended"),
    404: aPage("A page: the org has no SSO"),
  },
});
