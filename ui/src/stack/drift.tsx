import { Code, Group, Stack, Text } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconPlayerPlay, IconRadar } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { useNext } from '../lib/list';
import { counted, visible } from '../lib/text';
import { Action, Command } from '../parts/action';
import { Empty, Facts, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { State } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink, Until } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { driftQuery, type DriftField, type DriftRow } from './drift-queries';
import { CheckDrift, Trigger } from './mutations';
import type { StackOne } from './queries';
import { driftActions, driftStatuses } from './states';

/** What something other than its tool changed of a stack, as the last good look found it. */
export function Drift({ stack }: { stack: StackOne }) {
  const { name } = stack;
  const query = useInfiniteQuery(driftQuery(name));
  const next = useNext(query);
  return (
    <Stack gap="md">
      <Known stack={stack} />
      <Panel title="Resources that drifted">
        <Shown query={query} what="what drifted">
          <Table
            isShort
            isTall
            label="Resources that drifted"
            hasHead={(query.data ?? []).length > 0}
            rows={query.data ?? []}
            columns={columns(name)}
            id={(row) => row.id}
            isWaiting={query.isPending}
            next={next}
            empty={
              <Empty title={stack.driftStatus === 'UNCHECKED' ? 'Nobody has looked yet' : 'Nothing drifted'}>
                {stack.driftStatus === 'UNCHECKED'
                  ? 'Look now compares what the tool knows with what there is, and changes nothing.'
                  : 'There is what the tool knows.'}
              </Empty>
            }
          />
        </Shown>
        <div style={{ padding: 12 }} data-no-print>
          <Command line={commands.drift(name)} />
        </div>
      </Panel>
    </Stack>
  );
}

function Known({ stack }: { stack: StackOne }) {
  const navigate = useNavigate();
  const { id, name, driftCheck: check, driftSchedule: schedule } = stack;
  const leaves = stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.';
  const noSource =
    stack.git == null ? 'The console knows no code of this stack: give it a repository under Settings first.' : undefined;
  const to = async (run: { id: string } | null | undefined) => {
    if (run) await navigate({ to: paths.stackRun(name, run.id) });
  };
  return (
    <Panel
      title="Drift"
      aside={
        <Group gap="xs">
          <Action
            noun="stack"
            isSmall
            label="Look now"
            icon={IconRadar}
            right={stackRight(name, 'write')}
            unless={leaves ?? noSource}
            explains="A run compares what the tool knows with what there is. It changes nothing, waits for nobody, and ends no other run."
            command={commands.lookForDrift(name)}
            run={async () => to((await ask(CheckDrift, { id })).checkStackDrift)}
            done="The run is made"
          />
          {stack.driftStatus === 'DRIFTED' && (
            <Action
              noun="stack"
              isSmall
              label="Plan a run"
              icon={IconPlayerPlay}
              right={stackRight(name, 'write')}
              unless={leaves ?? noSource}
              explains={
                stack.approval === true
                  ? 'An ordinary run: it plans what brings the infrastructure back to the code, and waits for approval.'
                  : 'An ordinary run: it brings the infrastructure back to the code at once. This stack needs no approval.'
              }
              command={commands.run(name, 'APPLY')}
              run={async () => to((await ask(Trigger, { id, dryRun: false, destroy: false })).triggerRun)}
              done="The run is made"
            />
          )}
        </Group>
      }
    >
      <Facts
        facts={[
          ['Status', <State key="state" look={driftStatuses[stack.driftStatus]} />],
          ['Found', check?.checkedAt != null && counted(check.count, 'resource')],
          ['Not listed', check != null && check.leftOut > 0 && `${counted(check.leftOut, 'resource')}: there are too many`],
          ['First found', stack.driftedAt != null && <Ago key="since" at={stack.driftedAt} />],
          [
            'Last checked',
            check?.checkedAt != null && (
              <>
                <Ago at={check.checkedAt} />
                {check.runNumber != null && ` by run #${check.runNumber}`}
              </>
            ),
          ],
          [
            'Newest check',
            check?.error != null && (
              <>
                failed <Ago at={check.failedAt} />: <Name of={check.error} />
                {check.checkedAt != null && '. What is listed is from the last one that succeeded.'}
              </>
            ),
            'wide',
          ],
          [
            'Schedule',
            schedule?.crontab == null ? (
              'none: only when somebody asks'
            ) : (
              <>
                <Code>{visible(schedule.crontab)}</Code> {visible(schedule.timeZone ?? 'UTC')}
                {schedule.nextAt != null && (
                  <>
                    , next <Until at={schedule.nextAt} />
                  </>
                )}
              </>
            ),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}

const columns = (stack: string): Columns<DriftRow> => [
  {
    id: 'action',
    header: 'What',
    meta: { track: '96px' },
    cell: ({ row }) => <State look={driftActions[row.original.action]} />,
  },
  {
    id: 'fields',
    header: 'Fields, as known → as found',
    meta: { track: 'minmax(180px, 1fr)' },
    cell: ({ row: { original: row } }) => (
      <>
        <Text size="sm" component="div" fw={600}>
          <Name of={row.address} />
        </Text>
        {(row.fields ?? []).flatMap((field) => (field ? [<Field key={field.path} field={field} />] : []))}
        {row.leftOut > 0 && (
          <Text size="sm" c="dimmed" component="div">
            and {counted(row.leftOut, 'more difference')}
          </Text>
        )}
      </>
    ),
  },
  {
    id: 'type',
    header: 'Type',
    meta: { track: 'minmax(110px, 0.25fr)', from: 800 },
    cell: ({ row }) => <Name of={row.original.type} />,
  },
  {
    id: 'first',
    header: 'First found',
    meta: { track: '100px', from: 620, isNumber: true },
    cell: ({ row: { original: row } }) => <Ago at={row.firstSeenAt} />,
  },
  {
    id: 'run',
    header: 'By run',
    meta: { track: '70px', from: 620, isNumber: true },
    cell: ({ row: { original: row } }) => <RouteLink to={paths.stackRun(stack, row.runId)}>#{row.runNumber}</RouteLink>,
  },
];

/** A field before and after, as JSON. */
function Field({ field }: { field: DriftField }) {
  const value = (json: string | null | undefined) => (json == null ? 'nothing' : <Code>{visible(json)}</Code>);
  return (
    <Text size="sm" component="div">
      <Name of={field.path} />:{' '}
      {field.sensitive ? (
        'differs; it is sensitive and not shown'
      ) : (
        <>
          {value(field.before)} → {value(field.after)}
          {field.cut && ' (shortened)'}
        </>
      )}
    </Text>
  );
}
