/** A thread that makes an empty cluster of the embedded Postgres: it is busy with it for seconds. Answers a tar, by zstd. */
import { parentPort } from "node:worker_threads";
import { constants, zstdCompressSync } from "node:zlib";
import { PGlite } from "@electric-sql/pglite";

const postgres = await PGlite.create();
const tar = await postgres.dumpDataDir("none");
parentPort!.postMessage(zstdCompressSync(await tar.bytes(), { params: { [constants.ZSTD_c_compressionLevel]: 1 } }));
