import type { Run } from "./run.ts";

/**
 * Up to this length the platform's own search is used: at its worst it compares so many characters at each place.
 * A longer part of one letter in a text of that letter would take it minutes; those are found in one pass.
 */
export const SHORT = 16;

/** The first place of a part at or after `from`, or -1. */
export function find(run: Run, text: string, part: string, from = 0): number {
  if (part.length <= SHORT) {
    const at = text.indexOf(part, from);
    run.charge(1 + (Math.max(0, (at < 0 ? text.length : at) - from) >> 3));
    return at;
  }
  return findLong(run, text, part, Math.max(0, from));
}

/** The last place of a part, or -1. */
export function findLast(run: Run, text: string, part: string): number {
  run.charge(1 + (text.length >> 3));
  if (part.length <= SHORT) return text.lastIndexOf(part);
  const at = findLong(run, text, part, 0, true);
  return at < 0 ? -1 : text.length - at - part.length;
}

/** Knuth, Morris, Pratt: no character of the text is looked at twice. Backwards, places count from the end. */
function findLong(run: Run, text: string, part: string, from: number, backwards = false): number {
  if (part.length > text.length - from) return -1;
  const of = (one: string, i: number) => one.charCodeAt(backwards ? one.length - 1 - i : i);
  run.alloc(part.length * 4);
  run.charge(part.length >> 1);
  const back = new Int32Array(part.length);
  for (let i = 1, length = 0; i < part.length; i++) {
    while (length > 0 && of(part, i) !== of(part, length)) length = back[length - 1]!;
    if (of(part, i) === of(part, length)) length++;
    back[i] = length;
  }
  let length = 0;
  for (let i = from; i < text.length; i++) {
    if ((i & 1023) === 0) run.charge(512);
    while (length > 0 && of(text, i) !== of(part, length)) length = back[length - 1]!;
    if (of(text, i) === of(part, length)) length++;
    if (length === part.length) return i - length + 1;
  }
  return -1;
}

/** What stands between the occurrences of a part. */
export function pieces(run: Run, text: string, part: string): string[] {
  const found: string[] = [];
  let from = 0;
  for (let at = find(run, text, part); at >= 0; at = find(run, text, part, from)) {
    found.push(text.slice(from, at));
    from = at + part.length;
  }
  found.push(text.slice(from));
  return found;
}
