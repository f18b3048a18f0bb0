import { walk } from "./isolation/walk.ts";

walk("TenantDb's filters alone");
