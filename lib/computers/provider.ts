/** What whoever makes computers does, and what is the same for each. */

/** `dir` null: the home directory. */
export type Command = { command: string; dir: string | null; timeout_seconds: number };
/** `exit_code` null: the command was ended, and the output's last line says why. */
export type Ran = { exit_code: number | null; output: string };

/**
 * A computer is known to its provider by its row's id. Throws `Refused` where asking again would change nothing, and
 * anything else where nobody can tell what has become of what was asked.
 */
export interface Provider {
  /** Makes it, unless it is there. Gives up within a minute. */
  create(id: string): Promise<void>;
  exists(id: string): Promise<boolean>;
  /** Runs one command to its end, or until `signal` says to end it. */
  exec(id: string, command: Command, signal: AbortSignal): Promise<Ran>;
  /** Ends it, and all that runs there. Answers when it is gone, also if it never was. */
  destroy(id: string): Promise<void>;
}

/** A provider's no, as a sentence for people. */
export class Refused extends Error {}

/** So many bytes of output are kept; a command that says more is ended. */
export const MAX_OUTPUT = 1_000_000;
/** The last line of what was ended, and why. */
export const ended = (why: string) => `\n[ended: ${why}]\n`;
export const TOO_MUCH = "it said more than 1 MB";
export const tooLong = (seconds: number) => `it took more than ${seconds} seconds`;
