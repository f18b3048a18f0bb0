import type { Block, Call, Chain, Compare, If, Member, Node, Program } from "./ast.ts";
import { accepts, typeText } from "./checker.ts";
import { Native } from "./entry.ts";
import { fail, nearest, type Span } from "./errors.ts";
import { builtins, namespaces } from "./namespaces/index.ts";
import { type Code, Fn, type FnCode, Leave, type Run } from "./run.ts";
import { equals, isList, isMap, Namespace, Result, toText, truthy, typeOf, typeWords, type Value } from "./values.ts";

/**
 * A checked program as closures: one a node, made once and called for every run. They run to the end without
 * awaiting anything; a call to the outside is answered from the journal or leaves by an exception.
 *
 * The top level is not one closure but a list, since a run can be taken up again between its expressions.
 */
export function compile(program: Program): Code[] {
  return program.body.items.map((item) => new Compiler(0).node(item));
}

/** The same as one closure, for an imported script. */
export function compileModule(program: Program): Code {
  return new Compiler(0).block(program.body);
}

/** What a call costs beside its body, one of our own functions in between included. */
const CALL_WEIGHT = 8;

const nothing: Code = () => null;

class Compiler {
  private depth = 0;
  private deepest = 0;
  /** What a function written here keeps alive with itself: the names of the function around it. */
  private readonly kept: number;

  constructor(kept: number) {
    this.kept = kept;
  }

  node(node: Node): Code {
    this.deepest = Math.max(this.deepest, ++this.depth);
    const code = this.compile(node);
    this.depth--;
    return code;
  }

  block(block: Block): Code {
    const codes = block.items.map((item) => this.node(item));
    if (codes.length === 0) return nothing;
    if (codes.length === 1) return codes[0]!;
    const last = codes.length - 1;
    return (frame, run) => {
      run.charge(last);
      for (let i = 0; i < last; i++) codes[i]!(frame, run);
      return codes[last]!(frame, run);
    };
  }

  private compile(node: Node): Code {
    switch (node.kind) {
      case "literal": {
        const { value } = node;
        return () => value;
      }
      case "special": {
        if (node.name === "$") return (_, run) => run.input;
        return node.name === "env" ? (_, run) => run.env : (_, run) => run.viewer;
      }
      case "list": {
        const items = node.items.map((item) => this.node(item));
        return (frame, run) => {
          run.list(items.length);
          const list: Value[] = [];
          for (let i = 0; i < items.length; i++) list.push(items[i]!(frame, run));
          return list;
        };
      }
      case "object": {
        const { keys } = node;
        const values = node.values.map((value) => this.node(value));
        return (frame, run) => {
          run.fields(keys.length);
          const map = new Map<string, Value>();
          for (let i = 0; i < keys.length; i++) map.set(keys[i]!, values[i]!(frame, run));
          return map;
        };
      }
      case "name": {
        if (!node.ref) {
          const value = (node.global === "builtin" ? builtins : namespaces).get(node.name)!;
          return () => value;
        }
        return this.name(node.ref.hops, node.ref.slot, node.name, node.at);
      }
      case "member":
        return this.member(node);
      case "index": {
        const object = this.node(node.object);
        const index = this.node(node.index);
        const lenient = isPath(node.object);
        return (frame, run) => {
          if (++run.steps > run.lookAt) run.look();
          return indexOf(run, object(frame, run), index(frame, run), node.object, node.at, lenient);
        };
      }
      case "call":
        return this.call(node);
      case "try": {
        const value = this.node(node.value);
        return (frame, run) => {
          if (++run.steps > run.lookAt) run.look();
          const result = value(frame, run);
          if (!(result instanceof Result)) return result;
          if (result.ok) return result.value;
          throw new Leave(result, node.at);
        };
      }
      case "unary": {
        const value = this.node(node.value);
        if (node.op === "!") {
          return (frame, run) => {
            if (++run.steps > run.lookAt) run.look();
            return !truthy(value(frame, run));
          };
        }
        return (frame, run) => {
          if (++run.steps > run.lookAt) run.look();
          const number = value(frame, run);
          if (typeof number !== "number")
            throw fail("runtime", `\`-\` wants a number, not ${typeWords(number)}`, node.at);
          return -number;
        };
      }
      case "chain":
        return this.chain(node);
      case "compare":
        return this.compare(node);
      case "logic": {
        const items = node.items.map((item) => this.node(item));
        const until = node.op === "||";
        const last = items.length - 1;
        return (frame, run) => {
          for (let i = 0; i < last; i++) {
            if (++run.steps > run.lookAt) run.look();
            const value = items[i]!(frame, run);
            if (truthy(value) === until) return value;
          }
          return items[last]!(frame, run);
        };
      }
      case "if":
        return this.if(node);
      case "fn": {
        const inner = new Compiler(node.slots);
        const body = inner.block(node.body);
        const code: FnCode = {
          params: node.params.length,
          leaves: node.leaves,
          weight: inner.deepest + CALL_WEIGHT,
          body,
        };
        const size = 96 + this.kept * 8;
        return (frame, run) => {
          run.alloc(size);
          return new Fn(code, frame);
        };
      }
      case "let": {
        const value = this.node(node.value);
        const { slot } = node;
        return (frame, run) => {
          if (++run.steps > run.lookAt) run.look();
          const bound = value(frame, run);
          frame.names[slot] = bound;
          return bound;
        };
      }
      case "input": {
        const fallback = node.fallback && this.node(node.fallback);
        return (frame, run) => {
          const given = isMap(run.input) ? run.input.get(node.name) : undefined;
          if (given === undefined && !fallback && !node.optional) {
            throw fail("missing_input", `the input \`${node.name}\` is missing`, node.at);
          }
          const value = given !== undefined ? given : fallback ? fallback(frame, run) : null;
          if (given !== undefined && node.type && !(given === null && node.optional)) {
            const type = typeOf(given);
            const is = type === "number" && Number.isInteger(given) ? "int" : type;
            if (!node.type.names.some(({ name }) => accepts(name, is))) {
              const text = `the input \`${node.name}\` is ${typeWords(given)}, not ${typeText(node.type)}`;
              throw fail("missing_input", text, node.at);
            }
          }
          frame.names[node.slot] = value;
          return value;
        };
      }
      case "import": {
        if (!node.target.startsWith("script:")) {
          const namespace = namespaces.get(node.target)!;
          return () => namespace;
        }
        const key = node.target.slice(7);
        return (_, run) => run.import(key, node.at);
      }
    }
  }

  private name(hops: number, slot: number, name: string, at: Span): Code {
    const early = () => fail("runtime", `\`${name}\` is used before its \`let\` was reached`, at);
    if (hops === 0) {
      return (frame) => {
        const value = frame.names[slot];
        if (value === undefined) throw early();
        return value;
      };
    }
    return (frame) => {
      let at = frame;
      for (let i = 0; i < hops; i++) at = at.outer!;
      const value = at.names[slot];
      if (value === undefined) throw early();
      return value;
    };
  }

  private member(node: Member): Code {
    const object = this.node(node.object);
    const { name } = node;
    if (isPath(node.object)) {
      return (frame, run) => {
        if (++run.steps > run.lookAt) run.look();
        const value = object(frame, run);
        return isMap(value) ? (value.get(name) ?? null) : null;
      };
    }
    const lenient = node.object.kind === "try";
    return (frame, run) => {
      if (++run.steps > run.lookAt) run.look();
      const value = object(frame, run);
      if (isMap(value)) return value.get(name) ?? null;
      return lenient && value === null ? null : memberOf(value, node);
    };
  }

  private call(node: Call): Code {
    const args = node.args.map((arg) => this.node(arg));
    const count = args.length;
    const { native, at } = node;
    if (native) {
      return (frame, run) => {
        run.charge(1 + (count >> 2));
        const values: Value[] = [];
        for (let i = 0; i < count; i++) values.push(args[i]!(frame, run));
        run.at = at;
        return native.run(run, values);
      };
    }
    const callee = this.node(node.callee);
    return (frame, run) => {
      run.charge(count >> 2);
      const fn = callee(frame, run);
      const values: Value[] = [];
      for (let i = 0; i < count; i++) values.push(args[i]!(frame, run));
      run.at = at;
      if (fn instanceof Fn) return run.enter(fn.code, values, fn.frame);
      if (!(fn instanceof Native))
        throw fail("runtime", `${nameOf(node.callee)} is ${typeWords(fn)}, not a function`, at);
      run.charge(1);
      return fn.run(run, values);
    };
  }

  private chain(node: Chain): Code {
    const first = this.node(node.first);
    const rest = node.rest.map(({ op, value, at }) => ({ op, at, value: this.node(value) }));
    if (rest.length === 1) {
      const [{ op, value, at }] = rest as [(typeof rest)[number]];
      return (frame, run) => {
        if (++run.steps > run.lookAt) run.look();
        return arithmetic(op, first(frame, run), value(frame, run), at, run);
      };
    }
    return (frame, run) => {
      let sum = first(frame, run);
      for (let i = 0; i < rest.length; i++) {
        if (++run.steps > run.lookAt) run.look();
        const { op, value, at } = rest[i]!;
        sum = arithmetic(op, sum, value(frame, run), at, run);
      }
      return sum;
    };
  }

  private compare({ op, left, right, at }: Compare): Code {
    const a = this.node(left);
    const b = this.node(right);
    if (op === "==" || op === "!=") {
      const is = op === "==";
      return (frame, run) => {
        if (++run.steps > run.lookAt) run.look();
        return equals(a(frame, run), b(frame, run), run) === is;
      };
    }
    return (frame, run) => {
      if (++run.steps > run.lookAt) run.look();
      const x = a(frame, run);
      const y = b(frame, run);
      if (!((typeof x === "number" && typeof y === "number") || (typeof x === "string" && typeof y === "string"))) {
        throw fail("runtime", `\`${op}\` compares two numbers or two strings, not ${pair(x, y)}`, at);
      }
      if (typeof x === "string") run.charge(x.length >> 6);
      if (op === "<") return x < y;
      if (op === "<=") return x <= y;
      return op === ">" ? x > y : x >= y;
    };
  }

  private if(node: If): Code {
    const branches = node.branches.map(({ when, body }) => ({ when: this.node(when), body: this.block(body) }));
    const otherwise = node.otherwise ? this.block(node.otherwise) : nothing;
    if (branches.length === 1) {
      const [{ when, body }] = branches as [(typeof branches)[number]];
      return (frame, run) => {
        if (++run.steps > run.lookAt) run.look();
        return truthy(when(frame, run)) ? body(frame, run) : otherwise(frame, run);
      };
    }
    return (frame, run) => {
      for (let i = 0; i < branches.length; i++) {
        if (++run.steps > run.lookAt) run.look();
        if (truthy(branches[i]!.when(frame, run))) return branches[i]!.body(frame, run);
      }
      return otherwise(frame, run);
    };
  }
}

/** Walking from `$`, `env` or `viewer` never fails: a step that is missing gives null. */
function isPath(node: Node): boolean {
  if (node.kind === "special") return true;
  return (node.kind === "member" || node.kind === "index") && isPath(node.object);
}

function arithmetic(op: Chain["rest"][number]["op"], a: Value, b: Value, at: Span, run: Run): Value {
  if (typeof a === "number" && typeof b === "number") {
    if (b === 0 && (op === "/" || op === "%")) throw fail("runtime", "division by zero", at);
    const value = op === "+" ? a + b : op === "-" ? a - b : op === "*" ? a * b : op === "/" ? a / b : a % b;
    if (!Number.isFinite(value)) throw fail("runtime", `the result of \`${op}\` is too large a number`, at);
    return value;
  }
  const result = a instanceof Result || b instanceof Result;
  if (op === "+" && !result && (typeof a === "string" || typeof b === "string")) {
    run.at = at;
    const left = toText(a, run);
    const right = toText(b, run);
    run.text(left.length + right.length);
    return left + right;
  }
  const wants = op === "+" ? "`+` adds numbers or joins strings" : `\`${op}\` wants two numbers`;
  const hint = result
    ? "; take its value with `unwrap(…)` or `?`"
    : isList(a) && op === "+"
      ? "; see `array.concat`"
      : "";
  throw fail("runtime", `${wants}, not ${pair(a, b)}${hint}`, at);
}

const pair = (a: Value, b: Value) => `${typeWords(a)} and ${typeWords(b)}`;

function memberOf(value: Value, node: Member): Value {
  const { name } = node;
  if (isMap(value)) return value.get(name) ?? null;
  if (value instanceof Result) {
    if (!value.ok) throw fail("error_result", value.message, node.at);
    return memberOf(value.value, node);
  }
  const what = nameOf(node.object);
  if (value === null) throw fail("runtime", `${what} is null, so it has no \`${name}\``, node.nameAt);
  if (value instanceof Namespace) {
    const member = value.find(name);
    if (member !== undefined) return member;
    const near = nearest(name, value.members.keys());
    throw fail(
      "runtime",
      `\`${value.name}\` has no \`${name}\`${near ? `; did you mean \`${near}\`?` : ""}`,
      node.nameAt,
    );
  }
  const space = namespaces.get(isList(value) ? "array" : typeOf(value));
  const near = space && nearest(name, space.members.keys());
  const hint = near ? `; use \`${space.name}.${near}(…)\`` : "";
  throw fail("runtime", `${what} is ${typeWords(value)}, and has no \`${name}\`${hint}`, node.nameAt);
}

function indexOf(run: Run, object: Value, index: Value, node: Node, at: Span, lenient: boolean): Value {
  if (object instanceof Result) {
    if (!object.ok) throw fail("error_result", object.message, at);
    return indexOf(run, object.value, index, node, at, lenient);
  }
  if (isList(object) || typeof object === "string") {
    if (typeof index === "number") return object[index] ?? null;
    if (!lenient) throw fail("runtime", `an index into ${typeWords(object)} is a number, not ${typeWords(index)}`, at);
  } else if (isMap(object)) {
    if (typeof index === "string") {
      run.charge(index.length >> 6);
      return object.get(index) ?? null;
    }
    if (typeof index === "number") return object.get(String(index)) ?? null;
    if (!lenient) throw fail("runtime", `the key of a field is a string, not ${typeWords(index)}`, at);
  } else if (!lenient) {
    throw fail("runtime", `${nameOf(node)} is ${typeWords(object)}, which has no items`, at);
  }
  return null;
}

/** How the source calls an expression, for a sentence about it. */
function nameOf(node: Node): string {
  const text = pathOf(node);
  return text ? `\`${text}\`` : "this value";
}

function pathOf(node: Node): string | null {
  if (node.kind === "name" || node.kind === "special") return node.name;
  if (node.kind === "try") return pathOf(node.value);
  if (node.kind === "import") return `import("${node.target}")`;
  const inner = node.kind === "member" || node.kind === "index" ? pathOf(node.object) : null;
  if (node.kind === "member") return inner && `${inner}.${node.name}`;
  if (node.kind === "index") return inner && `${inner}[…]`;
  const callee = node.kind === "call" ? pathOf(node.callee) : null;
  return callee && `${callee}(…)`;
}
