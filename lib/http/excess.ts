/** Whether a JSON text holds too much, told before it is parsed. */

const [QUOTE, BACKSLASH, COMMA, COLON] = [...'"\\,:'].map((sign) => sign.charCodeAt(0));
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = [...'[]{}'].map((sign) => sign.charCodeAt(0));
const SPACE = 0x20;

/**
 * Whether a text can hold so many values at all. Each follows a comma, or what opens its list or map: to search for those
 * costs next to nothing, and hardly a text that is honest has so many of them.
 */
function mayHold(text: string, values: number): boolean {
  const found = [",", "[", "{"].map((sign) => text.split(sign, values + 1).length - 1);
  return found.reduce((sum, signs) => sum + signs) >= values;
}

/**
 * The beginning of a JSON text, up to where it holds more values than `most` or nests deeper than `deepest`, with what is
 * open closed there: it is short, and parsed it breaks the same bound at the same place. Null where the text breaks
 * neither, or has too few values to be dear. A name that stands twice counts twice. Of a text that isn't JSON it tells nothing that JSON.parse doesn't.
 */
export function excessOf(text: string, most: number, deepest: number): string | null {
  if (!mayHold(text, most)) return null;
  let closing = "";
  // The whole is none of its values.
  let values = -1;
  for (let i = 0; i < text.length; i++) {
    const sign = text.charCodeAt(i);
    if (sign === QUOTE) {
      i = endOfString(text, i);
      values++;
    } else if (sign === OPEN_LIST || sign === OPEN_MAP) {
      values++;
      closing = (sign === OPEN_LIST ? "]" : "}") + closing;
      if (values > most || closing.length > deepest + 1) return text.slice(0, i + 1) + closing;
    } else if (sign === COMMA) {
      if (values > most) return text.slice(0, i) + closing;
    } else if (sign === COLON) {
      // What stood before it was a name.
      values--;
    } else if (sign === CLOSE_LIST || sign === CLOSE_MAP) {
      closing = closing.slice(1);
    } else if (sign > SPACE) {
      i = endOfLiteral(text, i);
      values++;
    }
  }
  return null;
}

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
