/**
 * Makes the OpenAPI document of the routes, as a file that the Workers root and all take in: they carry nothing that
 * making it needs. `npm start` runs this where a route has changed, and wrangler before it builds one of the two.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe } from "../http/openapi.ts";
import { worker } from "../http/worker.ts";
import { DOCUMENT, ROOT } from "./groups.ts";

const { groups } = await import(join(ROOT, "functions/groups.ts"));
const document = await describe(worker(...Object.values<never[]>(groups).flat()));
mkdirSync(dirname(DOCUMENT), { recursive: true });
// Whole or not at all: two may be at it.
const draft = `${DOCUMENT}.${process.pid}`;
writeFileSync(draft, JSON.stringify(document));
renameSync(draft, DOCUMENT);
