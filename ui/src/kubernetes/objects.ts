/** Objects as the API server sends them. Nothing in them is sure: each field is looked at before it is used. */

export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

export interface Meta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: Owner[];
  finalizers?: string[];
  managedFields?: unknown[];
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  [field: string]: unknown;
}

export interface KubeList<Item = KubeObject> {
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  items: Item[];
}

/** A field that may not be there, or be something else. */
export function at(value: unknown, ...path: (string | number)[]): unknown {
  let found = value;
  for (const step of path) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string | number, unknown>)[step];
  }
  return found;
}

export function textAt(value: unknown, ...path: (string | number)[]): string | undefined {
  const found = at(value, ...path);
  if (typeof found === 'string') return found;
  return ['number', 'boolean', 'bigint'].includes(typeof found) ? String(found) : undefined;
}

export function numberAt(value: unknown, ...path: (string | number)[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === 'number' ? found : undefined;
}

export function listAt(value: unknown, ...path: (string | number)[]): unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? (found as unknown[]) : [];
}

/** A map of words, as labels are. */
export function mapAt(value: unknown, ...path: (string | number)[]): Record<string, string> | undefined {
  const found = at(value, ...path);
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return undefined;
  return Object.fromEntries(Object.entries(found).filter((pair): pair is [string, string] => typeof pair[1] === 'string'));
}

/** `matchLabels` and `matchExpressions` as a query takes them. */
export function selectorText(selector: unknown): string {
  const labels = Object.entries(mapAt(selector, 'matchLabels') ?? {}).map(([name, value]) => `${name}=${value}`);
  const expressions = listAt(selector, 'matchExpressions').flatMap((one) => {
    const key = textAt(one, 'key');
    const values = listAt(one, 'values').join(',');
    if (key === undefined) return [];
    switch (textAt(one, 'operator')) {
      case 'In':
        return [`${key} in (${values})`];
      case 'NotIn':
        return [`${key} notin (${values})`];
      case 'Exists':
        return [key];
      case 'DoesNotExist':
        return [`!${key}`];
      default:
        return [];
    }
  });
  return [...labels, ...expressions].join(',');
}

/** `cpu: 250m` as a number: cores, bytes, or a count. */
export function quantity(text: string | undefined): number | undefined {
  const parts = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/.exec(text ?? '');
  if (!parts) return undefined;
  const value = Number(parts[1]);
  return Number.isFinite(value) ? value * (UNITS[parts[2] ?? ''] ?? 1) : undefined;
}

const UNITS: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};
