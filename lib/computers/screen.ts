/** What a computer's terminal shows: its last lines, and the picture and the link by which anybody sees them for an hour. */
import { open, seal } from "../auth/secrets.ts";
import { type Bindings, listOf } from "../env.ts";
import type { Place } from "../objects/stub.ts";
import { readName } from "../objects/stub.ts";
import type { ComputerRow } from "./schema.ts";

export const LINES = 24;
const COLUMNS = 120;
const LINK_MS = 3_600_000;

/** Escape sequences of terminals, and every sign that isn't shown. */
const UNSHOWN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|.)|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

/** What a command leaves on it: at most 24 lines, of 120 characters each, nothing in them but what can be seen. */
export function linesOf(command: string, output: string): string {
  // Of a long output its end: what stands before it is shown nowhere.
  const said = `$ ${command}\n${output}`.slice(-LINES * 2000);
  const lines = said.split(/\r?\n/).map((line) => Array.from(line.replace(UNSHOWN, "")).slice(0, COLUMNS).join(""));
  if (lines.at(-1) === "") lines.pop();
  return lines.slice(-LINES).join("\n");
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escaped = (text: string) => text.replace(/[&<>"']/g, (sign) => ENTITIES[sign]!);

/** The picture: text alone, whatever a command has said. */
export function toSvg(name: string, screen: string | null): Uint8Array<ArrayBuffer> {
  const title = escaped(name.replace(UNSHOWN, ""));
  const lines = (screen ?? "").split("\n").map((line, i) => `<text x="12" y="${24 + i * 18}">${escaped(line)}</text>`);
  return new TextEncoder().encode(`<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="456" viewBox="0 0 1000 456" role="img">
<title>${title}</title>
<rect width="1000" height="456" fill="#111"/>
<g fill="#ddd" font-family="monospace" font-size="13" xml:space="preserve">
${lines.join("\n")}
</g>
</svg>
`) as Uint8Array<ArrayBuffer>;
}

const purpose = (id: string) => `sprite_url ${id}`;

/** The link to the picture, an hour long; null, where there is no terminal. */
export async function spriteUrl(env: Bindings, row: ComputerRow): Promise<string | null> {
  if (row.status !== "ready") return null;
  const { app_id, sandbox_id, org_id, id } = row;
  const name = [app_id, sandbox_id, org_id, id].join("/");
  const link = await seal(env.ROOT_SECRETS, `${Date.now() + LINK_MS} ${name}`, purpose(id));
  return `${listOf(env.ISSUERS)[0]}/api/v1/agent_computers/${id}/screen?link=${link}`;
}

/** Where a link's computer is. Null: it isn't ours, is another computer's, or its hour is over. */
export async function readLink({ ROOT_SECRETS }: Bindings, id: string, link: string): Promise<Place | null> {
  const [until, name] = (await open(ROOT_SECRETS, link, purpose(id)))?.split(" ") ?? [];
  return Number(until) > Date.now() ? readName(name).place : null;
}
