/** Objects that are asked at once. */
const AT_ONCE = 16;

/** Asks the object of each row, a few at a time. Each fails alone; back come those that didn't. */
export async function forEach<Row extends object>(
  rows: readonly Row[],
  ask: (row: Row) => Promise<unknown>,
): Promise<Row[]> {
  const left = rows.values();
  const done: Row[] = [];
  const work = async () => {
    for (const row of left) {
      try {
        await ask(row);
        done.push(row);
      } catch (error) {
        const { org_id, id } = row as { org_id?: string; id?: string };
        console.error(JSON.stringify({ object_of: id ?? org_id, error: String(error) }));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return done;
}
