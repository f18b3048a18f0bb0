/** How SCIM is spoken: who is let in, what is read, and what is answered, on a route's line. */
import { createMiddleware } from "hono/factory";
import type * as v from "valibot";
import { openScim } from "../auth/allow.ts";
import type { TenantDb } from "../db/tenant-db.ts";
import { listOf } from "../env.ts";
import type { Env } from "../http/router.ts";
import { SCIM_TYPE, scimError } from "../http/scim-error.ts";
import { withSpec } from "../http/spec.ts";
import { STATUS_CODES } from "../http/status.ts";
import { isMap, MAX_PLAIN_BYTES, MAX_VALUES, mustBeStorable, readJson } from "../http/valid.ts";

type Spoken = { Bindings: Env["Bindings"]; Variables: Env["Variables"] & { db: TenantDb; base: string } };
const fault = (description: string) => ({ description, content: { [SCIM_TYPE]: { schema: scimError as never } } });
const faults = {
  400: fault("It can't be what was meant: a filter, a path or a value"),
  401: fault("No SCIM token, or one that is wrong or was deleted"),
  403: fault("The org is suspended"),
  404: fault("Absent, or not for the caller: the two are one answer"),
  409: fault("A userName, a name or an address is taken"),
  413: fault("The body is over 8,000,000 bytes"),
  415: fault("The body is not JSON"),
  503: fault("The database is out of reach for a moment"),
};

/** Lets an org's provider in by its SCIM token, to the org alone: `c.var.db`. `c.var.base`: what its addresses begin with. */
export const allowScim = () =>
  withSpec(
    createMiddleware<Spoken>(async (c, next) => {
      c.set("base", listOf(c.env.ISSUERS)[0]!);
      await openScim(c, async (db) => {
        c.set("db", db);
        await next();
        return c.error;
      });
    }),
    { security: [{ scim_token: [] }], responses: faults },
  );

/** The body as `read` understands it: `c.var.body`. It counts its values as every other body, and costs linear time. */
export const scimBody = <B>(read: (body: unknown) => B) =>
  withSpec(
    createMiddleware<{ Variables: { body: B } }>(async (c, next) => {
      const body = await readJson(c, { values: MAX_VALUES, bytes: MAX_PLAIN_BYTES });
      if (isMap(body)) mustBeStorable(body);
      c.set("body", read(body));
      await next();
    }),
    { requestBody: { required: true, content: { [SCIM_TYPE]: { schema: { type: "object" } } } } },
  );

/** What the route answers when all is well, as `gives` says it of others. */
export const givesScim = <V extends v.GenericSchema>(status: 200 | 201, view: V) =>
  withSpec(
    createMiddleware<{ Variables: { answer: (body: v.InferOutput<V>) => Response } }>(async (c, next) => {
      c.set("answer", (body) => c.body(JSON.stringify(body), status, { "Content-Type": SCIM_TYPE }));
      await next();
    }),
    {
      responses: {
        [status]: { description: STATUS_CODES[status]!, content: { [SCIM_TYPE]: { schema: view as never } } },
      },
    },
  );
