import { useInfiniteQuery, type Query } from '@tanstack/react-query';

import { isLong, useNext } from '../lib/list';
import { again } from '../lib/poll';
import { Command } from '../parts/action';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table } from '../parts/table';
import { commands } from './commands';
import { busy, isBusy, runsQuery, type StackOne } from './queries';
import { runColumns } from './table';

/** All runs of a stack, newest first. */
export function Runs({ stack }: { stack: StackOne }) {
  const { name } = stack;
  const isGoing = isBusy(stack);
  const list = useInfiniteQuery({
    ...runsQuery(name),
    refetchInterval: (asked) => (isGoing && !isLong(asked) ? busy() : again(asked as unknown as Query)),
  });
  const next = useNext(list);
  return (
    <Panel title="Runs">
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
            <Empty title="No run yet">
              {stack.git == null
                ? 'The console knows no code of it: only its state is kept here.'
                : 'A run plans what the code says, waits for whoever has to agree, and applies exactly that plan.'}
            </Empty>
          }
        />
      </Shown>
      <div style={{ padding: 12 }} data-no-print>
        <Command line={commands.runs(name)} />
      </div>
    </Panel>
  );
}
