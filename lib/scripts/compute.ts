/** Scripts of sessions and runs compute in a Worker of their own: one that spins holds up no object's answers. */
import type { Answer, OutboundCall, RunOptions, ScriptRun } from "../script/index.ts";

/** What a script is given there; all else is asked for here. */
export type Given = Pick<RunOptions, "input" | "env" | "viewer" | "journal" | "limits">;
/** What a script that computes elsewhere asks of whom it runs for. */
export type Outside = {
  call: (n: number, call: OutboundCall & { hash: string }) => Promise<(Answer & { at?: string }) | "pause">;
  script: (lookup_key: string) => Promise<string | null>;
  /** Whether it shall go on. */
  goesOn: () => Promise<boolean>;
};

export interface ComputeRemote extends Rpc.WorkerEntrypointBranded {
  /** Runs it in its place's turn. Throws what isn't the script's doing, as where its Worker ends. */
  run(place: string, source: string, given: Given, outside: Outside): Promise<ScriptRun>;
}

/**
 * `runScript`, there. What the world or `scripts` throws flies on as it is. A Worker that ends in the middle throws, too:
 * its caller knows what the script has learned so far, and runs it again from there.
 */
export async function computeScript(
  { COMPUTE }: { COMPUTE: unknown },
  place: string,
  source: string,
  { world, scripts, ...given }: RunOptions,
): Promise<ScriptRun> {
  let thrown = null as { error: unknown } | null;
  const keep = (error: unknown) => {
    thrown ??= { error };
  };
  const outside: Outside = {
    call: async (n, call) => {
      try {
        return await world.call(n, call);
      } catch (error) {
        keep(error);
        return "pause";
      }
    },
    script: async (key) => {
      try {
        return (await scripts?.(key)) ?? null;
      } catch (error) {
        keep(error);
        return null;
      }
    },
    goesOn: async () => {
      try {
        await world.rest();
        return true;
      } catch (error) {
        keep(error);
        return false;
      }
    },
  };
  const compute = COMPUTE as { run(...asked: Parameters<ComputeRemote["run"]>): Promise<ScriptRun> };
  const ran = await compute.run(place, source, given, outside).catch((error) => {
    throw thrown ? thrown.error : error;
  });
  if (thrown) throw thrown.error;
  return ran;
}
