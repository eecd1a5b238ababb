/** JSON whose whole numbers stay as they are written: JavaScript's own lose digits above 2^53, and Kubernetes has 64 bits. */

/** Text between quotes, or a number: as a whole, so that the digits behind a point are not taken for one. */
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
/** A whole number of so many digits that some may be lost. */
const LONG = /^-?\d{16,}$/;
/** Whether there may be one at all: most answers have none, and are read as fast as ever. */
const MAY_BE_LONG = /[:,[\s]-?\d{16}/;
/** One of these stands before digits that were a number: a control character, which JSON can write in this way only. */
const MARKS = ['1', '2', '3', '4', '5', '6', '7'].map((digit) => `\\u000${digit}`);

/** Reads JSON. A whole number that JavaScript's numbers cannot hold becomes a `bigint`. */
export function parseExactly(text: string): unknown {
  // One that the text has itself tells nothing; a text that has all of them was made to confuse, and is read as it is.
  const mark = MAY_BE_LONG.test(text) ? MARKS.find((one) => !text.includes(one)) : undefined;
  if (mark === undefined) return JSON.parse(text);
  const first = JSON.parse(`"${mark}"`) as string;
  const marked = text.replace(TEXT_OR_NUMBER, (found) =>
    LONG.test(found) && !Number.isSafeInteger(Number(found)) ? `"${mark}${found}"` : found,
  );
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(first) ? BigInt(value.slice(1)) : value,
  );
}

/** Writes JSON, a `bigint` with all its digits. Throws at a number that JSON has no word for. */
export function textExactly(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number' && !Number.isFinite(value)) throw new Error(`${value} is no number that Kubernetes knows`);
  if (Array.isArray(value)) return `[${value.map((one: unknown) => textExactly(one ?? null)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const pairs = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${pairs.map(([name, one]) => `${JSON.stringify(name)}:${textExactly(one)}`).join(',')}}`;
}

/** The same value with a number wherever one holds all digits. */
export function plainNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (Array.isArray(value)) return value.map(plainNumbers);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plainNumbers(one)]));
}
