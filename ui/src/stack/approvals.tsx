import { Text } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';

import { isLong, PAGE, useNext } from '../lib/list';
import { short } from '../lib/text';
import { text } from '../parts/cells';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { commands } from './commands';
import { agreed } from './run-actions';
import { kinds } from './states';
import { Summary } from './summary';
import { waitingQuery, type WaitingRun } from './waiting';

/** To agree, one opens the run and reads its plan. */
const columns: Columns<WaitingRun> = [
  {
    id: 'stack',
    header: 'Stack',
    meta: { track: 'minmax(140px, 1.2fr)' },
    cell: ({ row: { original: run } }) => (
      <RouteLink to={paths.stackRun(run.stack?.name ?? '', run.id)} strong>
        <Name of={`${run.stack?.name ?? ''} #${run.number}`} />
      </RouteLink>
    ),
  },
  { id: 'kind', header: 'What', meta: { track: '80px', from: 620 }, cell: ({ row }) => kinds[row.original.kind] },
  {
    id: 'plan',
    header: 'Plan',
    meta: { track: 'minmax(150px, 1.8fr)' },
    cell: ({ row }) => row.original.plan && <Summary plan={row.original.plan} isCell />,
  },
  {
    id: 'commit',
    header: 'Commit',
    meta: { track: 'minmax(120px, 1.4fr)', from: 900 },
    cell: ({ row: { original: run } }) =>
      run.sha != null && (
        <>
          <code>{short(run.sha)}</code> {run.message != null && <Name of={run.message} />}
        </>
      ),
  },
  {
    id: 'project',
    header: 'Project',
    meta: { track: 'minmax(80px, 0.7fr)', from: 1060 },
    cell: ({ row }) => text(row.original.stack?.project?.name),
  },
  {
    id: 'agreed',
    header: 'Agreed',
    meta: { track: '76px', from: 620, isNumber: true },
    cell: ({ row: { original: run } }) => `${agreed(run)} of ${run.requiredApprovals}`,
  },
  {
    id: 'at',
    header: 'Planned',
    meta: { track: '84px', from: 480, isNumber: true },
    cell: ({ row }) => <Ago at={row.original.plan?.at ?? row.original.createdAt} />,
  },
];

/** Milliseconds between two reads while somebody looks at the inbox. */
const LOOKED_AT = 15_000;

/** Plans that wait for somebody's word, of all stacks that one may see. */
export function ApprovalsPage() {
  const list = useInfiniteQuery({ ...waitingQuery(PAGE), refetchInterval: (asked) => (isLong(asked) ? false : LOOKED_AT) });
  const next = useNext(list);
  return (
    <Page title="Approvals" isFull>
      <Text size="sm">
        Runs of stacks whose plan waits for somebody’s word. Services whose deletions wait stand under{' '}
        <RouteLink to={paths.services()} search={{ status: 'PAUSED' }}>
          Services that need approval
        </RouteLink>
        . By command line: <code>{commands.waiting}</code>
      </Text>
      <Shown query={list} what="what waits for approval">
        <Table
          label="Runs that wait for approval"
          rows={list.data ?? []}
          columns={columns}
          id={(run) => run.id}
          isWaiting={list.isPending}
          next={next}
          empty={
            <Empty title="Nothing waits for approval">
              A plan of a stack that asks for approval waits here until enough people agree to it, or somebody rejects it.
            </Empty>
          }
        />
      </Shown>
    </Page>
  );
}
