/** Secrets out of what is written down or shown: wherever a secret's value stands, in one of its usual spellings. */

/** Shorter ones stay: too much would be one by chance. */
const SHORTEST = 8;
/** A longer value is known by so many of its first characters, and masked as far as it goes: where it was cut, too. */
const KNOWN_BY = 64;
const MASK = "****";

/** A step towards a secret, by the code of the next character. */
type Node = {
  next: Map<number, Node>;
  /** A whole secret ends here. */
  ends: boolean;
  /** Secrets that begin as the way here says, and go on: spelled when somebody has come so far. */
  longer: (string | (() => string))[];
  spelled?: Set<string>;
};
const newNode = (): Node => ({ next: new Map(), ends: false, longer: [] });

/** Ways to spell a text, each of a text's beginning the beginning of what it is of the text. */
const spellings: ((text: string) => string)[] = [
  (text) => text,
  (text) => encodeURIComponent(text.toWellFormed()),
  (text) => new URLSearchParams([["", text]]).toString().slice(1),
  (text) => JSON.stringify(text).slice(1, -1),
  // As base64 it depends on how many bytes stand before it. At the ends are characters of its neighbours, too.
  ...[0, 1, 2].flatMap((before) => [
    (text: string) => base64(text, before),
    (text: string) => base64(text, before).replaceAll("+", "-").replaceAll("/", "_"),
  ]),
];

function base64(text: string, before: number): string {
  const bytes = new TextEncoder().encode(" ".repeat(before) + text);
  const whole = Math.floor((bytes.length * 8) / 6);
  let letters = "";
  for (let i = 0; i < bytes.length; i += 8190) letters += String.fromCharCode(...bytes.subarray(i, i + 8190));
  return btoa(letters).slice(Math.ceil((before * 8) / 6), whole);
}

/**
 * Takes these values out of texts, lists and objects, names of fields included: each of 8 characters or more becomes
 * `****`, also percent-encoded, escaped for JSON, or as base64. It costs linear time in what it is given, whatever the
 * values are.
 */
export function masker(values: Iterable<string>): <T>(value: T) => T {
  const root = newNode();
  for (const value of new Set(values)) {
    if (value.length < SHORTEST) continue;
    for (const spell of spellings) add(root, value, spell);
  }
  if (!root.next.size) return (value) => value;
  const mask = (value: unknown): unknown => {
    if (typeof value === "string") return maskText(root, value);
    if (Array.isArray(value)) return value.map(mask);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [maskText(root, name), mask(inner)]));
  };
  return (value) => mask(value) as never;
}

function add(root: Node, value: string, spell: (text: string) => string) {
  // Of a long value nothing but the beginning is spelled until somebody writes it.
  const isLong = value.length > 2 * KNOWN_BY;
  const spelled = spell(isLong ? value.slice(0, 2 * KNOWN_BY) : value);
  if (spelled.length < SHORTEST) return;
  let node = root;
  for (let i = 0; i < Math.min(spelled.length, KNOWN_BY); i++) {
    const code = spelled.charCodeAt(i);
    let next = node.next.get(code);
    if (!next) {
      next = newNode();
      node.next.set(code, next);
    }
    node = next;
  }
  if (spelled.length <= KNOWN_BY) node.ends = true;
  else node.longer.push(isLong ? () => spell(value) : spelled);
}

function maskText(root: Node, text: string): string {
  let masked = "";
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const length = root.next.has(text.charCodeAt(at)) ? secretAt(root, text, at) : 0;
    if (!length) {
      at++;
      continue;
    }
    masked += text.slice(from, at) + MASK;
    at += length;
    from = at;
  }
  return from ? masked + text.slice(from) : text;
}

/** How long the longest secret is that stands there; 0: none does. */
function secretAt(root: Node, text: string, at: number): number {
  let longest = 0;
  let node: Node | undefined = root;
  for (let i = at; node; i++) {
    if (node.ends) longest = i - at;
    for (const secret of spelledAt(node)) longest = Math.max(longest, shared(secret, text, at));
    node = node.next.get(text.charCodeAt(i));
  }
  return longest;
}

/** What many of a value's spellings come to is one text, and looked for once. */
function spelledAt(node: Node): Set<string> {
  if (node.longer.length && !node.spelled) {
    node.spelled = new Set([...node.longer].map((secret) => (typeof secret === "string" ? secret : secret())));
  }
  return node.spelled ?? NONE;
}
const NONE = new Set<string>();

/** For how many characters a text goes on as a secret does. */
function shared(secret: string, text: string, at: number): number {
  let length = 0;
  while (length < secret.length && secret.charCodeAt(length) === text.charCodeAt(at + length)) length++;
  return length;
}
