import { Hono } from "hono";
import type { Bindings } from "../env.ts";

/** What every handler finds, before `allow` has added the viewer and the database. */
export type Env = { Bindings: Bindings; Variables: { requestId: string } };

/** A resource's router. Write each address in full, and never call `use`: routers are mounted at `/`. */
export const router = () => new Hono<Env>();
