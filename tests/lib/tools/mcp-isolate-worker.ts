import { McpServer } from "../../../lib/tools/mcp.ts";

/** A Worker that asks a server for its tools and calls some. */
export default {
  async fetch(request: Request): Promise<Response> {
    const { url, calls } = (await request.json()) as {
      url: string;
      calls: { tool: string; args: Record<string, unknown> }[];
    };
    const { signal } = new AbortController();
    const way = { fetch: (to: string, init: RequestInit) => fetch(to, init), loopback: true, env: () => ({}) };
    const server = new McpServer(async () => ({ url }), way);
    const tools = (await server.tools(signal)).map(({ name }) => name);
    const answers = [];
    for (const { tool, args } of calls) {
      answers.push(await server.call(tool, "once", { arguments: args, idempotency_key: "key", signal }));
    }
    return Response.json({ tools, answers });
  },
};
