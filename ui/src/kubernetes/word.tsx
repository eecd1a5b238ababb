import {
  IconAlertTriangleFilled,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleXFilled,
  IconProgress,
  type Icon,
} from '@tabler/icons-react';

import { visible } from '../lib/text';
import type { Tone } from '../parts/state';
import classes from './grid.module.css';

const SIGNS: Record<Tone, Icon> = {
  bad: IconCircleXFilled,
  warn: IconAlertTriangleFilled,
  busy: IconProgress,
  good: IconCircleCheckFilled,
  none: IconCircleDashed,
};

const GOOD = /^(Running|Ready|Active|Bound|Available|Healthy|Succeeded|Established|True)$/;
const NONE = /^(Completed|Complete|Released|Normal|<none>)$/;
const BUSY = /^(Pending|ContainerCreating|PodInitializing|Init:\d.*|Terminating|Progressing|Creating|Running,.*)$/;
const WARN = /^(Unknown|Warning|.*SchedulingDisabled|NotReady.*|Suspended)$/;
const BAD = /(Error|BackOff|Failed|Evicted|OOMKilled|Invalid|Lost|Unschedulable|Cannot|ErrImage|Deadline)/;

/** What a word of a status column means. A word that nobody here knows stays a word. */
export function toneOf(text: string): Tone | undefined {
  if (GOOD.test(text)) return 'good';
  if (BUSY.test(text)) return 'busy';
  if (text.startsWith('NotReady')) return 'bad';
  if (WARN.test(text)) return 'warn';
  if (NONE.test(text)) return 'none';
  return BAD.test(text) ? 'bad' : undefined;
}

const STATUS = new Set(['Status', 'Phase', 'State', 'Type', 'Health', 'Reason']);

/** A cell of a table: with a sign where its column tells a state. */
export function Word({ column, text }: { column: string; text: string }) {
  const tone = STATUS.has(column) ? toneOf(text) : undefined;
  if (tone === undefined) return <bdi>{visible(text)}</bdi>;
  const Sign = SIGNS[tone];
  return (
    <span className={classes['cell']} data-tone={tone}>
      <Sign size={14} aria-hidden />
      <bdi>{visible(text)}</bdi>
    </span>
  );
}
