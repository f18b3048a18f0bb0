/** A browser without scripts, as far as our pages need one. */
import { system } from "../harness/index.ts";
import { codeIn, mailTo, nextMail } from "./mailbox.ts";

export type Shown = { status: number; headers: Headers; text: string; path: string };

/** A browser: it keeps the cookie that it is given, follows redirects, and says where its forms come from. */
export function aBrowser() {
  let cookie: string | null = null;
  const send = async (
    path: string,
    form?: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Shown> => {
    const response = await fetch(system.base + path, {
      redirect: "manual",
      method: form ? "POST" : "GET",
      headers: {
        ...(cookie !== null && { Cookie: `__Host-agentry=${cookie}` }),
        ...(form && { "Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin" }),
        ...headers,
      },
      ...(form && { body: new URLSearchParams(form) }),
    });
    const [, given] = response.headers.get("Set-Cookie")?.match(/^__Host-agentry=([^;]*)/) ?? [];
    if (given !== undefined) cookie = given || null;
    const { status } = response;
    if (status === 303) return send(response.headers.get("Location")!);
    return { status, headers: response.headers, text: await response.text(), path };
  };
  /** What the nth form of a page would send, and where. */
  const formOf = ({ text }: Shown, nth = 0) => {
    const form = [...text.matchAll(/<form[^>]*action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g)][nth]!;
    const hidden = [...form[2]!.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)];
    return { action: form[1]!, fields: Object.fromEntries(hidden.map(([, name, value]) => [name!, value!])) };
  };
  const submit = async (shown: Shown, typed: Record<string, string> = {}, nth = 0, headers = {}) => {
    const { action, fields } = formOf(shown, nth);
    return send(action, { ...fields, ...typed }, headers);
  };
  /** Opens a login page and comes in by what is mailed. */
  const comeIn = async (path: string, email: string) => {
    const before = mailTo(email).length;
    const asked = await submit(await send(path), { email });
    return submit(asked, { code: codeIn(await nextMail(email, before + 1)) });
  };
  return {
    open: (path: string, headers = {}) => send(path, undefined, headers),
    send,
    submit,
    formOf,
    comeIn,
    cookie: () => cookie,
  };
}
