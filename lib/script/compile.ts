import type { Block, Call, Chain, Compare, If, Input, Logic, Member, Node, Program } from "./ast.ts";
import { accepts, typeText } from "./checker.ts";
import { Native } from "./entry.ts";
import { fail, nearest, type Span } from "./errors.ts";
import { builtins, namespaces } from "./namespaces/index.ts";
import { type Code, Fn, type FnCode, type Frame, Leave, type Piece, type Run } from "./run.ts";
import { equals, isList, isMap, Namespace, Result, toText, truthy, typeOf, typeWords, type Value } from "./values.ts";

/**
 * A checked program as closures: one a node, made once and called for every run. What calls nothing but our own
 * functions runs to its end at once. What may call the script's, or wait for an answer, is a generator, so that the
 * isolate can serve others meanwhile.
 */
export function compile(program: Program): Piece[] {
  return program.body.items.map((item) => new Compiler(0).node(item));
}

/** The same as one piece, for an imported script. */
export function compileModule(program: Program): Piece {
  return new Compiler(0).block(program.body);
}

/** What a call costs beside its body, one of our own functions in between included. */
const CALL_WEIGHT = 4;

const nothing: Piece = { now: () => null };

const step = (run: Run) => {
  if (++run.steps > run.lookAt) run.look();
};

/** A piece of one that is evaluated before it. */
function one(of: Piece, then: (value: Value, run: Run, frame: Frame) => Value): Piece {
  const { now, steps } = of;
  if (now) {
    return {
      now: (frame, run) => {
        step(run);
        return then(now(frame, run), run, frame);
      },
    };
  }
  return {
    *steps(frame, run) {
      step(run);
      return then(yield* steps(frame, run), run, frame);
    },
  };
}

/** A piece of two, one evaluated after the other. */
function two(first: Piece, second: Piece, then: (a: Value, b: Value, run: Run) => Value): Piece {
  const [a, b] = [first.now, second.now];
  if (a && b) {
    return {
      now: (frame, run) => {
        step(run);
        return then(a(frame, run), b(frame, run), run);
      },
    };
  }
  return {
    *steps(frame, run) {
      step(run);
      const left = a ? a(frame, run) : yield* first.steps!(frame, run);
      return then(left, b ? b(frame, run) : yield* second.steps!(frame, run), run);
    },
  };
}

/**
 * What several pieces give, in a list of its size from the start: one that grows takes room for seventeen. That loop stands
 * wherever pieces are gathered: a generator of its own would take the machine's stack twice.
 */
function all(pieces: Piece[], before: (run: Run) => void, then: (values: Value[], run: Run) => Value): Piece {
  const count = pieces.length;
  if (pieces.every(({ now }) => now)) {
    const codes = pieces.map(({ now }) => now!);
    return {
      now: (frame, run) => {
        before(run);
        const values = new Array<Value>(count);
        for (let i = 0; i < count; i++) values[i] = codes[i]!(frame, run);
        return then(values, run);
      },
    };
  }
  return {
    *steps(frame, run) {
      before(run);
      const values = new Array<Value>(pieces.length);
      for (let i = 0; i < pieces.length; i++) {
        const { now, steps } = pieces[i]!;
        values[i] = now ? now(frame, run) : yield* steps(frame, run);
      }
      return then(values, run);
    },
  };
}

class Compiler {
  private depth = 0;
  private deepest = 0;
  /** What a function written here keeps alive with itself: the names of the function around it. */
  private readonly kept: number;

  constructor(kept: number) {
    this.kept = kept;
  }

  node(node: Node): Piece {
    this.deepest = Math.max(this.deepest, ++this.depth);
    const piece = this.compile(node);
    this.depth--;
    return piece;
  }

  block(block: Block): Piece {
    const pieces = block.items.map((item) => this.node(item));
    if (pieces.length === 0) return nothing;
    if (pieces.length === 1) return pieces[0]!;
    const last = pieces.length - 1;
    if (pieces.every(({ now }) => now)) {
      const codes = pieces.map(({ now }) => now!);
      return {
        now: (frame, run) => {
          run.charge(last);
          for (let i = 0; i < last; i++) codes[i]!(frame, run);
          return codes[last]!(frame, run);
        },
      };
    }
    return {
      *steps(frame, run) {
        run.charge(last);
        let value: Value = null;
        for (const { now, steps } of pieces) value = now ? now(frame, run) : yield* steps(frame, run);
        return value;
      },
    };
  }

  private compile(node: Node): Piece {
    switch (node.kind) {
      case "literal": {
        const { value } = node;
        return { now: () => value };
      }
      case "special": {
        if (node.name === "$") return { now: (_, run) => run.input };
        return { now: node.name === "env" ? (_, run) => run.env : (_, run) => run.viewer };
      }
      case "list": {
        const count = node.items.length;
        return all(
          node.items.map((item) => this.node(item)),
          (run) => run.list(count),
          (values) => values,
        );
      }
      case "object": {
        const { keys } = node;
        return all(
          node.values.map((value) => this.node(value)),
          (run) => run.fields(keys.length),
          (values) => {
            const map = new Map<string, Value>();
            for (let i = 0; i < keys.length; i++) map.set(keys[i]!, values[i]!);
            return map;
          },
        );
      }
      case "name": {
        if (!node.ref) {
          const value = (node.global === "builtin" ? builtins : namespaces).get(node.name)!;
          return { now: () => value };
        }
        return { now: this.name(node.ref.hops, node.ref.slot, node.name, node.at) };
      }
      case "member":
        return this.member(node);
      case "index": {
        const lenient = isPath(node.object);
        return two(this.node(node.object), this.node(node.index), (object, index, run) =>
          indexOf(run, object, index, node.object, node.at, lenient),
        );
      }
      case "call":
        return this.call(node);
      case "try":
        return one(this.node(node.value), (result) => {
          if (!(result instanceof Result)) return result;
          if (result.ok) return result.value;
          throw new Leave(result, node.at);
        });
      case "unary":
        if (node.op === "!") return one(this.node(node.value), (value) => !truthy(value));
        return one(this.node(node.value), (number) => {
          if (typeof number === "number") return -number;
          throw fail("runtime", `\`-\` wants a number, not ${typeWords(number)}`, node.at);
        });
      case "chain":
        return this.chain(node);
      case "compare":
        return this.compare(node);
      case "logic":
        return this.logic(node);
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
        return {
          now: (frame, run) => {
            run.alloc(size);
            return new Fn(code, frame);
          },
        };
      }
      case "let": {
        const { slot } = node;
        return one(this.node(node.value), (value, _, frame) => {
          frame.names[slot] = value;
          return value;
        });
      }
      case "input":
        return this.input(node);
      case "import": {
        if (!node.target.startsWith("script:")) {
          const namespace = namespaces.get(node.target)!;
          return { now: () => namespace };
        }
        const key = node.target.slice(7);
        return { steps: (_, run) => run.import(key, node.at) };
      }
    }
  }

  private input(node: Input): Piece {
    const given = (frame: Frame, run: Run): Value | undefined => {
      const value = isMap(run.input) ? run.input.get(node.name) : undefined;
      if (value === undefined) {
        if (node.fallback) return undefined;
        if (!node.optional) throw fail("missing_input", `the input \`${node.name}\` is missing`, node.at);
      } else if (node.type && !(value === null && node.optional)) {
        const type = typeOf(value);
        const is = type === "number" && Number.isInteger(value) ? "int" : type;
        if (!node.type.names.some(({ name }) => accepts(name, is))) {
          const text = `the input \`${node.name}\` is ${typeWords(value)}, not ${typeText(node.type)}`;
          throw fail("missing_input", text, node.at);
        }
      }
      frame.names[node.slot] = value ?? null;
      return value ?? null;
    };
    if (!node.fallback) return { now: (frame, run) => given(frame, run)! };
    const { now, steps } = this.node(node.fallback);
    const { slot } = node;
    if (now) {
      return {
        now: (frame, run) => {
          const value = given(frame, run);
          if (value !== undefined) return value;
          frame.names[slot] = now(frame, run);
          return frame.names[slot]!;
        },
      };
    }
    return {
      *steps(frame, run) {
        const value = given(frame, run);
        if (value !== undefined) return value;
        frame.names[slot] = yield* steps(frame, run);
        return frame.names[slot]!;
      },
    };
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

  private member(node: Member): Piece {
    const object = this.node(node.object);
    const { name } = node;
    if (isPath(node.object)) return one(object, (value) => (isMap(value) ? (value.get(name) ?? null) : null));
    const lenient = node.object.kind === "try";
    return one(object, (value) => {
      if (isMap(value)) return value.get(name) ?? null;
      return lenient && value === null ? null : memberOf(value, node);
    });
  }

  private call(node: Call): Piece {
    const args = node.args.map((arg) => this.node(arg));
    const cost = node.args.length >> 2;
    const { native, at } = node;
    if (native) {
      const charge = (run: Run) => run.charge(1 + cost);
      if (native.now) {
        const { now } = native;
        return all(args, charge, (values, run) => {
          run.at = at;
          return now(run, values);
        });
      }
      return {
        *steps(frame, run) {
          charge(run);
          const values = new Array<Value>(args.length);
          for (let i = 0; i < args.length; i++) {
            const { now, steps } = args[i]!;
            values[i] = now ? now(frame, run) : yield* steps(frame, run);
          }
          run.at = at;
          return yield* native.steps!(run, values);
        },
      };
    }
    const callee = this.node(node.callee);
    return {
      *steps(frame, run) {
        run.charge(cost);
        const fn = callee.now ? callee.now(frame, run) : yield* callee.steps(frame, run);
        const values = new Array<Value>(args.length);
        for (let i = 0; i < args.length; i++) {
          const { now, steps } = args[i]!;
          values[i] = now ? now(frame, run) : yield* steps(frame, run);
        }
        run.at = at;
        if (run.steps > run.restAt) yield null;
        if (fn instanceof Fn) return fn.waits ? yield* fn.callWaiting(run, values) : fn.call(run, values);
        if (!(fn instanceof Native))
          throw fail("runtime", `${nameOf(node.callee)} is ${typeWords(fn)}, not a function`, at);
        return fn.now ? fn.now(run, values) : yield* fn.steps!(run, values);
      },
    };
  }

  private chain(node: Chain): Piece {
    const first = this.node(node.first);
    const rest = node.rest.map(({ op, value, at }) => ({ op, at, value: this.node(value) }));
    if (rest.length === 1) {
      const [{ op, value, at }] = rest as [(typeof rest)[number]];
      return two(first, value, (a, b, run) => arithmetic(op, a, b, at, run));
    }
    if (first.now && rest.every(({ value }) => value.now)) {
      const begin = first.now;
      const codes = rest.map(({ op, at, value }) => ({ op, at, now: value.now! }));
      return {
        now: (frame, run) => {
          let sum = begin(frame, run);
          for (const { op, at, now } of codes) {
            step(run);
            sum = arithmetic(op, sum, now(frame, run), at, run);
          }
          return sum;
        },
      };
    }
    return {
      *steps(frame, run) {
        let sum = first.now ? first.now(frame, run) : yield* first.steps(frame, run);
        for (const { op, at, value } of rest) {
          step(run);
          const next = value.now ? value.now(frame, run) : yield* value.steps(frame, run);
          sum = arithmetic(op, sum, next, at, run);
        }
        return sum;
      },
    };
  }

  private compare({ op, left, right, at }: Compare): Piece {
    const [a, b] = [this.node(left), this.node(right)];
    if (op === "==" || op === "!=") {
      const is = op === "==";
      return two(a, b, (x, y, run) => equals(x, y, run) === is);
    }
    return two(a, b, (x, y, run) => {
      if (!((typeof x === "number" && typeof y === "number") || (typeof x === "string" && typeof y === "string"))) {
        throw fail("runtime", `\`${op}\` compares two numbers or two strings, not ${pair(x, y)}`, at);
      }
      if (typeof x === "string") run.charge(x.length >> 6);
      if (op === "<") return x < y;
      if (op === "<=") return x <= y;
      return op === ">" ? x > y : x >= y;
    });
  }

  private logic(node: Logic): Piece {
    const items = node.items.map((item) => this.node(item));
    const until = node.op === "||";
    const last = items.length - 1;
    if (items.every(({ now }) => now)) {
      const codes = items.map(({ now }) => now!);
      return {
        now: (frame, run) => {
          for (let i = 0; i < last; i++) {
            step(run);
            const value = codes[i]!(frame, run);
            if (truthy(value) === until) return value;
          }
          return codes[last]!(frame, run);
        },
      };
    }
    return {
      *steps(frame, run) {
        let value: Value = null;
        for (const { now, steps } of items) {
          step(run);
          value = now ? now(frame, run) : yield* steps(frame, run);
          if (truthy(value) === until) break;
        }
        return value;
      },
    };
  }

  private if(node: If): Piece {
    const branches = node.branches.map(({ when, body }) => ({ when: this.node(when), body: this.block(body) }));
    const otherwise = node.otherwise ? this.block(node.otherwise) : nothing;
    if (otherwise.now && branches.every(({ when, body }) => when.now && body.now)) {
      const codes = branches.map(({ when, body }) => ({ when: when.now!, body: body.now! }));
      const none = otherwise.now;
      return {
        now: (frame, run) => {
          for (let i = 0; i < codes.length; i++) {
            step(run);
            if (truthy(codes[i]!.when(frame, run))) return codes[i]!.body(frame, run);
          }
          return none(frame, run);
        },
      };
    }
    return {
      *steps(frame, run) {
        let chosen = otherwise;
        for (const { when, body } of branches) {
          step(run);
          if (!truthy(when.now ? when.now(frame, run) : yield* when.steps(frame, run))) continue;
          chosen = body;
          break;
        }
        return chosen.now ? chosen.now(frame, run) : yield* chosen.steps(frame, run);
      },
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
