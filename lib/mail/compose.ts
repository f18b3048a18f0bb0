/** How a mail of ours reads, as text and as HTML: what strangers chose in it stays text. */
import type { Mail } from "./send.ts";

const escaped = (text: string) =>
  text.replace(/[&<>"']/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[sign]!);
/** A name that somebody chose: one line of it, which no client makes a link of. */
export const plain = (name: string) =>
  name
    .replace(/[\p{C}\p{Z}]+/gu, " ")
    .replaceAll(/[/:@]/g, " ")
    .slice(0, 80)
    .trim();

/** A mail of these paragraphs; `big` is one that is meant to be read from afar, `link` one to follow. */
export function compose(
  to: string,
  subject: string,
  paragraphs: (string | { big: string } | { link: string })[],
): Mail {
  const texts = paragraphs.map((one) => (typeof one === "string" ? one : "big" in one ? one.big : one.link));
  const html = paragraphs.map((one) => {
    if (typeof one === "string") return `<p>${escaped(one)}</p>`;
    if ("big" in one) return `<p style="font-size:2em;letter-spacing:.2em">${escaped(one.big)}</p>`;
    return `<p><a href="${escaped(one.link)}">${escaped(one.link)}</a></p>`;
  });
  return {
    to,
    subject,
    text: `${texts.join("\n\n")}\n`,
    html: `<!doctype html><html lang="en"><body>${html.join("")}</body></html>`,
  };
}
