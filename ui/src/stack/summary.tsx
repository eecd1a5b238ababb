import { Text } from '@mantine/core';

import { counted } from '../lib/text';
import { State } from '../parts/state';
import { fates } from './states';

export interface Counts {
  add: number;
  change: number;
  destroy: number;
  /** Outputs change, or the tool cannot say what it would do. */
  other: boolean;
}

export const changesNothing = ({ add, change, destroy, other }: Counts): boolean =>
  add === 0 && change === 0 && destroy === 0 && !other;

/** What a plan would do, by number: what it destroys stands first, in red, with a sign and the word. In a cell, on one line. */
export function Summary({ plan, isCell = false }: { plan: Counts; isCell?: boolean }) {
  const to = (count: number, word: string) => `${count.toLocaleString('en')} ${isCell ? '' : 'to '}${word}`;
  if (changesNothing(plan))
    return (
      <Text component="span" size="sm">
        Changes nothing
      </Text>
    );
  return (
    <span style={{ display: 'inline-flex', flexWrap: isCell ? 'nowrap' : 'wrap', gap: '2px 12px' }}>
      {plan.destroy > 0 && (
        <strong style={{ color: 'var(--tone-bad)' }}>
          <State look={{ ...fates.destroy, word: to(plan.destroy, 'destroy') }} />
        </strong>
      )}
      {plan.change > 0 && <State look={{ ...fates.update, word: to(plan.change, 'change') }} />}
      {plan.add > 0 && <State look={{ ...fates.create, word: to(plan.add, 'create') }} />}
      {plan.other && !(isCell && plan.add + plan.change + plan.destroy > 0) && (
        <Text component="span" size="sm">
          {plan.add + plan.change + plan.destroy > 0
            ? 'Other changes, such as outputs'
            : 'Changes no resource; outputs may change'}
        </Text>
      )}
    </span>
  );
}

/** The same in words, for messages. */
export function told(plan: Counts): string {
  if (changesNothing(plan)) return 'nothing is changed';
  return [
    plan.add > 0 && `${counted(plan.add, 'resource')} created`,
    plan.change > 0 && `${counted(plan.change, 'resource')} changed`,
    plan.destroy > 0 && `${counted(plan.destroy, 'resource')} destroyed`,
    plan.other && 'outputs, or what the tool cannot say, changed',
  ]
    .filter((part) => typeof part === 'string')
    .join(', ');
}
