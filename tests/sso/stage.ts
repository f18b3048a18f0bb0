/** What tests of SSO share: a browser, and how somebody signs out in it. */
import { system } from "../harness/index.ts";

/** A browser of a system: it keeps the cookies, and follows nothing by itself. */
export function aBrowser(base = system.base) {
  const cookies = new Map<string, string>();
  const ask = async (url: string, init: RequestInit = {}) => {
    const response = await fetch(new URL(url.replace("http://agentry.test", base), base), {
      redirect: "manual",
      ...init,
      headers: { Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "), ...init.headers },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
      if (value && !/Max-Age=0/i.test(line)) cookies.set(name!, value);
      else cookies.delete(name!);
    }
    return response;
  };
  return { ask, cookies };
}
export type Browser = ReturnType<typeof aBrowser>;

export const form = (fields: Record<string, string>) => ({ method: "POST", body: new URLSearchParams(fields) });

/** Presses the button of the page on which somebody stands who has signed in; `fields` in the place of what it sends. */
export async function signOut({ ask }: Browser, home: string, fields?: Record<string, string>, site = "same-origin") {
  const page = await (await ask(home)).text();
  const [, action = "", inside = ""] = /<form[^>]*action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/.exec(page) ?? [];
  const [, sent = ""] = /name="form" value="([^"]*)"/.exec(inside) ?? [];
  return ask(action, { ...form(fields ?? { form: sent }), headers: { "Sec-Fetch-Site": site } });
}

export async function me({ ask }: Browser) {
  const response = await ask("/api/v1/users/me", { headers: { "Sec-Fetch-Site": "same-origin" } });
  return {
    status: response.status,
    body: (await response.json()) as Record<string, unknown> & { id: string; org: string },
  };
}
