/** Three texts of one thing become one: what only one side changed is as that side has it; where both did, ours stands. */
export function merged(base: unknown, ours: unknown, theirs: unknown): unknown {
  if (same(ours, base)) return theirs;
  if (same(theirs, base) || !isMap(ours) || !isMap(theirs)) return ours;
  const before = isMap(base) ? base : {};
  const keys = new Set([...Object.keys(theirs), ...Object.keys(ours)]);
  const pairs = [...keys].map((key): [string, unknown] => [key, merged(before[key], ours[key], theirs[key])]);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
