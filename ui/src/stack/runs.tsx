import { useInfiniteQuery, type Query } from '@tanstack/react-query';
import { useState } from 'react';

import type { StackRunGroup } from '../generated/graphql';
import { isLong, useNext } from '../lib/list';
import { again } from '../lib/poll';
import { Command } from '../parts/action';
import { Facets } from '../parts/filter';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table } from '../parts/table';
import { commands } from './commands';
import { busy, isBusy, runsQuery, type StackOne } from './queries';
import { runColumns } from './table';

/** The group of runs to show; absent: all. */
const GROUPS: { value: StackRunGroup | undefined; label: string }[] = [
  { value: 'STACK', label: 'Of the stack' },
  { value: 'PULL_REQUEST', label: 'Pull requests' },
  { value: 'DRIFT', label: 'Looks for drift' },
  { value: 'COMMANDS', label: 'Commands' },
  { value: undefined, label: 'All' },
];

/** Runs of a stack, newest first: its own plans, applies and destructions, unless the user selects others. */
export function Runs({ stack }: { stack: StackOne }) {
  const { name } = stack;
  const isGoing = isBusy(stack);
  const [of, setOf] = useState<StackRunGroup | undefined>('STACK');
  const list = useInfiniteQuery({
    ...runsQuery(name, of),
    refetchInterval: (asked) => (isGoing && !isLong(asked) ? busy() : again(asked as unknown as Query)),
  });
  const next = useNext(list);
  return (
    <Panel title="Runs" aside={<Facets label="What the runs are of" choices={GROUPS} value={of} onChange={setOf} />}>
      <Shown query={list} what="its runs">
        <Table
          isShort
          label="Runs"
          rows={list.data ?? []}
          columns={runColumns(name)}
          id={(run) => run.id}
          isWaiting={list.isPending}
          hasHead={(list.data ?? []).length > 0}
          next={next}
          empty={
            <Empty title={of === undefined ? 'No run yet' : 'No such run yet'}>
              {stack.git == null
                ? 'The console knows no code of it: only its state is kept here.'
                : 'A run plans what the code says, waits for whoever has to agree, and applies exactly that plan.'}
            </Empty>
          }
        />
      </Shown>
      <div style={{ padding: 12 }} data-no-print>
        <Command line={commands.runs(name, of !== 'STACK')} />
      </div>
    </Panel>
  );
}
