import { Text } from '@mantine/core';

import { paths } from '../paths';
import { clusterState, State } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { distribution } from './fleet';
import type { ClusterRow } from './queries';

export const clusterColumns: Columns<ClusterRow> = [
  {
    id: 'handle',
    header: 'Cluster',
    meta: { track: 'minmax(150px, 2fr)', isSorted: true },
    cell: ({ row: { original: cluster } }) => (
      <>
        <RouteLink to={paths.cluster(cluster.handle ?? '')} strong>
          <Name of={cluster.handle ?? ''} />
        </RouteLink>
        {cluster.name !== cluster.handle && (
          <Text component="span" size="xs" c="dimmed" ml={6}>
            <Name of={cluster.name} />
          </Text>
        )}
      </>
    ),
  },
  {
    id: 'state',
    header: 'State',
    meta: { track: '150px', isSorted: true },
    cell: ({ row }) => <State look={clusterState(row.original)} />,
  },
  {
    id: 'version',
    header: 'Kubernetes',
    meta: { track: '96px', from: 480, isSorted: true },
    cell: ({ row }) => row.original.currentVersion ?? '–',
  },
  {
    id: 'distro',
    header: 'Distribution',
    meta: { track: '84px', from: 900 },
    cell: ({ row }) => (row.original.distro == null ? '–' : distribution(row.original.distro)),
  },
  {
    id: 'nodes',
    header: 'Nodes',
    meta: { track: '64px', from: 620, isNumber: true },
    cell: ({ row }) => row.original.nodeCount ?? '–',
  },
  {
    id: 'pods',
    header: 'Pods',
    meta: { track: '64px', from: 760, isNumber: true },
    cell: ({ row }) => row.original.podCount ?? '–',
  },
  {
    id: 'project',
    header: 'Project',
    meta: { track: 'minmax(80px, 0.6fr)', from: 1000 },
    cell: ({ row }) => row.original.project && <Name of={row.original.project.name} />,
  },
  {
    id: 'tags',
    header: 'Tags',
    meta: { track: 'minmax(120px, 1fr)', from: 820 },
    cell: ({ row }) => (row.original.tags ?? []).map((tag) => tag && <Tag key={tag.name} name={tag.name} value={tag.value} />),
  },
  {
    id: 'pinged',
    header: 'Last heard',
    meta: { track: '90px', from: 560, isNumber: true, isSorted: true },
    cell: ({ row }) => <Ago at={row.original.pingedAt} absent="never" />,
  },
];

/** A tag, as a link to all clusters that have it. */
export function Tag({ name, value }: { name: string; value: string }) {
  return (
    <Text component="span" size="xs" mr={8}>
      <RouteLink to={paths.clusters()} search={{ tag: `${name}=${value}` }}>
        <Name of={`${name}=${value}`} />
      </RouteLink>
    </Text>
  );
}
