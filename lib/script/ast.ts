import type { Native } from "./entry.ts";
import type { Span } from "./errors.ts";
import type { Json } from "./values.ts";

/** Where a name lives: so many functions out, and the place in that function's frame. Set by the checker. */
export interface Ref {
  hops: number;
  slot: number;
}

interface At {
  at: Span;
}

export type Node =
  | Literal
  | ListNode
  | ObjectNode
  | Name
  | Special
  | Member
  | Index
  | Call
  | Try
  | Unary
  | Chain
  | Compare
  | Logic
  | If
  | FnNode
  | Let
  | Input
  | Import;

export interface Literal extends At {
  kind: "literal";
  value: null | boolean | number | string;
}
export interface ListNode extends At {
  kind: "list";
  items: Node[];
}
export interface ObjectNode extends At {
  kind: "object";
  keys: string[];
  values: Node[];
}
export interface Name extends At {
  kind: "name";
  name: string;
  /** Null for the name of a namespace or built-in, which is `global`. */
  ref: Ref | null;
  global: "namespace" | "builtin" | null;
}
/** `$`, `env` and `viewer`. */
export interface Special extends At {
  kind: "special";
  name: "$" | "env" | "viewer";
}
export interface Member extends At {
  kind: "member";
  object: Node;
  name: string;
  nameAt: Span;
}
export interface Index extends At {
  kind: "index";
  object: Node;
  index: Node;
}
export interface Call extends At {
  kind: "call";
  callee: Node;
  args: Node[];
  /** The function of ours that is called, when the checker could tell. */
  native: Native | null;
}
export interface Try extends At {
  kind: "try";
  value: Node;
}
export interface Unary extends At {
  kind: "unary";
  op: "!" | "-";
  value: Node;
}
/** Arithmetic of one precedence, flat: a sum of a thousand parts is not a tree a thousand deep. */
export interface Chain extends At {
  kind: "chain";
  first: Node;
  rest: { op: "+" | "-" | "*" | "/" | "%"; value: Node; at: Span }[];
}
export interface Compare extends At {
  kind: "compare";
  op: "==" | "!=" | "<" | "<=" | ">" | ">=";
  left: Node;
  right: Node;
}
export interface Logic extends At {
  kind: "logic";
  op: "&&" | "||";
  items: Node[];
}
export interface Block extends At {
  items: Node[];
}
/** `if`, with all its `else if`; `c ? a : b` is one with blocks of one expression. */
export interface If extends At {
  kind: "if";
  branches: { when: Node; body: Block }[];
  otherwise: Block | null;
}
export interface FnNode extends At {
  kind: "fn";
  params: { name: string; type: TypeNode | null; at: Span }[];
  body: Block;
  /** Set by the checker. */
  slots: number;
  leaves: boolean;
}
export interface Let extends At {
  kind: "let";
  name: string;
  nameAt: Span;
  type: TypeNode | null;
  value: Node;
  slot: number;
}
export interface Input extends At {
  kind: "input";
  name: string;
  nameAt: Span;
  type: TypeNode | null;
  optional: boolean;
  fallback: Node | null;
  slot: number;
}
export interface Import extends At {
  kind: "import";
  /** A namespace, or a script when it begins with `script:`. */
  target: string;
  targetAt: Span;
}

/** `number`, `array<string>`, `a | b`, `string?`. */
export interface TypeNode extends At {
  names: { name: string; args: TypeNode[]; at: Span }[];
}

export interface Program {
  body: Block;
  slots: number;
  /** Lookup keys of `import("script:…")`, each once. */
  imports: { key: string; at: Span }[];
  symbols: Record<string, Json>[];
}
