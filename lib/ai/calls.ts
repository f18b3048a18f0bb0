/** How a request asks a model: whose turn it is, what is written down of it, and what becomes of a failure. */
import { type Allowed, type Asked, openAfterwards } from "../auth/allow.ts";
import type { ModelCallStatus, ModelOperation } from "../db/schema.ts";
import { type Bindings, modelsOf } from "../env.ts";
import { ApiError, unprocessable } from "../errors.ts";
import { Gate, inTurn } from "../http/gate.ts";
import { type Model, ModelError, resolveModel, type StepOptions, type Usage, waysOf } from "../model/index.ts";
import { evaluatorFor } from "./evaluate.ts";
import { beginCall, endCall } from "./queries.ts";

/** Of everything that one request asks of a model, its repetitions included. */
const CALL_MS = 600_000;
const calls = new Gate({ most: 8, lease_ms: CALL_MS + 10_000 });

export type Caller = Asked & { var: Pick<Allowed["Variables"], "credential" | "db"> };
type Use = {
  operation: ModelOperation;
  /** Its name; without one the installation's default. */
  model: string | null;
  session_id: string | null;
};

/** A model on call, and what was used of it so far. */
export class ModelCall {
  readonly model: Model;
  readonly options: StepOptions;
  usage: Usage = { input_tokens: null, output_tokens: null, cached_tokens: null, reasoning_tokens: null };
  isGone = false;
  readonly #abort = new AbortController();

  constructor(model: Model, env: Bindings) {
    this.model = model;
    this.options = { ways: waysOf(env), signal: this.#abort.signal };
  }

  /** Adds what a provider counted; what it doesn't tell stays untold. */
  uses(usage: Partial<Usage>) {
    for (const name of Object.keys(this.usage) as (keyof Usage)[]) {
      const more = usage[name] ?? null;
      if (more !== null) this.usage[name] = (this.usage[name] ?? 0) + more;
    }
  }

  /** What was used, by the model's name, as the wire has it. */
  get usageByModel() {
    return { [this.model.name]: { ...this.usage } };
  }

  /** The client is gone: ends the provider's request at once. */
  hangUp() {
    this.isGone = true;
    this.#abort.abort(new Error("the client is gone"));
  }

  endLate() {
    this.#abort.abort(new ModelError("model_unavailable", `The model took more than ${CALL_MS / 60_000} minutes.`));
  }
}

/**
 * Asks a model when it is the credential's turn, once the database has let the credential in: one round trip before,
 * by a row that owes its figures, and one after, that gives them. Goes on to its end though the client hangs up, unless
 * `run` ends it. What a model fails of comes as a refusal.
 */
export async function callModel<T>(c: Caller, use: Use, run: (call: ModelCall) => Promise<T>): Promise<T> {
  const { db, credential } = c.var;
  const model = await modelFor(c, use);
  return inTurn(calls, c, async () => {
    const id = await beginCall(db, { ...use, model: model.name });
    const call = new ModelCall(model, c.env);
    const late = setTimeout(() => call.endLate(), CALL_MS);
    let status: Exclude<ModelCallStatus, "unknown"> = "failed";
    try {
      const answer = await run(call);
      status = "completed";
      return answer;
    } catch (error) {
      throw asRefusal(error);
    } finally {
      clearTimeout(late);
      if (call.isGone) status = "cancelled";
      const settled = openAfterwards(c, credential).then((after) => endCall(after, id, status, call.usage));
      // The model has answered, whatever becomes of the row, and its figures are not lost.
      await settled.catch((error) =>
        console.error(JSON.stringify({ model_call: id, status, usage: call.usage, error: String(error) })),
      );
    }
  });
}

/** The dead learn nothing of what is set up here. */
async function modelFor({ env, var: { db } }: Caller, { operation, model }: Use): Promise<Model> {
  const models = modelsOf(env);
  try {
    return operation === "evaluation" ? evaluatorFor(model, models) : resolveModel(model, models, { kind: operation });
  } catch (error) {
    await db.enter();
    throw asRefusal(error);
  }
}

/** A model's failure as the refusal that the wire knows; anything else as it is. */
export function asRefusal(error: unknown): unknown {
  if (!(error instanceof ModelError)) return error;
  const { code, message, retry_after_ms } = error;
  const later = { "Retry-After": String(Math.ceil((retry_after_ms ?? 5_000) / 1000)) };
  if (code === "model_rate_limited") return new ApiError(429, code, message, [], later);
  if (code === "model_unavailable" || code === "model_answer_invalid")
    return new ApiError(503, code, message, [], later);
  return unprocessable(code, message);
}
