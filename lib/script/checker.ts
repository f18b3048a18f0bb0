import type { Block, Call, FnNode, If, Import, Input, Let, Member, Name, Node, Program, TypeNode } from "./ast.ts";
import { Native, takes, wrongCount } from "./entry.ts";
import { type Finding, nearest, type Span } from "./errors.ts";
import { builtins, namespaces } from "./namespaces/index.ts";
import { camelCase, type Json, type Namespace } from "./values.ts";

/** What is known where the script will run. Without a list, every name of its kind is taken to exist. */
export interface Known {
  /** Lookup keys of scripts that can be imported. */
  scripts?: readonly string[];
  /** Names of runtime variables. */
  env?: readonly string[];
}

interface Declaration {
  slot: number;
  order: number;
  namespace: Namespace | null;
  fn: FnNode | null;
}

/** The names of one block. `seen` is set on the block of a function: how much of the scopes around it came before. */
class Scope {
  readonly declarations = new Map<string, Declaration[]>();
  count = 0;
  readonly parent: Scope | null;
  readonly frame: FrameInfo;
  readonly seen: Map<Scope, number> | null;
  constructor(parent: Scope | null, frame: FrameInfo, seen: Map<Scope, number> | null) {
    this.parent = parent;
    this.frame = frame;
    this.seen = seen;
  }
}

interface FrameInfo {
  slots: number;
  leaves: boolean;
  /** Bodies of functions are read last: they may use names that stand further down. */
  later: (() => void)[];
}

const MAX_FINDINGS = 100;
const MANY_FINDINGS = 20;

const TYPES = new Set(
  "string number int integer float bool boolean array list object map record any null fn function result time unknown".split(
    " ",
  ),
);

/** Functions by name, with the first namespace that has one. */
const members = new Map(
  [...namespaces]
    .reverse()
    .flatMap(([space, { members }]) => [...members.keys()].map((name) => [name, space] as const)),
);

/**
 * Resolves every name to its place, and tells what will not work: unknown names, functions and namespaces, wrong
 * numbers of arguments, values that are not of the annotated type. The tree is annotated for the compiler.
 */
export function check(body: Block, known: Known = {}): { program: Program; findings: Finding[] } {
  const checker = new Checker(known);
  return { program: checker.program(body), findings: checker.findings };
}

class Checker {
  readonly findings: Finding[] = [];
  private readonly known: Known;
  private readonly imports = new Map<string, Span>();
  private readonly symbols: Record<string, Json>[] = [];

  constructor(known: Known) {
    this.known = known;
  }

  program(body: Block): Program {
    const frame: FrameInfo = { slots: 0, leaves: false, later: [] };
    this.items(body, new Scope(null, frame, null));
    flush(frame);
    this.findings.sort((a, b) => a.line - b.line || a.column - b.column);
    const imports = [...this.imports].map(([key, at]) => ({ key, at }));
    return { body, slots: frame.slots, imports, symbols: this.symbols };
  }

  private say(severity: Finding["severity"], at: Span, message: string) {
    if (this.findings.length < MAX_FINDINGS) this.findings.push({ severity, message, ...at });
  }

  private block(block: Block, scope: Scope) {
    this.items(block, new Scope(scope, scope.frame, null));
  }

  private items(block: Block, scope: Scope) {
    for (const item of block.items) this.node(item, scope);
  }

  private node(node: Node, scope: Scope): void {
    switch (node.kind) {
      case "name":
        this.name(node, scope);
        break;
      case "member":
        this.member(node, scope);
        break;
      case "call":
        this.call(node, scope);
        break;
      case "if":
        for (const { when, body } of node.branches) {
          this.node(when, scope);
          this.block(body, scope);
        }
        if (node.otherwise) this.block(node.otherwise, scope);
        break;
      case "fn":
        this.fn(node, scope);
        break;
      case "let":
        this.let(node, scope);
        break;
      case "input":
        if (node.type) this.annotation(node.type, node.fallback);
        if (node.fallback) this.node(node.fallback, scope);
        node.slot = this.bind(scope, node.name, node.nameAt, "input", null, null);
        break;
      case "import":
        this.import(node);
        break;
      default:
        if (node.kind === "try") scope.frame.leaves = true;
        this.all(partsOf(node), scope);
    }
  }

  private let(node: Let, scope: Scope) {
    if (node.type) this.annotation(node.type, node.value);
    const itself = node.value.kind === "fn" ? node.value : null;
    // A function sees its own name; every other value sees what the name meant before.
    if (itself) node.slot = this.bind(scope, node.name, node.nameAt, "let", null, itself);
    this.node(node.value, scope);
    if (itself) return;
    const namespace = this.namespaceOf(node.value, scope);
    node.slot = this.bind(scope, node.name, node.nameAt, namespace ? "namespace" : "let", namespace, null);
  }

  private import({ target, targetAt }: Import) {
    if (target.startsWith("script:")) return this.importScript(target.slice(7), targetAt);
    if (namespaces.has(target)) return;
    const near = nearest(target, namespaces.keys());
    const help = near ? `did you mean \`${near}\`?` : `there are ${[...namespaces.keys()].join(", ")}`;
    this.say("error", targetAt, `there is no namespace \`${target}\`; ${help}`);
  }

  private all(nodes: Node[], scope: Scope) {
    for (const node of nodes) this.node(node, scope);
  }

  private importScript(key: string, at: Span) {
    if (!this.imports.has(key)) this.imports.set(key, at);
    const { scripts } = this.known;
    if (!scripts || scripts.includes(key)) return;
    const near = nearest(key, scripts);
    this.say("error", at, `there is no script \`${key}\`${near ? `; did you mean \`${near}\`?` : ""}`);
  }

  private bind(
    scope: Scope,
    name: string,
    at: Span,
    kind: string,
    namespace: Namespace | null,
    fn: FnNode | null,
  ): number {
    const slot = scope.frame.slots++;
    const named = scope.declarations.get(name);
    const declaration = { slot, order: scope.count++, namespace, fn };
    if (named) named.push(declaration);
    else scope.declarations.set(name, [declaration]);
    this.symbols.push({ name, kind: fn ? "function" : kind, line: at.line, column: at.column });
    return slot;
  }

  /** The nearest declaration, where a body may also use one that stands further down in the scopes around it. */
  private find(name: string, scope: Scope): { declaration: Declaration; hops: number } | null {
    let seen: Map<Scope, number> | null = null;
    let hops = 0;
    for (let at: Scope | null = scope; at; at = at.parent) {
      const named = at.declarations.get(name);
      const limit = seen?.get(at) ?? Number.POSITIVE_INFINITY;
      const declaration = named && lastBefore(named, limit);
      if (declaration) return { declaration, hops };
      if (at.seen) {
        seen = at.seen;
        hops++;
      }
    }
    return null;
  }

  private name(node: Name, scope: Scope) {
    const found = this.find(node.name, scope);
    if (found) node.ref = { hops: found.hops, slot: found.declaration.slot };
    else if (builtins.has(node.name)) node.global = "builtin";
    else if (namespaces.has(node.name)) node.global = "namespace";
    else this.say("error", node.at, `\`${node.name}\` is not defined${this.helpFor(node.name, scope)}`);
  }

  private helpFor(name: string, scope: Scope): string {
    // Looking through all names for each of thousands of unknown ones would take seconds.
    if (this.findings.length >= MANY_FINDINGS) return "";
    if (name === "input") return "; the input document is `$`, and `input name` declares one of its fields";
    if (name === "return") return "; there is no `return`: the last expression is the result";
    const names = new Set<string>([...builtins.keys(), ...namespaces.keys()]);
    for (let at: Scope | null = scope; at; at = at.parent) for (const one of at.declarations.keys()) names.add(one);
    const near = nearest(name, names);
    if (near) return `; did you mean \`${near}\`?`;
    const member = nearest(name, members.keys());
    return member ? `; did you mean \`${members.get(member)}.${member}\`?` : "";
  }

  /** The namespace an expression certainly is: names are never given another value. */
  private namespaceOf(node: Node, scope: Scope): Namespace | null {
    if (node.kind === "import") return namespaces.get(node.target) ?? null;
    if (node.kind !== "name") return null;
    if (node.global === "namespace") return namespaces.get(node.name) ?? null;
    return node.ref ? (this.find(node.name, scope)?.declaration.namespace ?? null) : null;
  }

  private member(node: Member, scope: Scope): Native | null {
    this.node(node.object, scope);
    if (node.object.kind === "special" && node.object.name === "env" && this.known.env) {
      if (!this.known.env.includes(node.name)) {
        const near = nearest(node.name, this.known.env);
        const help = near ? `; did you mean \`${near}\`?` : "";
        this.say("warning", node.nameAt, `there is no runtime variable \`${node.name}\`${help}`);
      }
    }
    const namespace = this.namespaceOf(node.object, scope);
    if (!namespace) return null;
    const spelled = node.object.kind === "name" ? node.object.name : namespace.name;
    const member = namespace.find(node.name);
    if (member !== undefined && !namespace.members.has(node.name)) {
      this.say("warning", node.nameAt, `\`${spelled}.${node.name}\` is spelled \`${spelled}.${camelCase(node.name)}\``);
    }
    if (member === undefined) {
      const near = nearest(node.name, namespace.members.keys());
      const help = near ? `did you mean \`${spelled}.${near}\`?` : `it has ${[...namespace.members.keys()].join(", ")}`;
      this.say("error", node.nameAt, `\`${spelled}\` has no \`${node.name}\`; ${help}`);
    }
    return member instanceof Native ? member : null;
  }

  private call(node: Call, scope: Scope) {
    const { callee } = node;
    if (callee.kind === "member") node.native = this.member(callee, scope);
    else {
      this.node(callee, scope);
      if (callee.kind === "name" && callee.global === "builtin") node.native = builtins.get(callee.name) ?? null;
    }
    this.all(node.args, scope);
    const { native } = node;
    if (native && !takes(native, node.args.length)) {
      this.say("error", node.at, wrongCount(native, node.args.length));
    }
    const fn = callee.kind === "name" && callee.ref ? this.find(callee.name, scope)?.declaration.fn : null;
    if (fn && node.args.length !== fn.params.length) {
      const wants = plural(fn.params.length, "argument");
      this.say("warning", node.at, `\`${(callee as Name).name}\` has ${wants}, and is called with ${node.args.length}`);
    }
  }

  private fn(node: FnNode, scope: Scope) {
    const seen = new Map<Scope, number>();
    for (let at: Scope | null = scope; at; at = at.parent) {
      seen.set(at, at.count);
      if (at.seen) {
        for (const [outer, count] of at.seen) seen.set(outer, count);
        break;
      }
    }
    scope.frame.later.push(() => {
      const frame: FrameInfo = { slots: 0, leaves: false, later: [] };
      const inner = new Scope(scope, frame, seen);
      for (const param of node.params) {
        if (param.type) this.annotation(param.type, null);
        this.bind(inner, param.name, param.at, "parameter", null, null);
      }
      this.items(node.body, inner);
      flush(frame);
      node.slots = frame.slots;
      node.leaves = frame.leaves;
    });
  }

  /** Types are for people and editors: at run time only an `input` is held to its own. */
  private annotation(type: TypeNode, value: Node | null) {
    for (const { name, args, at } of type.names) {
      if (!TYPES.has(name)) {
        const near = nearest(name, TYPES);
        this.say("warning", at, `\`${name}\` is not a type${near ? `; did you mean \`${near}\`?` : ""}`);
        return;
      }
      for (const arg of args) this.annotation(arg, null);
    }
    const is = value ? literalType(value) : null;
    if (is && value && !type.names.some(({ name }) => accepts(name, is))) {
      this.say("warning", value.at, `this is ${is}, but declared as ${typeText(type)}`);
    }
  }
}

/** The expressions inside one that gives no names and asks for none itself. */
function partsOf(node: Exclude<Node, Name | Member | Call | If | FnNode | Let | Input | Import>): Node[] {
  switch (node.kind) {
    case "literal":
    case "special":
      return [];
    case "list":
    case "logic":
      return node.items;
    case "object":
      return node.values;
    case "index":
      return [node.object, node.index];
    case "try":
    case "unary":
      return [node.value];
    case "chain":
      return [node.first, ...node.rest.map((part) => part.value)];
    case "compare":
      return [node.left, node.right];
  }
}

/** Of declarations in their order, the last one before a limit; when all come later, the first. */
function lastBefore(named: Declaration[], limit: number): Declaration | undefined {
  let [low, high] = [0, named.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (named[middle]!.order < limit) low = middle;
    else high = middle - 1;
  }
  return named[low];
}

function flush(frame: FrameInfo) {
  for (let i = 0; i < frame.later.length; i++) frame.later[i]!();
}

const plural = (count: number, noun: string) => (count === 1 ? `1 ${noun}` : `${count} ${noun}s`);

function literalType(node: Node): string | null {
  if (node.kind === "literal") {
    if (typeof node.value !== "number") return node.value === null ? "null" : typeof node.value;
    return Number.isInteger(node.value) ? "int" : "number";
  }
  if (node.kind === "list") return "array";
  if (node.kind === "object") return "object";
  return node.kind === "fn" ? "function" : null;
}

const SAME: Record<string, string[]> = {
  int: ["int", "integer", "number", "float"],
  number: ["number", "float"],
  boolean: ["bool", "boolean"],
  array: ["array", "list"],
  object: ["object", "map", "record"],
  function: ["fn", "function"],
  string: ["string", "time"],
};
/** Whether a type by its name takes a value of a type as `literalType` and `typeof` name them. */
export const accepts = (name: string, is: string): boolean =>
  name === "any" || name === "unknown" || name === is || (SAME[is]?.includes(name) ?? false);

export const typeText = (type: TypeNode): string =>
  type.names.map(({ name, args }) => (args.length ? `${name}<${args.map(typeText).join(", ")}>` : name)).join(" | ");
