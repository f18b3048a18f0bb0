/** TXT records, by DNS over HTTPS: a Worker can ask in no other way. */
import { type Egress, fetchGuarded } from "../http/egress.ts";
import { isMap } from "../http/valid.ts";

const RESOLVER = "https://cloudflare-dns.com/dns-query";
const TXT = 16;
const MAX_BYTES = 65_536;
const TIMEOUT_MS = 5_000;

/** The texts of a name's TXT records; null where nobody could tell. The name is a host name, and so needs no escape. */
export async function readTxt(name: string, egress: Egress): Promise<string[] | null> {
  const asked = await fetchGuarded(
    `${RESOLVER}?name=${name}&type=TXT`,
    { method: "GET", headers: { accept: "application/dns-json" }, body: null },
    { ...egress, max_bytes: MAX_BYTES, timeout_ms: TIMEOUT_MS, same_origin: true },
  );
  if ("error" in asked || asked.ok.status !== 200) return null;
  return textsOf(asked.ok.body);
}

/** What a resolver's JSON says. A record of several texts is all of them together (RFC 7208 §3.3). */
export function textsOf(body: unknown): string[] | null {
  const answer = typeof body === "string" ? parse(body) : body;
  // 3: there is no such name.
  if (!isMap(answer) || (answer.Status !== 0 && answer.Status !== 3)) return null;
  const records = Array.isArray(answer.Answer) ? (answer.Answer as unknown[]) : [];
  return records.flatMap((record) => {
    if (!isMap(record) || record.type !== TXT || typeof record.data !== "string") return [];
    const quoted = record.data.match(/"(?:[^"\\]|\\.)*"/g);
    return [quoted ? quoted.map((text) => text.slice(1, -1).replace(/\\(.)/g, "$1")).join("") : record.data];
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
