/**
 * Whether what a stranger names may be reached: by a script, a tool, or as a model's base URL. Only names and addresses of the public internet, in their plain spelling:
 * everything that a resolver or a lenient parser might take to somewhere inside is refused.
 *
 * A name that resolves to a private address cannot be told from here: a Worker never sees what a name resolves to. The
 * fetch itself must refuse it: on Cloudflare it leaves from outside of any private network, locally by a binding that
 * connects to public addresses alone (lib/local/runtime.ts).
 *
 * Any port may be named.
 */
export type Verdict = { url: URL } | { refused: string };

const MAX_URL = 8192;

/** Not names of the public DNS, or names that lead inside by definition. */
const INSIDE = new Set(
  "localhost local localdomain internal intranet private corp home lan arpa onion alt consul cluster svc".split(" "),
);
/** Public names that answer with whatever address stands in them, so that they lead anywhere. */
const ANYWHERE = ["nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "traefik.me"];

/** IPv4 that is not the public internet: IANA's special-purpose registry, with multicast. */
const PRIVATE_V4: [base: string, bits: number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

/** Within 2000::/3, the global addresses, those that are not: Teredo and its neighbours, 6to4, documentation. */
const PRIVATE_V6: [base: number[], bits: number][] = [
  [[0x2001, 0], 23],
  [[0x2001, 0xdb8], 32],
  [[0x2002, 0], 16],
  [[0x3fff, 0], 20],
  [[0x2620, 0x4f], 32],
];

/**
 * Judges one address, before every request and every redirect. `refused` is a sentence for people. `loopback` opens this
 * machine, by http: for development and tests.
 */
export function judgeUrl(text: string, { loopback = false } = {}): Verdict {
  if (text.length > MAX_URL) return { refused: `the address is longer than ${MAX_URL} characters` };
  // Parsers drop or change these without a word, so that two of them may read two addresses.
  if (/[\p{Cc} \\]/u.test(text)) return { refused: "the address contains blanks, control signs or backslashes" };
  const written = /^(https?):\/\/([^/?#]+)/i.exec(text);
  if (!written || !URL.canParse(text)) return { refused: "the address is not an http or https URL" };
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return { refused: "the address is not an http or https URL" };
  const authority = written[2]!;
  if (authority.includes("@")) return { refused: "the address contains a user name or password" };
  if (authority.includes("%")) return { refused: "the host is written with percent signs" };
  if (loopback && url.protocol === "http:" && isLoopback(url.hostname)) return { url };
  const reason = judgeHost(url.hostname, authority.replace(/:\d*$/, ""));
  return reason ? { refused: reason } : { url };
}

/** Whether the host of a URL is this machine, by its name or one of its addresses. */
export const isLoopback = (host: string) => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(host);

function judgeHost(host: string, written: string): string | null {
  const v4 = parseV4(host);
  if (v4 !== null) {
    // 127.1, 0x7f000001 and the like: nobody writes a public address so.
    if (written !== host) return "the host is an IP address in an unusual spelling";
    const inside = PRIVATE_V4.some(([base, bits]) => v4 >>> (32 - bits) === parseV4(base)! >>> (32 - bits));
    return inside ? "the host is a private or reserved address" : null;
  }
  if (host.startsWith("[")) return isGlobalV6(host.slice(1, -1)) ? null : "the host is a private or reserved address";
  const labels = host.split(".");
  if (labels.length < 2) return "the host is not a public name";
  if (labels.some((label) => label === "" || label.length > 63) || host.length > 253) return "the host is not a name";
  if (!/^[a-z0-9._-]+$/.test(host)) return "the host is not a name";
  if (INSIDE.has(labels.at(-1)!)) return "the host is not a public name";
  if (/^(0x[0-9a-f]*|\d+)$/.test(labels.at(-1)!)) return "the host is not a name";
  if (ANYWHERE.some((name) => host === name || host.endsWith(`.${name}`))) return "the host leads anywhere";
  return null;
}

/** The number of an address in four decimal parts, as `URL` writes them, or null. */
function parseV4(host: string): number | null {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(host)?.slice(1).map(Number);
  return parts ? parts.reduce((sum, part) => (sum * 256 + part) >>> 0, 0) : null;
}

/**
 * Of IPv6 only global unicast is the internet; mapped, translated and local addresses all lie outside of it. The first
 * two words decide, of which `URL` may have written nothing for zero.
 */
function isGlobalV6(host: string): boolean {
  const top = numberOf(host.split(":").map((word) => Number.parseInt(word || "0", 16)));
  if (top >>> 29 !== 1) return false;
  return !PRIVATE_V6.some(([words, bits]) => top >>> (32 - bits) === numberOf(words) >>> (32 - bits));
}

const numberOf = ([first = 0, second = 0]: number[]) => ((first << 16) | second) >>> 0;
