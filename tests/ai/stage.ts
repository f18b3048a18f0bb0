/** A system whose models are a provider on this machine, and somebody of each kind who asks it through the SDK. */
import { PlatformClient } from "@archastro/sdk";
import type { Models } from "../../lib/env.ts";
import { aSecret } from "../harness/canary.ts";
import { checkAnswer } from "../harness/contract.ts";
import { openDatabase } from "../harness/database.ts";
import { anApp, bearer, caller } from "../harness/index.ts";
import { newRoot, newSigningKey, ownSystem } from "../harness/own.ts";
import { type Answer, aProvider } from "../lib/model/fixtures.ts";

export const KEY = aSecret();

/** What the SDK fetches of a system is held to the document and the contract, too; not streams, which go on. */
function holdAnswers(): () => void {
  const plain = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    const response = await plain(input, init);
    const { origin, pathname, search } = new URL(String(input));
    if (!/json/.test(response.headers.get("Content-Type") ?? "")) return response;
    const { status, headers } = response;
    const text = await response.clone().text();
    await checkAnswer(origin, init?.method ?? "GET", pathname + search, {
      status,
      headers,
      body: JSON.parse(text),
      text,
    });
    return response;
  };
  return () => {
    globalThis.fetch = plain;
  };
}

/** `answers` is what the provider does next; each test sets its own. */
export async function aStage(models: Models = {}) {
  const next: { answer: Answer } = { answer: (response) => response.destroy() };
  const provider = await aProvider((...asked) => next.answer(...asked));
  const own = await ownSystem(openDatabase());
  const [keys, roots] = [[await newSigningKey("one")], [newRoot()]];
  const start = (models: Models) => own.start(keys, roots, { groups: ["all"], models });
  const base = await start({ MODEL_BASE_URL: `${provider.base}/v1`, MODEL_API_KEY: KEY, ...models });
  const release = holdAnswers();
  const app = await anApp({ base, newApp: own.newApp });
  const token = (await app.aToken(app.owners[app.acme]!)).access_token as string;
  return {
    own,
    base,
    app,
    token,
    /** Another system over the same database, with these models. */
    start,
    seen: provider.seen,
    answers: (answer: Answer) => {
      provider.seen.length = 0;
      next.answer = answer;
    },
    asUser: PlatformClient.withToken(app.publishable_key, token, base).ai,
    asBackend: PlatformClient.withSecretKey(app.secret_key, base).ai,
    ask: caller(bearer(token), base),
    rows: async (where = "true") => {
      const calls = `select to_jsonb(c) as call from data.model_calls c where app_id = $1 and ${where} order by id`;
      return (await own.database.query<any>(calls, [app.app])).map(({ call }) => call);
    },
    close: async () => {
      release();
      provider.close();
      await own.close();
    },
  };
}
export type Stage = Awaited<ReturnType<typeof aStage>>;
