import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';

import { Empty, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Stale } from '../parts/shown';
import { State } from '../parts/state';
import { RouteLink } from '../parts/text';
import { paths } from '../paths';
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
          <code>plural cd stacks update NAME --depends-on OTHER:OUTPUT</code> gives outputs of one stack to another.
        </Empty>
      )}
      {graph != null && graph.stacks.length > 0 && (
        <>
          <Suspense fallback={<Waiting lines={6} />}>
            <Graph graph={graph} />
          </Suspense>
          <Panel title="In the order in which they run">
            <ol>
              {graph.stacks.map((stack) => (
                <Line key={stack.id} stack={stack} graph={graph} />
              ))}
            </ol>
          </Panel>
        </>
      )}
    </Page>
  );
}

function Line({ stack, graph }: { stack: GraphStack; graph: StackGraph }) {
  const upstream = graph.edges
    .filter(({ stackId }) => stackId === stack.id)
    .flatMap(({ upstreamId }) => graph.stacks.find(({ id }) => id === upstreamId) ?? []);
  return (
    <li>
      <RouteLink to={paths.stack(stack.name)}>{stack.name}</RouteLink>{' '}
      <State look={stack.status == null ? noRun : runStatuses[stack.status]} />
      {upstream.length > 0 && ` needs ${upstream.map(({ name }) => name).join(', ')}`}
    </li>
  );
}
