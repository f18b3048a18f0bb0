import { callModel } from "../../lib/ai/calls.ts";
import { completeAs } from "../../lib/ai/chat.ts";
import { evaluatorsOf, schemaOf, toAnswers, toMessages } from "../../lib/ai/evaluate.ts";
import { evaluationBody, modelList, toModels, evaluation as view } from "../../lib/ai/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { modelsOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";

const evaluation = router();

evaluation.get(
  "/api/v1/ai/evaluation/models",
  named("List the models of evaluations"),
  allow("ai:read"),
  gives(200, modelList),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toModels(evaluatorsOf(modelsOf(c.env))));
  },
);

evaluation.post(
  "/api/v1/ai/evaluation/evaluations",
  named("Evaluate a state"),
  allow("ai:write"),
  valid("json", evaluationBody),
  gives(200, view, 429),
  async (c) => {
    const { questions, state, ...body } = c.req.valid("json");
    const session_id = body.session_id ?? crypto.randomUUID();
    const answer = await callModel(c, { operation: "evaluation", model: body.model, session_id }, async (call) => {
      const request = { messages: toMessages(state, questions) };
      const { message } = await completeAs(call, request, schemaOf(questions));
      const answers = toAnswers(questions, message.structured_output as Record<string, unknown>);
      const { input_tokens, output_tokens } = call.usage;
      return { model: call.model.name, session_id, answers, usage: { input_tokens, output_tokens } };
    });
    return c.var.answer(answer);
  },
);

export default evaluation;
