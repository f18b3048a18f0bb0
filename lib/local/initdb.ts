/**
 * A thread that makes a cluster of the embedded Postgres and runs a script in it: it is busy with it for seconds. Answers
 * a tar, by zstd.
 */
import { parentPort, workerData } from "node:worker_threads";
import { constants, zstdCompressSync } from "node:zlib";
import { PGlite } from "@electric-sql/pglite";

const postgres = await PGlite.create();
await postgres.exec(workerData);
const tar = await postgres.dumpDataDir("none");
parentPort!.postMessage(zstdCompressSync(await tar.bytes(), { params: { [constants.ZSTD_c_compressionLevel]: 1 } }));
