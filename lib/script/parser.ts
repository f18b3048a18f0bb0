import type { Block, Call, Chain, Compare, FnNode, If, Node, TypeNode } from "./ast.ts";
import { fail, type Span } from "./errors.ts";
import type { Token } from "./lexer.ts";

/** Expressions nested deeper than this are refused: everything after the parser walks them by recursion. */
const MAX_DEPTH = 200;
/** Of calls and functions: they cost little each, but nothing would bound them. */
const MAX_ARGUMENTS = 255;
/** A `?` may be read twice; nested ones must not make that a power of two. */
const MAX_READS_PER_TOKEN = 40;

export const KEYWORDS = ["let", "fn", "if", "else", "true", "false", "null", "input", "import"];
/** Names a script cannot give to something of its own. */
export const RESERVED = ["env", "import", "viewer", "unwrap"];
const NOT_NAMES = new Set(["let", "fn", "if", "else", "true", "false", "null", ...RESERVED]);

const COMPARES = new Set(["<", "<=", ">", ">=", "==", "!="]);
/** From the weakest to the strongest. */
const BINDS = new Map(
  [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]].flatMap((ops, i) =>
    ops.map((op): [string, number] => [op, i + 1]),
  ),
);
/** After a `?`, these cannot begin the middle of `c ? a : b`, so it was a postfix one. */
const ENDS_TRY = new Set([..."+*/%<>?:=.,;)]}|", "==", "!=", "<=", ">=", "&&", "||"]);

/** Tokens to syntax tree. Throws a `syntax` error with its place, on anything it cannot read. */
export function parse(tokens: Token[]): Block {
  return new Parser(tokens).script();
}

class Parser {
  private readonly tokens: Token[];
  private at = 0;
  private reads = 0;
  private depth = 0;
  /** Brackets open since the last block: inside them a line's end means nothing. */
  private brackets = 0;
  /** Of places of `?`: whether one begins `c ? a : b`. */
  private readonly questions = new Map<number, boolean>();

  constructor(tokens: Token[]) {
    this.tokens = tokens;
  }

  script(): Block {
    const first = this.peek();
    const items = this.sequence("end");
    return { items, at: between(first, this.peek()) };
  }

  private peek(offset = 0): Token {
    // Only the last token, the end, is ever looked beyond.
    return this.tokens[this.at + offset] ?? this.tokens.at(-1)!;
  }

  private next(): Token {
    const token = this.peek();
    if (++this.reads > this.tokens.length * MAX_READS_PER_TOKEN + 1000) {
      throw fail("syntax", "there are too many nested `?` to tell which belong to a `:`", token);
    }
    if (this.at < this.tokens.length - 1) this.at++;
    return token;
  }

  private isSign(text: string, offset = 0): boolean {
    const token = this.peek(offset);
    return token.kind === "sign" && token.text === text;
  }

  private isWord(text: string, offset = 0): boolean {
    const token = this.peek(offset);
    return token.kind === "word" && token.text === text;
  }

  private takeSign(text: string): boolean {
    const is = this.isSign(text);
    if (is) this.next();
    return is;
  }

  private expect(text: string, why: string): Token {
    if (!this.isSign(text))
      throw fail("syntax", `expected \`${text}\` ${why}, found ${words(this.peek())}`, this.peek());
    return this.next();
  }

  private enter() {
    if (++this.depth > MAX_DEPTH) {
      throw fail("syntax", `expressions may be nested at most ${MAX_DEPTH} deep`, this.peek());
    }
  }

  private nested<T>(read: () => T): T {
    this.enter();
    const result = read();
    this.depth--;
    return result;
  }

  private inBrackets<T>(read: () => T): T {
    this.brackets++;
    const result = read();
    this.brackets--;
    return result;
  }

  private sequence(end: "}" | "end"): Node[] {
    const items: Node[] = [];
    const brackets = this.brackets;
    this.brackets = 0;
    for (;;) {
      while (this.takeSign(";")) {}
      if (end === "end" ? this.peek().kind === "end" : this.isSign("}")) break;
      items.push(this.nested(() => this.statement()));
      const token = this.peek();
      const separate = token.newline || token.kind === "end" || this.isSign(";") || this.isSign("}");
      if (!separate && !this.isWord("let")) {
        throw fail("syntax", afterExpression(token, items.at(-1)!), token);
      }
    }
    this.brackets = brackets;
    return items;
  }

  private block(why: string): Block {
    const open = this.expect("{", why);
    const items = this.nested(() => this.sequence("}"));
    return { items, at: between(open, this.next()) };
  }

  private statement(): Node {
    if (this.isWord("let")) return this.let();
    const following = this.peek(1);
    if (this.isWord("input") && following.kind === "word" && !following.newline) return this.input();
    return this.expression();
  }

  private let(): Node {
    const start = this.next();
    const name = this.name("after `let`");
    const type = this.takeSign(":") ? this.type() : null;
    this.expect("=", `and a value after \`let ${name.text}\``);
    const value = this.expression();
    return { kind: "let", name: name.text, nameAt: spanOf(name), type, value, slot: 0, at: between(start, value.at) };
  }

  private input(): Node {
    const start = this.next();
    const name = this.name("after `input`");
    const optional = this.takeSign("?");
    const type = this.takeSign(":") ? this.type() : null;
    const fallback = this.takeSign("=") ? this.expression() : null;
    const at = between(start, fallback?.at ?? type?.at ?? name);
    return { kind: "input", name: name.text, nameAt: spanOf(name), type, optional, fallback, slot: 0, at };
  }

  private name(where: string): Token {
    const token = this.peek();
    if (token.kind !== "word") throw fail("syntax", `expected a name ${where}, found ${words(token)}`, token);
    if (NOT_NAMES.has(token.text)) throw fail("syntax", `\`${token.text}\` is reserved; choose another name`, token);
    return this.next();
  }

  private type(): TypeNode {
    return this.nested(() => {
      const start = this.peek();
      const names: TypeNode["names"] = [];
      do {
        const token = this.peek();
        if (token.kind !== "word") throw fail("syntax", `expected the name of a type, found ${words(token)}`, token);
        this.next();
        const args: TypeNode[] = [];
        if (this.takeSign("<")) {
          do args.push(this.type());
          while (this.takeSign(","));
          this.expect(">", "after the type inside");
        }
        names.push({ name: token.text, args, at: spanOf(token) });
        const mark = this.peek();
        if (this.takeSign("?")) names.push({ name: "null", args: [], at: spanOf(mark) });
      } while (this.takeSign("|"));
      return { names, at: between(start, names.at(-1)!.at) };
    });
  }

  private expression(): Node {
    this.enter();
    const node = this.ternary();
    this.depth--;
    return node;
  }

  private ternary(): Node {
    const when = this.binary(1);
    if (!this.isSign("?")) return when;
    this.next();
    const middle = this.expression();
    if (!this.isSign(":")) throw fail("syntax", "expected `:` and the other value of `c ? a : b`", this.peek());
    this.next();
    const otherwise = this.expression();
    const at = between(when.at, otherwise.at);
    return {
      kind: "if",
      branches: [{ when, body: { items: [middle], at: middle.at } }],
      otherwise: { items: [otherwise], at: otherwise.at },
      at,
    };
  }

  /** Operators that bind at least as tightly as `least`. Those of one kind in a row become one node. */
  private binary(least: number): Node {
    let left = this.unary();
    let open = 0;
    for (let links = 0; ; links++) {
      const token = this.peek();
      const binds = token.kind === "sign" ? BINDS.get(token.text) : undefined;
      if (binds === undefined || binds < least) return left;
      // A line that begins with `-` is a new expression: nothing else would be left for a negative number.
      if (token.text === "-" && token.newline && this.brackets === 0) return left;
      this.next();
      const right = this.binary(binds + 1);
      const at = between(left.at, right.at);
      if (binds === open && left.kind === "chain") {
        left.rest.push({ op: token.text as Chain["rest"][number]["op"], value: right, at: spanOf(token) });
        left.at = at;
      } else if (binds === open && left.kind === "logic") {
        left.items.push(right);
        left.at = at;
      } else left = this.joined(token, left, right, at);
      if (links > MAX_DEPTH && left.kind === "compare") throw fail("syntax", "too many comparisons in a row", token);
      open = binds;
    }
  }

  private joined(token: Token, left: Node, right: Node, at: Span): Node {
    const op = token.text;
    if (op === "&&" || op === "||") return { kind: "logic", op, items: [left, right], at };
    if (COMPARES.has(op)) return { kind: "compare", op: op as Compare["op"], left, right, at };
    const rest = [{ op: op as Chain["rest"][number]["op"], value: right, at: spanOf(token) }];
    return { kind: "chain", first: left, rest, at };
  }

  private unary(): Node {
    const token = this.peek();
    if (token.kind !== "sign" || (token.text !== "!" && token.text !== "-")) return this.postfixed();
    this.next();
    const value = this.nested(() => this.unary());
    return { kind: "unary", op: token.text, value, at: between(token, value.at) };
  }

  private postfixed(): Node {
    let node = this.primary();
    let links = 0;
    for (;;) {
      const token = this.peek();
      if (token.kind !== "sign") return node;
      const sameLine = !token.newline || this.brackets > 0;
      if (token.text === ".") {
        this.next();
        const name = this.peek();
        if (name.kind !== "word") throw fail("syntax", `expected a name after \`.\`, found ${words(name)}`, name);
        this.next();
        node = { kind: "member", object: node, name: name.text, nameAt: spanOf(name), at: between(node.at, name) };
      } else if (token.text === "[" && sameLine) {
        this.next();
        const index = this.inBrackets(() => this.expression());
        const end = this.expect("]", "after an index");
        node = { kind: "index", object: node, index, at: between(node.at, end) };
      } else if (token.text === "(" && sameLine) {
        node = this.call(node);
      } else if (token.text === "?" && !this.beginsTernary()) {
        this.next();
        node = { kind: "try", value: node, at: between(node.at, token) };
      } else {
        return node;
      }
      if (++links + this.depth > MAX_DEPTH) {
        throw fail("syntax", `expressions may be nested at most ${MAX_DEPTH} deep`, token);
      }
    }
  }

  private call(callee: Node): Call {
    this.next();
    const args: Node[] = [];
    this.inBrackets(() => {
      while (!this.isSign(")")) {
        args.push(this.expression());
        if (args.length > MAX_ARGUMENTS)
          throw fail("syntax", `a call has at most ${MAX_ARGUMENTS} arguments`, this.peek());
        if (!this.takeSign(",")) break;
      }
    });
    const end = this.expect(")", "after the arguments");
    return { kind: "call", callee, args, native: null, at: between(callee.at, end) };
  }

  /**
   * Both `r?` and `c ? a : b` exist. What follows mostly decides; otherwise the middle is read on trial, and only
   * a `:` after it makes the `?` a question. Each `?` is tried once.
   */
  private beginsTernary(): boolean {
    const here = this.at;
    const known = this.questions.get(here);
    if (known !== undefined) return known;
    const after = this.peek(1);
    if (after.kind === "end" || (after.kind === "sign" && ENDS_TRY.has(after.text))) return false;
    const { depth, brackets } = this;
    this.next();
    let is = false;
    try {
      this.expression();
      is = this.isSign(":");
    } catch (error) {
      // Too deep or too often is so on every reading.
      if (this.depth > MAX_DEPTH || this.reads > this.tokens.length * MAX_READS_PER_TOKEN) throw error;
    }
    this.at = here;
    this.depth = depth;
    this.brackets = brackets;
    this.questions.set(here, is);
    return is;
  }

  private primary(): Node {
    const token = this.peek();
    const at = spanOf(token);
    if (token.kind === "number" || token.kind === "string") {
      this.next();
      return { kind: "literal", value: token.kind === "number" ? token.number : token.text, at };
    }
    if (token.kind === "word") return this.word(token);
    if (this.takeSign("$")) return { kind: "special", name: "$", at };
    if (this.takeSign("(")) {
      const inner = this.inBrackets(() => this.expression());
      this.expect(")", "to close the bracket");
      return inner;
    }
    if (this.takeSign("[")) {
      const items: Node[] = [];
      this.inBrackets(() => {
        while (!this.isSign("]")) {
          items.push(this.expression());
          if (!this.takeSign(",")) break;
        }
      });
      return { kind: "list", items, at: between(token, this.expect("]", "or `,` in an array")) };
    }
    if (this.isSign("{")) return this.object();
    if (token.kind === "end") throw fail("syntax", "the script ends where an expression was expected", token);
    throw fail("syntax", `expected an expression, found ${words(token)}`, token);
  }

  private word(token: Token): Node {
    const at = spanOf(token);
    this.next();
    switch (token.text) {
      case "true":
      case "false":
        return { kind: "literal", value: token.text === "true", at };
      case "null":
        return { kind: "literal", value: null, at };
      case "env":
      case "viewer":
        return { kind: "special", name: token.text, at };
      case "if":
        return this.if(token);
      case "fn":
        return this.fn(token);
      case "import":
        return this.import(token);
      case "let":
        throw fail("syntax", "`let` stands at the beginning of an expression of its own", token);
      case "else":
        throw fail("syntax", "`else` without an `if` before it", token);
      default:
        return { kind: "name", name: token.text, ref: null, global: null, at };
    }
  }

  private if(start: Token): If {
    const branches: If["branches"] = [];
    for (;;) {
      this.expect("(", "and a condition after `if`");
      const when = this.inBrackets(() => this.expression());
      this.expect(")", "after the condition");
      branches.push({ when, body: this.block("after the condition") });
      if (!this.isWord("else")) {
        return { kind: "if", branches, otherwise: null, at: between(start, branches.at(-1)!.body.at) };
      }
      this.next();
      if (this.isWord("if")) this.next();
      else {
        const otherwise = this.block("after `else`");
        return { kind: "if", branches, otherwise, at: between(start, otherwise.at) };
      }
    }
  }

  private fn(start: Token): FnNode {
    if (this.peek().kind === "word") {
      const name = this.peek();
      throw fail("syntax", `functions have no names of their own: write \`let ${name.text} = fn(…) { … }\``, name);
    }
    this.expect("(", "and parameters after `fn`");
    const params: FnNode["params"] = [];
    while (!this.isSign(")")) {
      const name = this.name("of a parameter");
      const type = this.takeSign(":") ? this.type() : null;
      params.push({ name: name.text, type, at: spanOf(name) });
      if (params.length > MAX_ARGUMENTS)
        throw fail("syntax", `a function has at most ${MAX_ARGUMENTS} parameters`, name);
      if (!this.takeSign(",")) break;
    }
    this.expect(")", "after the parameters");
    const body = this.block("and the body of the function");
    return { kind: "fn", params, body, slots: 0, leaves: false, at: between(start, body.at) };
  }

  private import(start: Token): Node {
    this.expect("(", "after `import`");
    const target = this.peek();
    if (target.kind !== "string") {
      throw fail("syntax", 'import wants a name in quotes: `import("array")`, `import("script:key")`', target);
    }
    this.next();
    const end = this.expect(")", "after the name");
    return { kind: "import", target: target.text, targetAt: spanOf(target), at: between(start, end) };
  }

  private object(): Node {
    const open = this.next();
    const keys: string[] = [];
    const values: Node[] = [];
    this.inBrackets(() => {
      while (!this.isSign("}")) {
        const key = this.peek();
        if (key.kind === "sign" || key.kind === "end") {
          throw fail("syntax", `expected the name of a field or \`}\`, found ${words(key)}`, key);
        }
        this.next();
        keys.push(key.text);
        if (this.takeSign(":")) values.push(this.expression());
        else if (key.kind === "word" && (this.isSign(",") || this.isSign("}"))) {
          values.push({ kind: "name", name: key.text, ref: null, global: null, at: spanOf(key) });
        } else
          throw fail("syntax", `expected \`:\` and a value after \`${key.text}\`, found ${words(this.peek())}`, key);
        if (!this.takeSign(",")) break;
      }
    });
    return { kind: "object", keys, values, at: between(open, this.expect("}", "or `,` in an object")) };
  }
}

function spanOf({ line, column, end_line, end_column }: Span): Span {
  return { line, column, end_line, end_column };
}

function between(start: Span, end: Span): Span {
  return { line: start.line, column: start.column, end_line: end.end_line, end_column: end.end_column };
}

function words(token: Token): string {
  if (token.kind === "end") return "the end of the script";
  return token.kind === "string" ? "a string" : `\`${token.text}\``;
}

/** Two expressions on one line: say what was probably meant. */
function afterExpression(token: Token, before: Node): string {
  const name = before.kind === "name" ? before.name : "";
  if (name === "return") return "there is no `return`: the last expression is the result";
  if (name === "for" || name === "while") return `there is no \`${name}\`: use \`array.map\`, \`filter\` or \`reduce\``;
  if (name === "const" || name === "var") return `there is no \`${name}\`: use \`let\``;
  if (name === "function") return "functions are written `fn(a, b) { … }`";
  if (token.kind === "sign" && token.text === ":" && before.kind !== "if") {
    return "an object as the value of a block needs braces of its own: `{ { key: value } }`";
  }
  if (token.kind === "sign" && token.text === "=") {
    return "a value is named once, with `let`; `==` compares";
  }
  return `expected a new line or \`;\` before ${words(token)}`;
}
