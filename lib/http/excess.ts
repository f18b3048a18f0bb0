/** Whether a JSON text holds too much, told before it is parsed. */

const [QUOTE, BACKSLASH, COMMA, COLON] = [...'"\\,:'].map((sign) => sign.charCodeAt(0));
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = [..."[]{}"].map((sign) => sign.charCodeAt(0));
const SPACE = 0x20;
/** A text of fewer values than this is parsed in a few milliseconds. */
const FEW = 10_000;

/** At most so many values in the whole, besides those in its `fields`, which have bounds of their own; nested so deep. */
export type Bounds = { values: number; depth: number; fields: ReadonlyMap<string, number> };

/**
 * The beginning of a JSON text, up to where it breaks a bound, with what is open closed there: it is short, and parsed it
 * breaks the same bound at the same place. Null where the text breaks none, or has too few values to be dear. A name that
 * stands twice counts twice. Of a text that isn't JSON it tells nothing that JSON.parse doesn't.
 */
export function excessOf(text: string, { values, depth, fields }: Bounds): string | null {
  if (!hasMany(text)) return null;
  const field = new Map([...fields].map(([name, most]) => [name, { most, count: 0 }]));
  // The whole is none of its values.
  const whole = { most: values, count: -1 };
  let bound = whole;
  let closing = "";
  let string = "";
  for (let i = 0; i < text.length; i++) {
    const sign = text.charCodeAt(i);
    if (sign === QUOTE) {
      const start = i;
      i = endOfString(text, i);
      bound.count++;
      if (closing.length === 1) string = text.slice(start + 1, i);
    } else if (sign === OPEN_LIST || sign === OPEN_MAP) {
      bound.count++;
      closing = (sign === OPEN_LIST ? "]" : "}") + closing;
      if (bound.count > bound.most || closing.length > depth + 1) return text.slice(0, i + 1) + closing;
    } else if (sign === COMMA) {
      if (bound.count > bound.most) return text.slice(0, i) + closing;
    } else if (sign === COLON) {
      // What stood before it was a name.
      bound.count--;
      if (closing.length === 1) bound = field.get(string) ?? whole;
    } else if (sign === CLOSE_LIST || sign === CLOSE_MAP) {
      closing = closing.slice(1);
    } else if (sign > SPACE) {
      i = endOfLiteral(text, i);
      bound.count++;
    }
  }
  return null;
}

/**
 * Whether a text can have many values at all: each follows a comma, or what opens its list or map. To search for those
 * costs next to nothing, and hardly a text that is honest has so many.
 */
const hasMany = (text: string) =>
  [",", "[", "{"].reduce((signs, sign) => signs + text.split(sign, FEW + 1).length - 1, 0) >= FEW;

/** Where the string that begins here has its last quote. */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const sign = text.charCodeAt(i);
    if (sign === BACKSLASH) i++;
    else if (sign === QUOTE) return i;
  }
  return text.length;
}

/** Where the number or the word that begins here has its last sign. */
function endOfLiteral(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const sign = text.charCodeAt(i);
    if (sign <= SPACE || sign === COMMA || sign === CLOSE_LIST || sign === CLOSE_MAP) return i - 1;
  }
  return text.length;
}
