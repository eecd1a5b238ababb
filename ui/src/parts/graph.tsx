import '@xyflow/react/dist/base.css';

import { useComputedColorScheme } from '@mantine/core';
import dagre from '@dagrejs/dagre';
import { Controls, Handle, Position, ReactFlow, ReactFlowProvider, type Edge, type Node, type NodeProps } from '@xyflow/react';
import { useMemo, type CSSProperties, type ReactNode } from 'react';

import classes from './graph.module.css';

const WIDTH = 220;
const GAP = 12;
/** Boxes that nothing ties to another stand in at least so many columns. */
const COLUMNS = 4;

export interface Arrow {
  from: string;
  to: string;
}

interface GraphProps<Item> {
  /** What it shows, for people who hear the page. */
  label: string;
  items: Item[];
  /** The same function each time. */
  id: (item: Item) => string;
  arrows: Arrow[];
  /** What a box shows; its outermost element has the class `node`. All boxes are drawn anew when it is another function. */
  draw: (item: Item) => ReactNode;
  /** The box whose arrows stand out, and which is seen at first. */
  strong?: string | undefined;
  /** Of a box, in pixels. */
  boxHeight?: number;
}

type Box = Node<{ content: ReactNode }, 'box'>;

function BoxNode({ data }: NodeProps<Box>) {
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} className={classes['handle'] ?? ''} />
      {data.content}
      <Handle type="source" position={Position.Right} isConnectable={false} className={classes['handle'] ?? ''} />
    </>
  );
}

const kinds = { box: BoxNode };

type Places = Map<string, { x: number; y: number }>;

/** Boxes and arrows from left to right. It is for people who see it: a list beside it says the same to everybody. Import it lazily. */
export function Graph<Item>({ label, items, id, arrows, draw, strong, boxHeight = 48 }: GraphProps<Item>) {
  const scheme = useComputedColorScheme('light');
  const places = useMemo(() => layout(items.map(id), arrows, boxHeight), [items, id, arrows, boxHeight]);
  const nodes = useMemo(
    () =>
      items.map((item): Box => {
        const key = id(item);
        return {
          id: key,
          type: 'box',
          position: places.get(key) ?? { x: 0, y: 0 },
          width: WIDTH,
          height: boxHeight,
          focusable: false,
          // Nothing is selected or moved here; the link or button in it is pressed.
          style: { pointerEvents: 'all' },
          data: { content: draw(item) },
        };
      }),
    [items, id, places, boxHeight, draw],
  );
  const edges = useMemo(() => arrows.map((arrow) => edge(arrow, arrow.from === strong || arrow.to === strong)), [arrows, strong]);
  const first = useMemo(() => begin(places, strong), [places, strong]);
  const ids = [...places.keys()];
  const lowest = Math.max(0, ...[...places.values()].map(({ y }) => y + boxHeight));
  // As high as it must be: few boxes need no room to move in.
  const height = `min(62dvh, ${Math.max(200, lowest + 80)}px)`;
  return (
    // Others in it: it begins anew.
    <ReactFlowProvider key={`${ids.length} ${ids[0]} ${ids.at(-1)}`}>
      <div className={classes['graph']} style={{ height, '--box-height': `${boxHeight}px` } as CSSProperties}>
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
          onlyRenderVisibleElements={items.length > 100}
          preventScrolling={false}
          proOptions={{ hideAttribution: true }}
          aria-label={label}
        />
      </div>
      <div className={classes['controls']}>
        <Controls showInteractive={false} orientation="horizontal" />
      </div>
    </ReactFlowProvider>
  );
}

function edge({ from, to }: Arrow, isStrong: boolean): Edge {
  return {
    id: `${from} ${to}`,
    source: from,
    target: to,
    type: 'smoothstep',
    focusable: false,
    ...(isStrong && { zIndex: 1 }),
    style: { stroke: isStrong ? 'var(--tone-busy)' : 'var(--tone-none)', strokeWidth: isStrong ? 2 : 1 },
  };
}

/** What is shown at first where all would be too small to read: what is around that box, or the beginning, at the top. */
function begin(places: Places, strong: string | undefined): { id: string }[] | undefined {
  const all = [...places];
  if (all.every(([, { x, y }]) => x < 1800 && y < 900)) return undefined;
  const [wide, high] = [900, window.innerHeight / 2];
  const middle = strong === undefined ? undefined : places.get(strong);
  const some = all
    .filter(([, { x, y }]) =>
      middle ? Math.abs(x - middle.x) < wide / 2 && Math.abs(y - middle.y) < high / 2 : x < wide && y < high,
    )
    .map(([id]) => ({ id }));
  return some.length === 0 ? undefined : some;
}

function layout(ids: string[], arrows: Arrow[], height: number): Places {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: GAP, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  const tied = new Set(arrows.flatMap(({ from, to }) => [from, to]));
  for (const id of ids) if (tied.has(id)) graph.setNode(id, { width: WIDTH, height });
  for (const { from, to } of arrows) graph.setEdge(from, to);
  if (tied.size > 0) dagre.layout(graph);
  const places: Places = new Map();
  let right = 0;
  let below = 0;
  for (const id of ids) {
    if (!tied.has(id)) continue;
    const { x = 0, y = 0 } = graph.node(id) as { x?: number; y?: number };
    places.set(id, { x: x - WIDTH / 2, y: y - height / 2 });
    right = Math.max(right, x + WIDTH / 2);
    below = Math.max(below, y + height / 2 + 3 * GAP);
  }
  const columns = Math.max(COLUMNS, Math.floor((right + GAP) / (WIDTH + GAP)));
  ids
    .filter((id) => !tied.has(id))
    .forEach((id, at) => {
      places.set(id, { x: (at % columns) * (WIDTH + GAP), y: below + Math.floor(at / columns) * (height + GAP) });
    });
  return places;
}
