import { Badge, Text } from '@mantine/core';
import { IconLock } from '@tabler/icons-react';

import { short } from '../lib/text';
import { text } from '../parts/cells';
import { State } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import type { RunRow, StackRow } from './queries';
import { kinds, noRun, runStatuses, triggers, typeWords } from './states';
import { Summary } from './summary';

function Mark({ text: word }: { text: string }) {
  return (
    <Badge variant="default" size="xs" ml={6} tt="none" fw={400}>
      {word}
    </Badge>
  );
}

/** Where its code is: the end of a long address tells one from another. */
export function sourceOf(stack: Pick<StackRow, 'repository' | 'git'>): string | undefined {
  if (!stack.git) return undefined;
  const { ref, folder } = stack.git;
  return `${stack.repository?.url ?? 'a repository that you may not see'} ${folder === '' ? '/' : folder} at ${ref}`;
}

export const stackColumns: Columns<StackRow> = [
  {
    id: 'name',
    header: 'Stack',
    meta: { track: 'minmax(130px, 1.2fr)' },
    cell: ({ row: { original: stack } }) => (
      <>
        <RouteLink to={paths.stack(stack.name)} strong>
          <Name of={stack.name} />
        </RouteLink>
        {stack.deletedAt != null && <Mark text="being deleted" />}
        {stack.paused && <Mark text="paused" />}
        {stack.protect && <Mark text="protected" />}
        {stack.driftStatus === 'DRIFTED' && <Mark text="drifted" />}
        {stack.sourceError != null && <Mark text="code cannot be read" />}
      </>
    ),
  },
  {
    id: 'type',
    header: 'Type',
    meta: { track: '100px', from: 620 },
    cell: ({ row }) => typeWords[row.original.type],
  },
  {
    id: 'status',
    header: 'Status',
    meta: { track: '140px' },
    cell: ({ row }) => <State look={row.original.status == null ? noRun : runStatuses[row.original.status]} />,
  },
  {
    id: 'source',
    header: 'Code',
    meta: { track: 'minmax(160px, 2fr)', from: 760, isCutAtStart: true },
    cell: ({ row: { original: stack } }) => text(sourceOf(stack)),
  },
  {
    id: 'cluster',
    header: 'Runs on',
    meta: { track: 'minmax(90px, 0.8fr)', from: 900 },
    cell: ({ row: { original: stack } }) =>
      stack.cluster?.handle == null ? (
        '–'
      ) : (
        <RouteLink to={paths.cluster(stack.cluster.handle)}>
          <Name of={stack.cluster.handle} />
        </RouteLink>
      ),
  },
  {
    id: 'run',
    header: 'Last run',
    meta: { track: '130px', from: 480, isNumber: true },
    cell: ({ row: { original: stack } }) => {
      const run = stack.newest?.edges?.[0]?.node;
      return run ? (
        <>
          <RouteLink to={paths.stackRun(stack.name, run.id)}>#{run.number}</RouteLink> <Ago at={run.createdAt} />
        </>
      ) : (
        '–'
      );
    },
  },
  {
    id: 'tags',
    header: 'Tags',
    meta: { track: 'minmax(110px, 1fr)', from: 960 },
    cell: ({ row }) => <StackTags tags={row.original.tags} />,
  },
  {
    id: 'serial',
    header: 'Serial',
    meta: { track: '70px', from: 1060, isNumber: true },
    cell: ({ row }) => row.original.stateVersion?.serial ?? '–',
  },
  {
    id: 'resources',
    header: 'Resources',
    meta: { track: '84px', from: 1000, isNumber: true },
    cell: ({ row }) => row.original.stateVersion?.resources?.toLocaleString('en') ?? '–',
  },
  {
    id: 'lock',
    header: 'Locked by',
    meta: { track: 'minmax(90px, 0.8fr)', from: 1160 },
    cell: ({ row: { original: stack } }) =>
      stack.lock ? (
        <>
          <IconLock size={13} aria-hidden /> <Name of={stack.lock.author} />
        </>
      ) : (
        '–'
      ),
  },
];

/** Tags, each a link to all stacks that have it. */
export function StackTags({ tags }: Pick<StackRow, 'tags'>) {
  return (tags ?? []).map(
    (tag) =>
      tag && (
        <Text key={tag.name} component="span" size="xs" mr={8}>
          <RouteLink to={paths.stacks()} search={{ tag: `${tag.name}=${tag.value}` }}>
            <Name of={`${tag.name}=${tag.value}`} />
          </RouteLink>
        </Text>
      ),
  );
}

export function runColumns(stack: string): Columns<RunRow> {
  return [
    {
      id: 'number',
      header: 'Run',
      meta: { track: '64px' },
      cell: ({ row: { original: run } }) => (
        <RouteLink to={paths.stackRun(stack, run.id)} strong>
          #{run.number}
        </RouteLink>
      ),
    },
    {
      id: 'status',
      header: 'Status',
      meta: { track: '140px' },
      cell: ({ row }) => <State look={runStatuses[row.original.status]} />,
    },
    { id: 'kind', header: 'What', meta: { track: '84px', from: 480 }, cell: ({ row }) => kinds[row.original.kind] },
    {
      id: 'plan',
      header: 'Plan',
      meta: { track: 'minmax(150px, 1.8fr)', from: 620 },
      cell: ({ row }) => (row.original.plan ? <Summary plan={row.original.plan} isCell /> : '–'),
    },
    {
      id: 'commit',
      header: 'Commit',
      meta: { track: 'minmax(130px, 1.6fr)', from: 760 },
      cell: ({ row: { original: run } }) =>
        run.sha == null ? (
          '–'
        ) : (
          <>
            <code>{short(run.sha)}</code> {run.message != null && <Name of={run.message} />}
          </>
        ),
    },
    {
      id: 'by',
      header: 'Made by',
      meta: { track: 'minmax(100px, 1fr)', from: 900 },
      cell: ({ row: { original: run } }) => (run.trigger === 'MANUAL' ? text(run.author) : triggers[run.trigger]),
    },
    {
      id: 'error',
      header: 'Why',
      meta: { track: 'minmax(120px, 1.6fr)', from: 1060 },
      cell: ({ row }) => text(row.original.error),
    },
    {
      id: 'at',
      header: 'Made',
      meta: { track: '90px', from: 480, isNumber: true },
      cell: ({ row }) => <Ago at={row.original.createdAt} />,
    },
  ];
}
