/** Names of time zones. Apart from the clocks, which bring a calendar with them. */
import * as v from "valibot";
import { text } from "../http/valid.ts";

/** Whether it is the name of a time zone of the IANA database. */
export function isTimeZone(name: string): boolean {
  if (name.length > 64 || !/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

export const timeZone = v.pipe(
  text(64),
  v.check(isTimeZone, "must be a time zone of the IANA database, as Europe/Berlin"),
);
