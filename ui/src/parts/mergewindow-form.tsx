import { Checkbox, Group, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { MergeWindowAttributes } from '../generated/graphql';
import { ApiError, ask } from '../lib/client';
import type { MergeWindow } from './mergewindows';
import { cronFault, dailyOf, DAYS, lengthFault, lengthOf, scheduleOf, secondsOf, timeFault, zoneFault } from './schedule';
import { Name, Until } from './text';
import { asRows, faulty, isOn, missing, rowsOfThings, thingsOfRows, type Field, type InputProps, type Values } from './values';

const MergeTime = graphql(/* GraphQL */ `
  query MergeTime($windows: [MergeWindowAttributes]) {
    pullRequestMergeTime(mergeWindows: $windows) {
      open
      opensAt
    }
  }
`);

const NAME = 'mergeWindows';
const words = { mon: 'Mon', tue: 'Tue', wed: 'Wed', thu: 'Thu', fri: 'Fri', sat: 'Sat', sun: 'Sun' };
const kinds = { ALLOW: 'merges only while it is open', DENY: 'merges nothing while it is open' };

function Days({ label, description, required, error, value, onChange }: InputProps) {
  return (
    <Checkbox.Group
      label={label}
      description={description}
      withAsterisk={required}
      error={error}
      value={value.split(',')}
      onChange={(chosen) => onChange(DAYS.filter((day) => chosen.includes(day)).join(','))}
    >
      <Group gap="sm" mt={4}>
        {DAYS.map((day) => (
          <Checkbox key={day} value={day} label={words[day]} size="xs" />
        ))}
      </Group>
    </Checkbox.Group>
  );
}

/** A window as a row of the form. */
function show({ kind, schedule, duration, timeZone }: MergeWindow): Values {
  const daily = dailyOf(schedule ?? '');
  return {
    kind: kind ?? 'ALLOW',
    days: daily?.days.join(',') ?? '',
    at: daily?.at ?? '',
    cron: daily ? '' : 'yes',
    schedule: daily ? '' : (schedule ?? ''),
    length: lengthOf(duration ?? 0),
    zone: timeZone ?? 'UTC',
  };
}

const written = (row: Values) =>
  isOn(row, 'cron') ? (row['schedule'] ?? '').trim() : scheduleOf({ days: (row['days'] ?? '').split(','), at: row['at'] ?? '' });

function give(row: Values, was?: MergeWindow): MergeWindowAttributes {
  const before = was ? show(was) : undefined;
  const isSame = before !== undefined && ['days', 'at', 'cron', 'schedule'].every((name) => (row[name] ?? '') === before[name]);
  return {
    kind: row['kind'] === 'DENY' ? 'DENY' : 'ALLOW',
    // In the words of who wrote it, as long as nobody writes another one.
    schedule: isSame ? (was?.schedule ?? '') : written(row),
    duration: secondsOf(row['length'] ?? '') ?? 0,
    timeZone: (row['zone'] ?? '').trim(),
  };
}

const row = (): Field[] => [
  {
    name: 'kind',
    label: 'What it does',
    kind: 'choice',
    isRequired: true,
    initial: 'ALLOW',
    options: Object.entries(kinds).map(([value, label]) => ({ value, label })),
  },
  {
    name: 'days',
    label: 'Opens on',
    isRequired: true,
    initial: 'mon,tue,wed,thu,fri',
    input: Days,
    when: (values) => !isOn(values, 'cron'),
  },
  {
    name: 'at',
    label: 'At',
    isRequired: true,
    initial: '22:00',
    placeholder: '22:00',
    fault: timeFault,
    when: (values) => !isOn(values, 'cron'),
  },
  { name: 'cron', label: 'Another schedule, in cron’s five fields', kind: 'check' },
  {
    name: 'schedule',
    label: 'Schedule',
    isRequired: true,
    placeholder: '0 22 1 * *',
    fault: cronFault,
    when: (values) => isOn(values, 'cron'),
  },
  {
    name: 'length',
    label: 'Stays open for',
    isRequired: true,
    initial: '4h',
    placeholder: '4h',
    hint: 'From a minute to a week: 30m, 4h, 1h 30m, 2d',
    fault: lengthFault,
  },
  {
    name: 'zone',
    label: 'Time zone',
    isRequired: true,
    initial: Intl.DateTimeFormat().resolvedOptions().timeZone,
    placeholder: 'Europe/Berlin',
    fault: zoneFault,
  },
];

const summary = (values: Values) =>
  `${values['kind'] === 'DENY' ? 'Merges nothing' : 'Merges'} for ${values['length'] ?? ''} from ${written(values)} ${values['zone'] ?? ''}`;

const given = (values: Values): MergeWindowAttributes[] =>
  thingsOfRows<MergeWindow & MergeWindowAttributes, MergeWindowAttributes>(values, NAME, show, give);

/** When windows as they stand in the form let a merge through. */
function Opens({ rows }: { rows: Values[] }) {
  const values = { [NAME]: asRows(rows) };
  const isWhole = missing([field([])], values).length === 0 && faulty([field([])], values).length === 0;
  const [asked] = useDebouncedValue(isWhole ? JSON.stringify(given(values)) : '[]', 200);
  return isWhole && rows.length > 0 && asked !== '[]' ? (
    <WindowsOpen windows={JSON.parse(asked) as MergeWindowAttributes[]} />
  ) : null;
}

/** When windows let a merge through next, as the console says. */
export function WindowsOpen({ windows }: { windows: MergeWindowAttributes[] }) {
  const query = useQuery({
    queryKey: ['merge time', windows],
    queryFn: async ({ signal }) => (await ask(MergeTime, { windows }, signal)).pullRequestMergeTime,
    retry: false,
    refetchInterval: false,
  });
  if (query.isError) return <Refused error={query.error} />;
  const { open, opensAt } = query.data ?? {};
  return (
    <Text size="sm" role="status" c="dimmed">
      {query.data == null ? (
        'Looking when they open…'
      ) : open === true ? (
        'A merge goes through now.'
      ) : opensAt == null ? (
        'Nothing is merged for more than a year.'
      ) : (
        <>
          The next merge goes through <Until at={opensAt} />: {new Date(opensAt).toLocaleString()}.
        </>
      )}
    </Text>
  );
}

function Refused({ error }: { error: Error }) {
  const [, at, rest] = /^mergeWindows\.(\d+)\.(.*)$/s.exec(error.message) ?? [];
  const isFault = error instanceof ApiError && error.code === 'INVALID';
  return (
    <Text size="sm" role="status" style={{ color: 'var(--tone-bad)' }}>
      {isFault ? (at === undefined ? '' : `Window ${Number(at) + 1}: `) : 'Cannot look when they open: '}
      <Name of={rest ?? error.message} />.
    </Text>
  );
}

const whole = (window: MergeWindow) => ({ ...window, schedule: window.schedule ?? '', duration: window.duration ?? 0 });

/** Merge windows, as they are, to be changed. */
export function mergeWindowsField(windows: MergeWindow[]): Field {
  return field(windows.map(whole));
}

function field(windows: (MergeWindow & MergeWindowAttributes)[]): Field {
  return {
    name: NAME,
    label: 'Merge windows',
    kind: 'list',
    each: 'window',
    hint: 'When it may be merged; at any time without one. One that merges nothing wins over the others.',
    initial: rowsOfThings(windows, show),
    row,
    summary,
    tells: Opens,
  };
}

/** Windows that the form says. */
export const mergeWindowsOf = given;

/** Windows as they are asked about. */
export const mergeWindowsAsked = (windows: MergeWindow[]): MergeWindowAttributes[] => windows.map(whole);
