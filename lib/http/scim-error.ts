/** Errors as RFC 7644 §3.12 has them, for whoever asks under /scim. Pure. */
import * as v from "valibot";
import { ApiError } from "../errors.ts";

export const SCIM_TYPE = "application/scim+json";
const SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error";
const scimTypes = ["invalidFilter", "invalidPath", "invalidSyntax", "invalidValue", "noTarget", "uniqueness"] as const;
export type ScimType = (typeof scimTypes)[number];

export const scimError = v.strictObject({
  schemas: v.array(v.literal(SCHEMA)),
  status: v.string(),
  scimType: v.optional(v.picklist(scimTypes)),
  detail: v.string(),
});

/** 400 of a request that can't be what a provider means; never with a value that was sent. */
export const badScim = (type: ScimType, detail: string) => new ApiError(400, type, detail);

/** A refusal of ours as one of SCIM's: what others hear as a 422 is a 400 here, and says in words which fields. */
export function toScimError({ status, code, message, fields, headers }: ApiError): Response {
  const faults = fields.map(({ field, message }) => `${field || "The body"} ${message}.`);
  const error: v.InferOutput<typeof scimError> = {
    schemas: [SCHEMA],
    status: String(status === 422 ? 400 : status),
    ...typed(status, code),
    detail: faults.join(" ") || message,
  };
  return new Response(JSON.stringify(error), {
    status: Number(error.status),
    headers: { ...headers, "Content-Type": SCIM_TYPE },
  });
}

function typed(status: number, code: string): { scimType?: ScimType } {
  const own = scimTypes.find((type) => type === code);
  if (own) return { scimType: own };
  if (code === "malformed_json") return { scimType: "invalidSyntax" };
  if (status === 409) return { scimType: "uniqueness" };
  return status === 422 ? { scimType: "invalidValue" } : {};
}
