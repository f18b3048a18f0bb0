/** What lib/local/document.ts makes, before the Workers are built. */
declare module "*/dist/openapi.json" {
  const document: { openapi: string };
  export default document;
}
