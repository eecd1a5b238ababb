import '@xyflow/react/dist/base.css';

import { useComputedColorScheme } from '@mantine/core';
import dagre from '@dagrejs/dagre';
import { Controls, Handle, Position, ReactFlow, ReactFlowProvider, type Edge, type Node, type NodeProps } from '@xyflow/react';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';

import { visible } from '../lib/text';
import { State } from '../parts/state';
import { paths } from '../paths';
import classes from '../service/components.module.css';
import type { GraphStack, StackGraph } from './graph-queries';
import { noRun, runStatuses } from './states';

const WIDTH = 220;
const HEIGHT = 48;

type Box = Node<{ stack: GraphStack }, 'stack'>;

/** One stack. The graph is for people who see it; the list below says the same to everybody. */
function StackNode({ data: { stack } }: NodeProps<Box>) {
  const look = stack.status == null ? noRun : runStatuses[stack.status];
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} className={classes['handle'] ?? ''} />
      <Link to={paths.stack(stack.name)} className={classes['node']} data-tone={look.tone} title={visible(stack.name)}>
        <span className={classes['kind']}>
          <span>{stack.deletedAt == null ? 'Stack' : 'Being deleted'}</span>
          <State look={look} />
        </span>
        <span className={classes['name']}>
          <bdi>{visible(stack.name)}</bdi>
        </span>
      </Link>
      <Handle type="source" position={Position.Right} isConnectable={false} className={classes['handle'] ?? ''} />
    </>
  );
}

const kinds = { stack: StackNode };

/** From left to right: what is depended on, and what depends on it. */
export default function Graph({ graph }: { graph: StackGraph }) {
  const scheme = useComputedColorScheme('light');
  const places = useMemo(() => layout(graph), [graph]);
  const nodes = useMemo(
    (): Box[] =>
      graph.stacks.map((stack) => ({
        id: stack.id,
        type: 'stack',
        position: places.get(stack.id) ?? { x: 0, y: 0 },
        width: WIDTH,
        height: HEIGHT,
        focusable: false,
        // Nothing is selected or moved here; the link in it is followed.
        style: { pointerEvents: 'all' },
        data: { stack },
      })),
    [graph, places],
  );
  const edges = useMemo(
    (): Edge[] =>
      graph.edges.map(({ stackId, upstreamId }) => ({
        id: `${upstreamId} ${stackId}`,
        source: upstreamId,
        target: stackId,
        type: 'smoothstep',
        focusable: false,
        style: { stroke: 'var(--tone-none)', strokeWidth: 1 },
      })),
    [graph],
  );
  const first = useMemo(() => begin(places), [places]);
  const lowest = Math.max(0, ...[...places.values()].map(({ y }) => y + HEIGHT));
  const height = `min(62dvh, ${Math.max(200, lowest + 80)}px)`;
  return (
    <ReactFlowProvider key={graph.stacks.length}>
      <div className={classes['graph']} style={{ height }}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={kinds}
          colorMode={scheme}
          fitView
          fitViewOptions={{ padding: 0.1, maxZoom: 1, minZoom: 0.5, ...(first && { nodes: first }) }}
          minZoom={0.1}
          maxZoom={1.5}
          nodesDraggable={false}
          nodesConnectable={false}
          elementsSelectable={false}
          onlyRenderVisibleElements={graph.stacks.length > 100}
          preventScrolling={false}
          proOptions={{ hideAttribution: true }}
          aria-label="Stacks that depend on each other"
        />
      </div>
      <div className={classes['controls']}>
        <Controls showInteractive={false} orientation="horizontal" />
      </div>
    </ReactFlowProvider>
  );
}

/** The stacks that are shown at first where all of them would be too small to read: those at the beginning, at the top. */
function begin(places: Map<string, { x: number; y: number }>): { id: string }[] | undefined {
  const all = [...places];
  if (all.every(([, { x, y }]) => x < 1800 && y < 900)) return undefined;
  const some = all.filter(([, { x, y }]) => x < 900 && y < window.innerHeight / 2).map(([id]) => ({ id }));
  return some.length === 0 ? undefined : some;
}

function layout({ stacks, edges }: StackGraph): Map<string, { x: number; y: number }> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of stacks) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { stackId, upstreamId } of edges) graph.setEdge(upstreamId, stackId);
  dagre.layout(graph);
  return new Map(
    stacks.map(({ id }) => {
      const { x = 0, y = 0 } = graph.node(id) as { x?: number; y?: number };
      return [id, { x: x - WIDTH / 2, y: y - HEIGHT / 2 }];
    }),
  );
}
