import { callModel } from "../../lib/ai/calls.ts";
import { complete, completeAs, resolveContext, streamed, withResults } from "../../lib/ai/chat.ts";
import {
  chatEvents,
  completion,
  completionBody,
  modelList,
  streamBody,
  toModels,
  toRequest,
} from "../../lib/ai/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { modelsOf } from "../../lib/env.ts";
import { givesEventsOf } from "../../lib/http/events.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { listModels } from "../../lib/model/index.ts";

const chat = router();

chat.get(
  "/api/v1/ai/chat/models",
  named("List the models of chats"),
  allow("ai:read"),
  gives(200, modelList),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toModels(listModels(modelsOf(c.env), "chat")));
  },
);

/** Goes on to its end though the client hangs up. The answer holds the messages as they came: no value of the context. */
chat.post(
  "/api/v1/ai/chat/completions",
  named("Complete a chat"),
  allow("ai:write"),
  valid("json", completionBody),
  gives(200, completion, 429),
  async (c) => {
    const body = c.req.valid("json");
    const { context, messages, opts, session_id } = body;
    const { structured_output: schema, model } = opts;
    const answer = await callModel(c, { operation: "chat", model, session_id }, async (call) => {
      const request = { ...toRequest(body), messages: await resolveContext(messages, context) };
      const completed = await (schema ? completeAs(call, request, schema) : complete(call, request));
      const { message, finish_reason } = completed;
      const history = [...messages, ...withResults(completed)];
      return { message, messages: history, finish_reason, token_usage: call.usageByModel };
    });
    return c.var.answer(answer);
  },
);

/** Ends with the client: who hangs up ends the provider's request within a second. */
chat.post(
  "/api/v1/ai/chat/completions/stream",
  named("Stream a chat"),
  allow("ai:write"),
  valid("json", streamBody),
  givesEventsOf(chatEvents),
  async (c) => {
    const body = c.req.valid("json");
    const { context, messages, opts, session_id } = body;
    const begun = Promise.withResolvers<Response>();
    const over = callModel(c, { operation: "chat", model: opts.model, session_id }, async (call) => {
      const request = { ...toRequest(body), messages: await resolveContext(messages, context) };
      const ended = Promise.withResolvers<void>();
      const settle = (error: unknown) => {
        if (error) ended.reject(error);
        else ended.resolve();
        return over.catch(() => {});
      };
      begun.resolve(c.var.emit(streamed(call, request, settle), () => call.hangUp()));
      await ended.promise;
    });
    over.catch(begun.reject);
    return begun.promise;
  },
);

export default chat;
