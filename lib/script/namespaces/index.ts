import type { Native } from "../entry.ts";
import type { Namespace } from "../values.ts";
import { array } from "./array.ts";
import { builtinFunctions } from "./builtins.ts";
import { datetime } from "./datetime.ts";
import { jwt } from "./jwt.ts";
import { log } from "./log.ts";
import { map } from "./map.ts";
import { math } from "./math.ts";
import { agents, email, slack, storage, threads, users } from "./platform.ts";
import { requests } from "./requests.ts";
import { result } from "./result.ts";
import { string } from "./string.ts";
import { test } from "./test.ts";

/** Everything `import("…")` knows. The reference, the checker and the interpreter all read this table. */
export const namespaces: ReadonlyMap<string, Namespace> = new Map(
  [requests, array, string, map, datetime, math, result, jwt, log, test]
    .concat([agents, threads, users, storage, email, slack])
    .map((namespace) => [namespace.name, namespace]),
);

/** What every script can call without importing anything. */
export const builtins: ReadonlyMap<string, Native> = new Map(builtinFunctions.map((native) => [native.name, native]));
