/** What is fetched of a provider: behind the guard of all that strangers name, no redirects, 512 KiB, five seconds. */
import type { Egress } from "../http/egress.ts";
import { judgeUrl } from "../http/guard.ts";
import { Refused } from "./saml/refused.ts";

const MAX_BYTES = 512 * 1024;
const TIMEOUT_MS = 5000;

export function guarded({ fetch, loopback = false }: Egress) {
  return async (url: string, init: RequestInit): Promise<Response> => {
    const verdict = judgeUrl(url, { loopback });
    if ("refused" in verdict)
      throw new Refused(`The provider's address ${new URL(url).host} is refused: ${verdict.refused}.`);
    const response = await fetch(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = await bounded(response);
    return new Response(body.length ? body : null, { status: response.status, headers: response.headers });
  };
}

async function bounded({ body }: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let left = MAX_BYTES;
  const reader = body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    left -= part.value.length;
    if (left < 0) {
      await reader?.cancel();
      throw new Refused(`The provider answered more than ${MAX_BYTES / 1024} KiB.`);
    }
    chunks.push(part.value);
  }
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

/** Whether a fetch brought no answer: it took too long, or nobody is there. Any other error is a bug. */
export const isSilence = (error: unknown): boolean =>
  error instanceof DOMException || (error instanceof TypeError && /fetch|network/i.test(error.message));

/** The metadata that stands at an address. Throws `Refused`. */
export async function fetchMetadata(url: string, egress: Egress): Promise<string> {
  const response = await guarded(egress)(url, { headers: { Accept: "application/samlmetadata+xml, */*" } }).catch(
    (error) => {
      throw isSilence(error) ? new Refused("Nobody answered there. Try again, or send metadata_xml instead.") : error;
    },
  );
  if (response.status >= 300 && response.status < 400) {
    throw new Refused("It leads elsewhere, which is not followed. Give the address where the metadata stands.");
  }
  if (!response.ok) throw new Refused(`It answers ${response.status}. Look whether the address is right and public.`);
  return response.text();
}
