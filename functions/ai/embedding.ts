import { callModel } from "../../lib/ai/calls.ts";
import { similarity, similarityBody } from "../../lib/ai/schema.ts";
import { cosineOf } from "../../lib/ai/similarity.ts";
import { allow } from "../../lib/auth/allow.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { embed } from "../../lib/model/index.ts";

const embedding = router();

embedding.post(
  "/api/v1/ai/embedding/similarity_comparison",
  named("Compare two texts by their embeddings"),
  allow("ai:write"),
  valid("json", similarityBody),
  gives(200, similarity, 429),
  async (c) => {
    const { text_a, text_b } = c.req.valid("json");
    const answer = await callModel(c, { operation: "embedding", model: null, session_id: null }, async (call) => {
      const { vectors, input_tokens } = await embed(call.model, [text_a, text_b], call.options);
      call.uses({ input_tokens });
      return { model: call.model.name, similarity_score: cosineOf(vectors[0]!, vectors[1]!) };
    });
    return c.var.answer(answer);
  },
);

export default embedding;
