import * as v from "valibot";
import { text } from "../http/valid.ts";

export const developerEmail = v.pipe(text(254), v.rfcEmail("must be an e-mail address"));

/** The forms of the developers' pages: an address first, and then what was mailed to it. */
const form = v.pipe(v.string(), v.maxLength(100));
export const developerForm = v.strictObject({ form, email: developerEmail, code: v.optional(text(40)) });
export const endDeveloperForm = v.strictObject({ form });
