/** Where scripts compute, and no route: whoever runs one binds this Worker. */
export { ScriptComputer } from "../../lib/scripts/computer.ts";
export default { fetch: () => new Response(null, { status: 404 }) };
