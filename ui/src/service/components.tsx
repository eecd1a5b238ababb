import { Group } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';

import type { ComponentState } from '../generated/graphql';
import { Facets, Search } from '../parts/filter';
import { Empty, Panel } from '../parts/page';
import { componentStates, State, unknown } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import type { Service } from './queries';

interface Row {
  id: string;
  depth: number;
  kind: string;
  group: string;
  namespace: string;
  name: string;
  state: ComponentState | undefined;
  synced: boolean | undefined;
  message: string;
}

const RANK: Record<ComponentState, number> = { FAILED: 0, PAUSED: 1, PENDING: 2, RUNNING: 3 };
const rank = (state: ComponentState | undefined) => (state === undefined ? 2.5 : RANK[state]);

const columns: Columns<Row> = [
  {
    id: 'object',
    header: 'Object',
    meta: { track: 'minmax(160px, 1.5fr)' },
    cell: ({ row: { original: row } }) => (
      <span style={{ paddingLeft: row.depth * 16 }}>
        {row.depth > 0 && <span aria-hidden>└ </span>}
        {row.kind} <Name of={row.name} />
      </span>
    ),
  },
  {
    id: 'namespace',
    header: 'Namespace',
    meta: { track: 'minmax(80px, 0.7fr)', from: 620 },
    cell: ({ row }) => <Name of={row.original.namespace} />,
  },
  {
    id: 'state',
    header: 'State',
    meta: { track: '110px' },
    cell: ({ row }) => <State look={row.original.state === undefined ? unknown : componentStates[row.original.state]} />,
  },
  {
    id: 'synced',
    header: 'Applied',
    meta: { track: '80px', from: 520 },
    cell: ({ row: { original: row } }) => (row.synced === undefined ? '' : row.synced ? 'yes' : 'not yet'),
  },
  {
    id: 'message',
    header: 'Why',
    meta: { track: 'minmax(160px, 2fr)', from: 760 },
    cell: ({ row }) => <Name of={row.original.message} />,
  },
];

const route = getRouteApi('/services/$cluster/$name');

/** The objects of a service as a tree, what is broken first. */
export function Components({ service }: { service: Service }) {
  const { state, object = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const all = useMemo(() => tree(service), [service]);
  const counts = useMemo(() => {
    const counts = new Map<ComponentState, number>();
    for (const { depth, state: one } of all) if (depth === 0 && one !== undefined) counts.set(one, (counts.get(one) ?? 0) + 1);
    return counts;
  }, [all]);
  const wanted = object.toLowerCase();
  const rows = all.filter(
    (row) =>
      (state === undefined || row.state === state) &&
      (wanted === '' || `${row.kind} ${row.namespace}/${row.name}`.toLowerCase().includes(wanted)),
  );
  const set = (change: { state?: ComponentState | undefined; object?: string | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <Panel
      title="Objects in the cluster"
      aside={
        <Group gap="sm">
          <Search label="Find an object" value={object} onChange={(text) => set({ object: text === '' ? undefined : text })} />
          <Facets<ComponentState>
            label="State"
            value={state}
            onChange={(next) => set({ state: next })}
            choices={[
              { value: undefined, label: 'All', count: all.filter(({ depth }) => depth === 0).length },
              ...(['FAILED', 'PAUSED', 'PENDING', 'RUNNING'] as const)
                .filter((one) => counts.has(one))
                .map((one) => ({ value: one, label: <State look={componentStates[one]} />, count: counts.get(one) })),
            ]}
          />
        </Group>
      }
    >
      <Table
        isShort
        label="Objects"
        rows={rows}
        columns={columns}
        id={(row) => row.id}
        empty={
          all.length === 0 ? (
            <Empty title="No objects yet">Nothing was applied. If this stays so, the reason above says why.</Empty>
          ) : (
            <Empty title="No object matches">Change the search or show all states.</Empty>
          )
        }
      />
    </Panel>
  );
}

/** Depth first, each level with what is broken first. A parent is as bad as its worst child for this order. */
function tree(service: Service): Row[] {
  const components = (service.components ?? []).flatMap((component) => component ?? []);
  return components
    .map((component) => {
      const children = (component.children ?? []).flatMap((child) => child ?? []);
      const worst = Math.min(rank(component.state ?? undefined), ...children.map((child) => rank(child.state ?? undefined)));
      return { component, children, worst };
    })
    .sort((a, b) => a.worst - b.worst || compare(a.component, b.component))
    .flatMap(({ component, children }): Row[] => [
      {
        id: component.id,
        depth: 0,
        kind: component.kind,
        group: component.group ?? '',
        namespace: component.namespace ?? '',
        name: component.name,
        state: component.state ?? undefined,
        synced: component.synced,
        message: component.message ?? '',
      },
      ...below(children, undefined, component.id, 1),
    ]);
}

type Child = NonNullable<NonNullable<NonNullable<NonNullable<Service['components']>[number]>['children']>[number]>;

function below(children: Child[], parent: string | undefined, path: string, depth: number): Row[] {
  const uids = new Set(children.map(({ uid }) => uid));
  // A parent that is not among the children is the component itself.
  const here = children.filter((child) => (parent === undefined ? !uids.has(child.parentUid) : child.parentUid === parent));
  if (depth > 6) return [];
  return here
    .sort((a, b) => rank(a.state ?? undefined) - rank(b.state ?? undefined) || compare(a, b))
    .flatMap((child, at): Row[] => {
      const id = `${path}/${child.uid ?? at}`;
      return [
        {
          id,
          depth,
          kind: child.kind,
          group: '',
          namespace: child.namespace ?? '',
          name: child.name,
          state: child.state ?? undefined,
          synced: undefined,
          message: child.message ?? '',
        },
        ...(child.uid == null ? [] : below(children, child.uid, id, depth + 1)),
      ];
    });
}

function compare(a: { kind: string; name: string }, b: { kind: string; name: string }): number {
  return a.kind.localeCompare(b.kind) || a.name.localeCompare(b.name);
}
