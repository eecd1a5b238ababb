import { Group, SegmentedControl, Text, UnstyledButton } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useMemo } from 'react';

import type { ComponentState } from '../generated/graphql';
import { counted } from '../lib/text';
import { Facets, Search } from '../parts/filter';
import { Empty, Panel, Waiting } from '../parts/page';
import { componentStates, State, unknown } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import classes from './components.module.css';
import type { Service } from './queries';
import { drawn, items, type Item } from './tree';

const Graph = lazy(() => import('./graph'));
const ObjectPanel = lazy(() => import('./object'));

const route = getRouteApi('/services/$cluster/$name');

function columns(open: (key: string) => void): Columns<Item> {
  return [
    {
      id: 'object',
      header: 'Object',
      meta: { track: 'minmax(160px, 1.5fr)' },
      cell: ({ row: { original: row } }) => (
        <UnstyledButton className={classes['open'] ?? ''} style={{ paddingLeft: row.depth * 16 }} onClick={() => open(row.key)}>
          {row.depth > 0 && <span aria-hidden>└ </span>}
          {row.kind} <Name of={row.name} />
        </UnstyledButton>
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
      meta: { track: 'minmax(160px, 2fr)', from: 760, isBlank: ({ message }) => message === '' },
      cell: ({ row }) => <Name of={row.original.message} />,
    },
  ];
}

/** The objects of a service as a list or as a graph, what is broken first; one of them opens beside it. */
export function Components({ service, cluster }: { service: Service; cluster: string }) {
  const { state, object = '', view = 'graph', at } = route.useSearch();
  const navigate = route.useNavigate();
  const all = useMemo(() => items(service), [service]);
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
  const set = (change: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const open = (key: string) => set({ at: key });
  const chosen = all.find(({ key }) => key === at);
  // The owners of what matches are drawn too: a graph without them hangs in the air.
  const shown = useMemo(() => {
    if (rows.length === all.length) return drawn(all);
    const byKey = new Map(all.map((item) => [item.key, item]));
    const kept = new Set<string>();
    for (const row of rows)
      for (let one: Item | undefined = row; one; one = one.parent === undefined ? undefined : byKey.get(one.parent))
        kept.add(one.key);
    return drawn(all.filter(({ key }) => kept.has(key)));
  }, [all, rows]);
  const empty =
    all.length === 0 ? (
      <Empty title="No objects yet">Nothing was applied. If this stays so, the reason above says why.</Empty>
    ) : (
      <Empty title="No object matches">Change the search or show all states.</Empty>
    );
  return (
    <>
      <Panel
        title="Objects in the cluster"
        aside={
          <Group gap="sm">
            <SegmentedControl
              aria-label="Show as"
              size="xs"
              value={view}
              onChange={(next) => set({ view: next === 'list' ? 'list' : undefined })}
              data={[
                { value: 'graph', label: 'Graph' },
                { value: 'list', label: 'List' },
              ]}
            />
            <Search label="Find an object" value={object} onChange={(text) => set({ object: text === '' ? undefined : text })} />
            <Facets<ComponentState>
              label="State"
              value={state}
              onChange={(next) => set({ state: next })}
              choices={[
                { value: undefined, label: 'All', count: all.filter(({ depth }) => depth === 0).length },
                ...(['FAILED', 'PAUSED', 'PENDING', 'RUNNING'] as const).map((one) => ({
                  value: one,
                  label: <State look={componentStates[one]} />,
                  count: counts.get(one) ?? 0,
                })),
              ]}
            />
          </Group>
        }
      >
        {view === 'list' ? (
          <Table isShort label="Objects" rows={rows} columns={columns(open)} id={({ key }) => key} empty={empty} />
        ) : rows.length === 0 ? (
          empty
        ) : (
          <Suspense fallback={<Waiting lines={8} />}>
            <Graph name={service.name} items={shown} chosen={at} open={open} />
            {shown.length < rows.length && (
              <Text size="xs" c="dimmed" p="sm">
                {counted(rows.length, 'object')}: those that are not well are drawn, the others as one box for each kind. The list
                has all.
              </Text>
            )}
          </Suspense>
        )}
      </Panel>
      <Suspense>
        {chosen && (
          <ObjectPanel
            key={chosen.key}
            item={chosen}
            cluster={cluster}
            service={service.name}
            close={() => set({ at: undefined, show: undefined })}
          />
        )}
      </Suspense>
    </>
  );
}
