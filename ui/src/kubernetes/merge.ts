import { textExactly } from './exact';

/** Three texts of one thing become one: what only one side changed is as that side has it; where both did, ours stands. */
export function merged(base: unknown, ours: unknown, theirs: unknown): unknown {
  if (same(ours, base)) return theirs;
  if (same(theirs, base)) return ours;
  if (Array.isArray(ours) && Array.isArray(theirs)) return mergedLists(base, ours, theirs);
  if (!isMap(ours) || !isMap(theirs)) return ours;
  const [before, mine, other] = [fieldsOf(isMap(base) ? base : {}), fieldsOf(ours), fieldsOf(theirs)];
  return Object.fromEntries(mergedFields(before, mine, other, [...other.keys(), ...mine.keys()]));
}

/** Lists of things with names, as containers, ports and variables are, are merged thing by thing; of other lists ours stands. */
function mergedLists(base: unknown, ours: unknown[], theirs: unknown[]): unknown {
  const [before, mine, other] = [byName(Array.isArray(base) ? base : []), byName(ours), byName(theirs)];
  if (!before || !mine || !other) return ours;
  return mergedFields(before, mine, other, [...mine.keys(), ...other.keys()]).map(([, value]) => value);
}

type Fields = Map<string, unknown>;

function mergedFields(before: Fields, mine: Fields, other: Fields, names: string[]): [string, unknown][] {
  const pairs = [...new Set(names)].map((name): [string, unknown] => [
    name,
    merged(before.get(name), mine.get(name), other.get(name)),
  ]);
  return pairs.filter(([, value]) => value !== undefined);
}

/** Own fields only: a label may be called `constructor`. */
function fieldsOf(map: Record<string, unknown>): Fields {
  return new Map(Object.entries(map));
}

/** By names that are all there and all different. */
function byName(list: unknown[]): Fields | undefined {
  const found: Fields = new Map();
  for (const one of list) {
    const name = isMap(one) ? one['name'] : undefined;
    if (typeof name !== 'string' || found.has(name)) return undefined;
    found.set(name, one);
  }
  return found;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function same(a: unknown, b: unknown): boolean {
  return textOf(a) === textOf(b);
}

/** What is not there is no `null`. */
function textOf(value: unknown): string {
  return value === undefined ? '' : textExactly(value);
}
