import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';

import { Empty, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Stale } from '../parts/shown';
import { State } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { taken } from './dependencies';
import { stackGraphQuery, type GraphStack, type StackGraph } from './graph-queries';
import { noRun, runStatuses } from './states';

const Graph = lazy(() => import('./graph'));

/** The stacks that depend on each other: as a graph, and as a list in the order in which they run. */
export function StackGraphPage() {
  const query = useQuery(stackGraphQuery);
  const graph = held(query);
  return (
    <Page title="Dependencies" within={[{ name: 'Stacks', to: paths.stacks() }]}>
      {graph == null && query.isError && <Fault error={query.error} what="the stacks" retry={() => void query.refetch()} />}
      {graph == null && query.isPending && <Waiting lines={10} />}
      {graph != null && <Stale query={query} what="the stacks" />}
      {graph?.stacks.length === 0 && (
        <Empty title="No stack depends on another">
          <code>plural cd stacks update NAME --depends-on OTHER:OUTPUT</code> gives an output of one stack to another.
        </Empty>
      )}
      {graph != null && graph.stacks.length > 0 && (
        <>
          <Suspense fallback={<Waiting lines={6} />}>
            <Graph graph={graph} />
          </Suspense>
          <Panel title="In the order in which they run">
            <Table
              isShort
              isTall
              label="Stacks in the order in which they run"
              rows={graph.stacks}
              columns={columns(graph)}
              id={({ id }) => id}
              empty={null}
            />
          </Panel>
        </>
      )}
    </Page>
  );
}

function columns(graph: StackGraph): Columns<GraphStack> {
  const names = new Map(graph.stacks.map(({ id, name }) => [id, name]));
  return [
    {
      id: 'name',
      header: 'Stack',
      meta: { track: 'minmax(84px, 1fr)' },
      cell: ({ row: { original: stack } }) => (
        <RouteLink to={paths.stack(stack.name)}>
          <Name of={stack.name} />
        </RouteLink>
      ),
    },
    {
      id: 'status',
      header: 'Newest run',
      meta: { track: '124px' },
      cell: ({ row: { original: stack } }) => <State look={stack.status == null ? noRun : runStatuses[stack.status]} />,
    },
    {
      id: 'needs',
      header: 'Needs',
      meta: { track: 'minmax(100px, 2fr)' },
      cell: ({ row: { original: stack } }) =>
        (stack.dependencies ?? []).flatMap((one) => {
          if (!one) return [];
          const name = names.get(one.stackId);
          const outputs = taken(one.outputs);
          return [
            <div key={one.stackId}>
              {name === undefined ? 'a stack that you may not see' : <Name of={name} />}
              {outputs !== '' && (
                <Text component="span" size="sm" c="dimmed">
                  : <Name of={outputs} />
                </Text>
              )}
            </div>,
          ];
        }),
    },
  ];
}
