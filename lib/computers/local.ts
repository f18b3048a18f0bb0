/** Computers of this machine, which `npm start` gives through a binding: lib/local/computers.ts answers there. */
import { type Provider, type Ran, Refused } from "./provider.ts";

/** What is asked there, as JSON to an address of the same name. */
export type Asked = {
  create: { id: string };
  exists: { id: string };
  /** `run` names what `stop` ends. */
  exec: { id: string; run: string; command: string; dir: string | null; timeout_seconds: number };
  stop: { id: string; run: string };
  destroy: { id: string };
};

export function localComputers(binding: Pick<Fetcher, "fetch">): Provider {
  async function ask<N extends keyof Asked, Answer>(name: N, asked: Asked[N]): Promise<Answer> {
    const answer = await binding.fetch(`http://computers/${name}`, { method: "POST", body: JSON.stringify(asked) });
    if (answer.ok) return (await answer.json()) as Answer;
    if (answer.status === 422) throw new Refused(await answer.text());
    throw new Error(`local computers answered ${answer.status}`);
  }
  return {
    create: (id) => ask("create", { id }),
    exists: (id) => ask("exists", { id }),
    destroy: (id) => ask("destroy", { id }),
    exec: async (id, command, signal) => {
      const run = crypto.randomUUID();
      const stop = () => void ask("stop", { id, run }).catch(() => {});
      signal.addEventListener("abort", stop);
      try {
        return await ask<"exec", Ran>("exec", { id, run, ...command });
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
  };
}
