import '@xyflow/react/dist/base.css';

import { useComputedColorScheme } from '@mantine/core';
import dagre from '@dagrejs/dagre';
import { Controls, Handle, Position, ReactFlow, type Edge, type Node, type NodeProps } from '@xyflow/react';
import { useMemo } from 'react';

import { visible } from '../lib/text';
import { componentStates, State, unknown } from '../parts/state';
import classes from './components.module.css';
import type { Drawn } from './tree';

const WIDTH = 220;
const HEIGHT = 48;
const SERVICE = '';

type Box = Node<{ item: Drawn | undefined; name: string; isChosen: boolean; open: (key: string) => void }, 'object'>;

/** One object. The graph is for people who see it; the list says the same to everybody. */
function ObjectNode({ data: { item, name, isChosen, open } }: NodeProps<Box>) {
  const look = item?.state === undefined ? unknown : componentStates[item.state];
  const content = (
    <>
      <span className={classes['kind']}>
        <span>{item ? item.kind : 'Service of Plural'}</span>
        {item && <State look={look} />}
      </span>
      <span className={classes['name']}>
        <bdi>{visible(item?.stands === undefined ? name : `${item.stands.toLocaleString('en')} objects`)}</bdi>
      </span>
    </>
  );
  const tone = item ? look.tone : 'none';
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} className={classes['handle'] ?? ''} />
      {item && item.stands === undefined ? (
        <button
          type="button"
          className={classes['node']}
          data-tone={tone}
          data-chosen={isChosen || undefined}
          title={visible(item.message === '' ? name : `${name}: ${item.message}`)}
          onClick={() => open(item.key)}
        >
          {content}
        </button>
      ) : (
        <div className={classes['node']} data-tone={tone}>
          {content}
        </div>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} className={classes['handle'] ?? ''} />
    </>
  );
}

const kinds = { object: ObjectNode };

/** The service, what it applies, and what that owns: from left to right, what is broken first. */
export default function Graph(props: { name: string; items: Drawn[]; chosen: string | undefined; open: (key: string) => void }) {
  const { name, items, chosen, open } = props;
  const scheme = useComputedColorScheme('light');
  const places = useMemo(() => layout(items), [items]);
  const nodes = useMemo(
    (): Box[] => [box(SERVICE, undefined, name), ...items.map((item) => box(item.key, item, item.name))],
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `open` closes over the address, which is chosen already
    [items, name, chosen, places],
  );
  function box(id: string, item: Drawn | undefined, label: string): Box {
    const at = places.get(id) ?? { x: 0, y: 0 };
    return {
      id: `n${id}`,
      type: 'object',
      position: at,
      width: WIDTH,
      height: HEIGHT,
      focusable: false,
      // Nothing is selected or moved here; the button in it is pressed.
      style: { pointerEvents: 'all' },
      data: { item, name: label, isChosen: id === chosen, open },
    };
  }
  const edges = useMemo(
    (): Edge[] =>
      items.map(({ key, parent = SERVICE }) => ({
        id: `e${key}`,
        source: `n${parent}`,
        target: `n${key}`,
        type: 'smoothstep',
        focusable: false,
        style: { stroke: 'var(--tone-none)', strokeWidth: 1 },
      })),
    [items],
  );
  const lowest = Math.max(...[...places.values()].map(({ y }) => y + HEIGHT));
  // As high as it must be: few objects need no room to move in.
  const height = `min(62dvh, ${Math.max(200, lowest + 80)}px)`;
  return (
    <div className={classes['graph']} style={{ height }}>
      <ReactFlow
        key={items.length}
        nodes={nodes}
        edges={edges}
        nodeTypes={kinds}
        colorMode={scheme}
        fitView
        fitViewOptions={{ padding: 0.1, maxZoom: 1, minZoom: 0.5 }}
        minZoom={0.1}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable={false}
        onlyRenderVisibleElements={items.length > 100}
        preventScrolling={false}
        proOptions={{ hideAttribution: true }}
        aria-label={`Objects of ${visible(name)}`}
      >
        <Controls showInteractive={false} position="bottom-right" />
      </ReactFlow>
    </div>
  );
}

function layout(items: Drawn[]): Map<string, { x: number; y: number }> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  const size = { width: WIDTH, height: HEIGHT };
  graph.setNode(`n${SERVICE}`, { ...size });
  for (const { key } of items) graph.setNode(`n${key}`, { ...size });
  for (const { key, parent = SERVICE } of items) graph.setEdge(`n${parent}`, `n${key}`);
  dagre.layout(graph);
  return new Map(
    [SERVICE, ...items.map(({ key }) => key)].map((id) => {
      const { x = 0, y = 0 } = graph.node(`n${id}`) as { x?: number; y?: number };
      return [id, { x: x - WIDTH / 2, y: y - HEIGHT / 2 }];
    }),
  );
}
