import { pairs, words, type Field, type Values } from '../parts/values';

interface Toleration {
  key?: string | null;
  operator?: string | null;
  value?: string | null;
  effect?: string | null;
}

/** A JSON object of texts, one `key=value` a line. */
export const lines = (of: unknown): string =>
  typeof of === 'object' && of !== null
    ? Object.entries(of)
        .map(([key, value]) => `${key}=${String(value)}`)
        .join('\n')
    : '';

/** Such lines as a JSON object. */
export const asMap = (values: Values, name: string) =>
  JSON.stringify(Object.fromEntries(pairs(values, name).map((pair) => [pair.name, pair.value])));

/** Taints as `kubectl taint` writes them, `dedicated=runs:NoSchedule`; all of them are `*`. */
export const tolerated = (all: readonly (Toleration | null)[] | null | undefined): string =>
  (all ?? [])
    .flatMap((one) => {
      if (!one) return [];
      const { key, operator, value, effect } = one;
      const isAny = operator === 'Exists';
      const taint = key == null || key === '' ? '*' : isAny ? key : `${key}=${value ?? ''}`;
      return [effect == null || effect === '' ? taint : `${taint}:${effect}`];
    })
    .join('\n');

/** The same the other way. */
export const tolerations = (values: Values): Toleration[] =>
  words(values, 'taints').map((word) => {
    const [taint = '', effect] = word.split(':');
    const [key = '', ...value] = taint.split('=');
    return {
      ...(key !== '*' && { key }),
      ...(value.length === 0 ? { operator: 'Exists' } : { operator: 'Equal', value: value.join('=') }),
      ...(effect !== undefined && effect !== '' && { effect }),
    };
  });

/** Which nodes take the Jobs of a stack. */
export const nodeFields = (
  job?: { nodeSelector?: unknown; tolerations?: readonly (Toleration | null)[] | null } | null,
): Field[] => [
  {
    name: 'nodes',
    label: 'Labels of its node',
    kind: 'area',
    initial: lines(job?.nodeSelector),
    placeholder: 'pool=runs',
    hint: 'One a line; any node when empty',
  },
  {
    name: 'taints',
    label: 'Taints that it tolerates',
    kind: 'area',
    initial: tolerated(job?.tolerations),
    placeholder: 'dedicated=runs:NoSchedule',
    hint: 'KEY, KEY=VALUE, or one of these with :EFFECT, one a line',
  },
];

/** What a form says of the nodes, where it says something. */
export const nodeAttributes = (values: Values) => ({
  ...((values['nodes'] ?? '').trim() !== '' && { nodeSelector: asMap(values, 'nodes') }),
  ...((values['taints'] ?? '').trim() !== '' && { tolerations: tolerations(values) }),
});
