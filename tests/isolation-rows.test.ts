import { walk } from "./isolation/walk.ts";

walk("row-level security alone");
