/** The schema that this code wants: schema.sql is 1, each file of lib/db/migrations/ is one more. */
export const SCHEMA_VERSION = 1;
