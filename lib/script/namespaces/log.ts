import { entry, namespace } from "../entry.ts";

const level = (name: string, doc: string) =>
  entry({
    name,
    params: ["...values: any"],
    returns: "null",
    doc,
    example: `log.${name}("seen", 3)`,
    gives: null,
    run: (run, ...values) => {
      run.print(values, name);
      return null;
    },
  });

export const log = namespace("log", "Entries of the script's output with a level and a time.", [
  level("debug", "For who looks for a fault."),
  level("info", "What happened."),
  level("warn", "What should be looked at."),
  level("error", "What went wrong."),
]);
