/** What lists of clusters are sorted by, by column of their table. */
export const clusterSorts = { handle: 'HANDLE', state: 'STATE', version: 'CURRENT_VERSION', pinged: 'PINGED_AT' } as const;
/** The same of services. */
export const serviceSorts = { name: 'NAME', status: 'STATUS', changed: 'UPDATED_AT' } as const;

/** A column of a table, with a `-` before it for the greatest first: as the address has it. */
export type SortWord = string;

/** The word, if a list may be sorted so. */
export function sortWord(fields: Record<string, string>, value: unknown): SortWord | undefined {
  return typeof value === 'string' && Object.hasOwn(fields, value.replace(/^-/, '')) ? value : undefined;
}

/** An order as the API takes it; none for the order that lists have by themselves. */
export function orderOf<Field extends string>(fields: Record<string, Field>, word: SortWord | undefined) {
  const by = word === undefined ? undefined : fields[word.replace(/^-/, '')];
  return by === undefined ? null : { by, descending: word?.startsWith('-') === true };
}

/** What a column does to a list: up, down, and back to the order that the list has by itself. */
export function turned(column: string, word: SortWord | undefined): SortWord | undefined {
  if (word === column) return `-${column}`;
  return word === `-${column}` ? undefined : column;
}
