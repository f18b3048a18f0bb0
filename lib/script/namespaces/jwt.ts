import {
  decodeJwt,
  decodeProtectedHeader,
  errors,
  importJWK,
  importPKCS8,
  importSPKI,
  type JWK,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from "jose";
import { entry, namespace } from "../entry.ts";
import { fail } from "../errors.ts";
import type { Run } from "../run.ts";
import {
  err,
  fromJson,
  isMap,
  type Json,
  type MapValue,
  ok,
  toJson,
  toText,
  type Value,
  type Waiting,
} from "../values.ts";
import type { Answer } from "../world.ts";

const MAX_TOKEN = 16_000;
const ALGORITHMS = ["HS256", "RS256", "ES256"];

interface SignCall {
  claims: JWTPayload;
  key: string | JWK;
  algorithm: string;
  header: Record<string, unknown>;
}
interface VerifyCall {
  token: string;
  key: string | JWK;
  algorithm: string;
  issuer: string | null;
  audience: string | null;
  now: number;
}

/** Signatures are made outside of the script's own run, like any call: an ES256 one never comes out the same twice. */
export async function answerJwt(name: string, args: Json): Promise<Answer> {
  try {
    return {
      ok: name === "jwt.sign" ? await sign(args as unknown as SignCall) : await verify(args as unknown as VerifyCall),
    };
  } catch (error) {
    // A key we cannot read is the script's error and a TypeError or DOMException of the platform.
    if (error instanceof errors.JOSEError) return { error: `jwt: ${error.message}` };
    return { error: "jwt: the key does not fit the algorithm; keys are PEM (PKCS#8, SPKI) or JWK, of HS256 a text" };
  }
}

async function sign({ claims, key, algorithm, header }: SignCall): Promise<string> {
  const imported = await keyOf(key, algorithm, "private");
  return new SignJWT(claims).setProtectedHeader({ typ: "JWT", ...header, alg: algorithm }).sign(imported);
}

async function verify(call: VerifyCall): Promise<Json> {
  const imported = await keyOf(call.key, call.algorithm, "public");
  const { payload } = await jwtVerify(call.token, imported, {
    algorithms: [call.algorithm],
    currentDate: new Date(call.now),
    ...(call.issuer === null ? {} : { issuer: call.issuer }),
    ...(call.audience === null ? {} : { audience: call.audience }),
  });
  return payload as Json;
}

function keyOf(key: string | JWK, algorithm: string, use: "private" | "public") {
  if (typeof key !== "string") return importJWK(key, algorithm);
  if (algorithm === "HS256") return new TextEncoder().encode(key);
  return use === "private" ? importPKCS8(key, algorithm) : importSPKI(key, algorithm);
}

/** `key` is kept out of what the journal knows of the call. */
function* ask(
  run: Run,
  name: string,
  algorithm: string,
  key: string | MapValue,
  rest: Record<string, Json>,
): Waiting<Value> {
  if (!ALGORITHMS.includes(algorithm)) return err(`jwt: the algorithm is one of ${ALGORITHMS.join(", ")}`);
  const args = { ...rest, algorithm };
  return yield* run.outbound(name, { ...args, key: toJson(key, run) }, args);
}

function optionOf(run: Run, options: MapValue | undefined, name: string): Json {
  return toJson(options?.get(name) ?? null, run);
}

export const jwt = namespace(
  "jwt",
  "Tokens. Keys of HS256 are texts, those of RS256 and ES256 PEM (PKCS#8 private, SPKI public) or a JWK object. Signing and verifying count as outbound calls.",
  [
    entry({
      name: "sign",
      params: ["claims: object", "key: string|object", "algorithm?: string", "options?: object"],
      returns: "result<string>",
      doc: "A token with these claims, signed; HS256 unless said otherwise. `header` in the options adds to its header.",
      example: 'unwrap(jwt.sign({ sub: "1", exp: datetime.unix() + 60 }, env.JWT_SECRET, "HS256"))',
      steps: (run, claims, key, algorithm = "HS256", options) => {
        const header = optionOf(run, options, "header") ?? {};
        return ask(run, "jwt.sign", algorithm, key, { claims: toJson(claims, run), header });
      },
    }),
    entry({
      name: "verify",
      params: ["token: string", "key: string|object", "algorithm?: string", "options?: object"],
      returns: "result<object>",
      doc: "The claims of a token whose signature, `exp` and `nbf` hold, and whose issuer and audience are those of the options, if given there.",
      example: 'unwrap(jwt.verify($.token, env.JWT_SECRET, "HS256", { issuer: "https://id.example.com" })).sub',
      steps: (run, token, key, algorithm = "HS256", options) =>
        ask(run, "jwt.verify", algorithm, key, {
          token,
          now: run.now,
          issuer: text(run, options, "issuer"),
          audience: text(run, options, "audience"),
        }),
    }),
    entry({
      name: "decode",
      params: ["token: string"],
      returns: "result<{header, claims}>",
      doc: "What a token says, without any check: never decide by it who somebody is.",
      example: 'result.isErr(jwt.decode("no token"))',
      gives: true,
      run: (run, token) => {
        // What a token says is as large as JSON can be, a hundred times its length.
        if (token.length > MAX_TOKEN)
          return err(`jwt: a token has at most ${MAX_TOKEN.toLocaleString("en")} characters`);
        run.text(token.length * 50);
        try {
          const decoded: [string, Value][] = [
            ["header", fromJson(decodeProtectedHeader(token), run)],
            ["claims", fromJson(decodeJwt(token), run)],
          ];
          return ok(new Map(decoded));
        } catch (error) {
          if (error instanceof TypeError || error instanceof errors.JOSEError) return err("jwt: this is not a token");
          throw error;
        }
      },
    }),
  ],
);

function text(run: Run, options: MapValue | undefined, name: string): string | null {
  const value = options?.get(name) ?? null;
  if (isMap(value)) throw fail("runtime", `\`${name}\` is a string`);
  return value === null ? null : toText(value, run);
}
