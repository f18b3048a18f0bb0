import { type Caller, callModel } from "../../lib/ai/calls.ts";
import {
  editBody,
  generateBody,
  type ImageBody,
  imageResult,
  modelList,
  toImageRequest,
  toImageResult,
  toModels,
} from "../../lib/ai/schema.ts";
import { allow } from "../../lib/auth/allow.ts";
import { modelsOf } from "../../lib/env.ts";
import { gives } from "../../lib/http/gives.ts";
import { router } from "../../lib/http/router.ts";
import { named } from "../../lib/http/spec.ts";
import { valid } from "../../lib/http/valid.ts";
import { generateImages, listModels } from "../../lib/model/index.ts";

const image = router();

image.get(
  "/api/v1/ai/image/models",
  named("List the models of images"),
  allow("ai:read"),
  gives(200, modelList),
  async (c) => {
    await c.var.db.enter();
    return c.var.answer(toModels(listModels(modelsOf(c.env), "image"), ["image"]));
  },
);

image.post(
  "/api/v1/ai/image/generations",
  named("Generate an image"),
  allow("ai:write"),
  valid("json", generateBody),
  gives(200, imageResult, 429),
  async (c) => c.var.answer(await makeImage(c, c.req.valid("json"))),
);

image.post(
  "/api/v1/ai/image/edits",
  named("Edit an image"),
  allow("ai:write"),
  valid("json", editBody),
  gives(200, imageResult, 429),
  async (c) => c.var.answer(await makeImage(c, c.req.valid("json"))),
);

function makeImage(c: Caller, body: ImageBody) {
  const session_id = body.session_id ?? crypto.randomUUID();
  return callModel(c, { operation: "image", model: body.model, session_id }, async (call) => {
    const made = await generateImages(call.model, toImageRequest(body), call.options);
    call.uses(made.usage);
    return toImageResult({ ...body, session_id }, made, call.model.name, call.usageByModel);
  });
}

export default image;
