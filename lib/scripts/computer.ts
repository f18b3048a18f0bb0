/** Where scripts of sessions and runs compute. It has no secret and no database: what a script learns, its caller hands it. */
import { WorkerEntrypoint } from "cloudflare:workers";
import { Gate } from "../http/gate.ts";
import { edgeWorld, runScript, type ScriptRun } from "../script/index.ts";
import type { Given, Outside } from "./compute.ts";

/** Of one place at once in an isolate; who waits here has nobody who looks on, and so waits long. */
const turns = new Gate({ most: 2, waiters: 1000, wait_ms: 300_000 });
/** How often it asks whether it shall go on. */
const LOOK_MS = 1000;

export class ScriptComputer extends WorkerEntrypoint {
  run(place: string, source: string, given: Given, outside: Outside): Promise<ScriptRun> {
    return turns.pass(place, () => {
      const edge = edgeWorld({ fetch: async () => Response.error() });
      let looked = Date.now();
      const rest = async () => {
        await edge.rest();
        if (Date.now() - looked < LOOK_MS) return;
        looked = Date.now();
        if (!(await outside.goesOn())) throw new Error("the script was ended");
      };
      const world = { ...edge, rest, call: outside.call };
      return runScript(source, { ...given, world, scripts: outside.script });
    });
  }
}
