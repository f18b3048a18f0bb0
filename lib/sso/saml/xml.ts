/**
 * XML as SAML needs it, read strictly and in linear time. No DTD, no comment, no CDATA, no processing instruction: what
 * two readers could read differently is refused, not skipped. There is one tree: what is verified is what is read.
 */
import { Refused } from "./refused.ts";

export type Attribute = { prefix: string; local: string; ns: string; value: string };
export type Element = {
  prefix: string;
  local: string;
  ns: string;
  attributes: Attribute[];
  /** All that is declared here, by prefix ('' is the default); shared with the parent, where it declares the same. */
  scope: ReadonlyMap<string, string>;
  /** Neighbouring texts are one. */
  children: (Element | string)[];
  parent: Element | null;
};

export const MAX_BYTES = 256 * 1024;
const MAX_DEPTH = 40;
const MAX_ELEMENTS = 4000;
const MAX_ATTRIBUTES = 64;
/** Declared around one element: a scope is copied where it changes. */
const MAX_SCOPE = 64;

const XML_NS = "http://www.w3.org/XML/1998/namespace";
const XMLNS_NS = "http://www.w3.org/2000/xmlns/";

const DECLARATION =
  /^<\?xml[ \t\n]+version[ \t\n]*=[ \t\n]*["']1\.0["']([ \t\n]+encoding[ \t\n]*=[ \t\n]*["']utf-8["'])?([ \t\n]+standalone[ \t\n]*=[ \t\n]*["'](yes|no)["'])?[ \t\n]*\?>/i;
/** Names in ASCII: SAML has no others. */
const NAME = /(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)/y;
const BLANK = /[ \t\n]*/y;
const QUOTED = /"([^"<]*)"|'([^'<]*)'/y;
const TEXT = /[^<]*/y;
/** No XML character: of controls only tab and line ends, no half of a pair. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FOREIGN = /[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Cs}/u;
/** A namespace is an absolute URI, in ASCII: canonical XML is not defined for others (CVE-2025-66568). */
const ABSOLUTE = /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]*$/;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const malformed = (why: string) => new Refused(`The message is not XML as it is taken here: ${why}.`);

/** Reads a document of at most 256 KiB of UTF-8: its root element. Throws `Refused`. */
export function parseXml(bytes: Uint8Array): Element {
  if (bytes.length > MAX_BYTES) throw malformed(`it is larger than ${MAX_BYTES / 1024} KiB`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes).replace(/\r\n?/g, "\n");
  } catch {
    throw malformed("it is not UTF-8");
  }
  if (FOREIGN.test(text)) throw malformed("it has characters that XML does not allow");
  let at = DECLARATION.exec(text)?.[0].length ?? 0;

  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const expect = (sign: string) => {
    if (!text.startsWith(sign, at)) throw malformed(`at ${at} there is no ${sign}`);
    at += sign.length;
  };
  const named = () => {
    const [, prefix = "", local] = take(NAME) ?? [];
    if (!local) throw malformed(`at ${at} there is no name`);
    return { prefix, local };
  };

  const outermost: ReadonlyMap<string, string> = new Map([["xml", XML_NS]]);
  let elements = 0;
  /** A start tag, from behind its `<`. */
  const start = (parent: Element | null, depth: number): { element: Element; empty: boolean } => {
    if (++elements > MAX_ELEMENTS) throw malformed(`it has more than ${MAX_ELEMENTS} elements`);
    if (depth > MAX_DEPTH) throw malformed(`it is nested deeper than ${MAX_DEPTH}`);
    const { prefix, local } = named();
    const raw: { prefix: string; local: string; value: string }[] = [];
    let scope = parent?.scope ?? outermost;
    const declare = (of: string, uri: string) => {
      if (of === "xml" || of === "xmlns" || uri === XML_NS || uri === XMLNS_NS) throw malformed("it redeclares xml");
      if (uri === "" ? of !== "" : !ABSOLUTE.test(uri)) throw malformed("a namespace is not an absolute URI");
      const own = scope === (parent?.scope ?? outermost) ? new Map(scope) : (scope as Map<string, string>);
      scope = own.set(of, uri);
      if (own.size > MAX_SCOPE) throw malformed(`more than ${MAX_SCOPE} namespaces are declared`);
    };
    const seen = new Set<string>();
    for (;;) {
      const blank = take(BLANK)![0];
      if (text[at] === ">" || text[at] === "/") break;
      if (!blank) throw malformed(`at ${at} there is no blank before an attribute`);
      const name = named();
      take(BLANK);
      expect("=");
      take(BLANK);
      const quoted = take(QUOTED);
      if (!quoted) throw malformed(`at ${at} there is no value`);
      const value = unescapeText((quoted[1] ?? quoted[2]!).replace(/[\t\n]/g, " "));
      if (seen.size === MAX_ATTRIBUTES) throw malformed(`an element has more than ${MAX_ATTRIBUTES} attributes`);
      const whole = `${name.prefix}:${name.local}`;
      if (seen.has(whole)) throw malformed("an element has an attribute twice");
      seen.add(whole);
      if (name.prefix === "xmlns") declare(name.local, value);
      else if (whole === ":xmlns") declare("", value);
      else raw.push({ ...name, value });
    }
    const nsOf = (of: string) => {
      const ns = scope.get(of);
      if (ns === undefined && of !== "") throw malformed("a prefix is not declared");
      return ns ?? "";
    };
    const attributes = raw.map((one) => ({ ...one, ns: one.prefix === "" ? "" : nsOf(one.prefix) }));
    if (new Set(attributes.map((one) => `${one.ns} ${one.local}`)).size < attributes.length) {
      throw malformed("an element has an attribute twice");
    }
    const element: Element = { prefix, local, ns: nsOf(prefix), attributes, scope, children: [], parent };
    const empty = text[at] === "/";
    expect(empty ? "/>" : ">");
    return { element, empty };
  };

  take(BLANK);
  expect("<");
  const { element: root, empty } = start(null, 1);
  let open: Element | null = empty ? null : root;
  let depth = 1;
  while (open) {
    const chunk = take(TEXT)![0];
    if (chunk) {
      if (chunk.includes("]]>")) throw malformed("a text has ]]>");
      open.children.push(unescapeText(chunk));
    }
    expect("<");
    if (text[at] === "/") {
      at++;
      const { prefix, local } = named();
      if (prefix !== open.prefix || local !== open.local) throw malformed("an element is closed by another's name");
      take(BLANK);
      expect(">");
      open = open.parent;
      depth--;
    } else {
      const child: { element: Element; empty: boolean } = start(open, depth + 1);
      open.children.push(child.element);
      if (!child.empty) {
        open = child.element;
        depth++;
      }
    }
  }
  take(BLANK);
  if (at < text.length) throw malformed("something follows its root");
  return root;
}

/** The five entities that XML has by itself, and characters by their number. */
const unescapeText = (text: string) =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}))?(;?)/gi, (_, decimal, hex, name, end) => {
    const known = name && Object.hasOwn(ENTITIES, name) ? ENTITIES[name]! : null;
    const code = decimal ? Number(decimal) : hex ? Number.parseInt(hex, 16) : null;
    const sign = known ?? (code !== null && code <= 0x10ffff ? String.fromCodePoint(code) : null);
    if (!end || sign === null || FOREIGN.test(sign)) throw malformed("it has an entity that is not XML's own");
    return sign;
  });

/** The child elements of that name. */
export const childrenOf = (element: Element, ns: string, local: string): Element[] =>
  elementsOf(element).filter((child) => child.ns === ns && child.local === local);

export const elementsOf = (element: Element): Element[] =>
  element.children.filter((child): child is Element => typeof child !== "string");

/** The element and all below it, in the order of the document. */
export function* walk(element: Element): Generator<Element> {
  yield element;
  for (const child of elementsOf(element)) yield* walk(child);
}

/** The value of the attribute that has no namespace; null where there is none. */
export const attribute = (element: Element, local: string): string | null =>
  element.attributes.find((one) => one.ns === "" && one.local === local)?.value ?? null;

/** All that an element says, where it says one text and nothing else; null otherwise. */
export const textOf = (element: Element): string | null =>
  element.children.length === 1 && typeof element.children[0] === "string" ? element.children[0] : null;

/** A text for an attribute or between tags. */
export const escapeXml = (text: string): string => text.replace(/[&<>"'\t\n\r]/g, (sign) => `&#${sign.charCodeAt(0)};`);
