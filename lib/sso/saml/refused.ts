/** A login or a logout that is not taken. The message is for the org's admins: what is wrong, and what to set. */
export class Refused extends Error {}
