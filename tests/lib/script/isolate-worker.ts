import { edgeWorld, type Json, type Limits, runScript, testScript } from "../../../lib/script/index.ts";

/** What the Worker under measure is asked. */
export interface Asked {
  source: string;
  scope?: Json;
  /** What every outbound call answers. */
  answer?: Json;
  test?: boolean;
  limits?: Partial<Limits>;
}

/** A Worker that runs a script as the routes do: from a body to the text of an answer. */
export default {
  async fetch(request: Request): Promise<Response> {
    const { source, scope = {}, answer = null, test, limits = {} } = (await request.json()) as Asked;
    const platform = async () => ({ ok: answer });
    const world = edgeWorld({ fetch: async () => Response.json(answer), platform });
    const run = await (test ? testScript : runScript)(source, { world, input: scope, limits });
    return Response.json(run);
  },
};
