/** Exclusive canonical XML 1.0, without comments (there are none): the bytes that a signature is over. */
import type { Element } from "./xml.ts";

const ESCAPED: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\t": "&#x9;",
  "\n": "&#xA;",
  "\r": "&#xD;",
};
const escaped = (signs: RegExp, text: string) => text.replace(signs, (sign) => ESCAPED[sign]!);

/**
 * The canonical form of an element and all below it. `without`: a signature that is in it, left out. `inclusive`: the
 * PrefixList, prefixes that are written wherever they are declared; '' is its `#default`.
 */
export function canonical(
  apex: Element,
  { without = null, inclusive = [] }: { without?: Element | null; inclusive?: readonly string[] } = {},
): string {
  const out: string[] = [];
  const write = (element: Element, written: ReadonlyMap<string, string>) => {
    const used = new Set([element.prefix]);
    for (const { prefix } of element.attributes) if (prefix) used.add(prefix);
    for (const prefix of inclusive) if (element.scope.has(prefix)) used.add(prefix);
    used.delete("xml");
    const fresh = [...used]
      .map((prefix): [string, string] => [prefix, element.scope.get(prefix) ?? ""])
      .filter(([prefix, uri]) => (written.get(prefix) ?? "") !== uri)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    const name = element.prefix ? `${element.prefix}:${element.local}` : element.local;
    out.push("<", name);
    for (const [prefix, uri] of fresh) {
      out.push(prefix ? ` xmlns:${prefix}` : " xmlns", '="', escaped(/[&<"]/g, uri), '"');
    }
    const inOrder = [...element.attributes].sort((a, b) => {
      const [one, other] = a.ns === b.ns ? [a.local, b.local] : [a.ns, b.ns];
      return one < other ? -1 : 1;
    });
    for (const { prefix, local, value } of inOrder) {
      out.push(" ", prefix ? `${prefix}:${local}` : local, '="', escaped(/[&<"\t\n\r]/g, value), '"');
    }
    out.push(">");
    const inside = fresh.length ? new Map([...written, ...fresh]) : written;
    for (const child of element.children) {
      if (typeof child === "string") out.push(escaped(/[&<>\r]/g, child));
      else if (child !== without) write(child, inside);
    }
    out.push("</", name, ">");
  };
  write(apex, new Map());
  return out.join("");
}
