/** Where an authorization may send a browser back to. Pure. */

/** A program on the person's own machine, whose port is another each time (RFC 8252 §7.3). */
const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::\d{1,5})?(?=[/?]|$)/;
/** A scheme of a program's own (RFC 8252 §7.1): a domain read backwards, so that none is `javascript` or `data`. */
const PRIVATE = /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:\//;

/** Whether a client may register it: no fragment, no name and password, nothing that a parser would take away. */
export function isRedirect(uri: string): boolean {
  if (!/^[\x21-\x7e]+$/.test(uri) || uri.includes("#") || uri.includes("\\") || !URL.canParse(uri)) return false;
  const { protocol, username, password } = new URL(uri);
  if (username || password) return false;
  return protocol === "https:" || LOOPBACK.test(uri) || PRIVATE.test(uri);
}

const portless = (uri: string) => uri.replace(LOOPBACK, "$1");

/**
 * Whether what is asked for is registered: letter by letter (RFC 9700 §4.1.3), but for the port on a loopback address.
 */
export const isRegistered = (registered: readonly string[], uri: string): boolean =>
  registered.includes(uri) ||
  (LOOPBACK.test(uri) &&
    isRedirect(uri) &&
    registered.some((one) => LOOPBACK.test(one) && portless(one) === portless(uri)));

/** The address with these added to its query; what is null is left out. */
export function redirectTo(uri: string, said: Record<string, string | null>): string {
  const query = new URLSearchParams(Object.entries(said).filter((one): one is [string, string] => one[1] !== null));
  return `${uri}${uri.includes("?") ? "&" : "?"}${query}`;
}
