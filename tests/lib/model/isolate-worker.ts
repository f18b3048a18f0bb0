import { type Environment, resolveModel, type StepEvent, type StepRequest, step } from "../../../lib/model/index.ts";

/** What the Worker under test is asked. `base` is the provider on this machine, which stands for every host. */
export interface Asked {
  name: string;
  env: Environment;
  request: StepRequest;
  base: string;
  abort_after_ms?: number;
  idle_ms?: number;
}

/** A Worker that takes a step, and tells its events, or how it failed. */
export default {
  async fetch(incoming: Request): Promise<Response> {
    const { name, env, request, base, abort_after_ms, idle_ms = 5_000 } = (await incoming.json()) as Asked;
    const here = (url: string, init: RequestInit) => {
      const { pathname, search } = new URL(url);
      return fetch(base + pathname + search, init);
    };
    const ways = { fetch: here, guarded: here };
    const abort = new AbortController();
    if (abort_after_ms !== undefined) setTimeout(() => abort.abort(new Error("gone")), abort_after_ms);
    const events: StepEvent[] = [];
    try {
      const options = { ways, signal: abort.signal, limits: { tries: 1, idle_ms } };
      for await (const event of step(resolveModel(name, env), request, options)) events.push(event);
      return Response.json({ events });
    } catch (error) {
      const { message, code } = error as Error & { code?: string };
      return Response.json({ events, error: { message, code } });
    }
  },
};
