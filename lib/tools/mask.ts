export const masker =
  (_values: Iterable<string>) =>
  <T>(value: T): T =>
    value;
