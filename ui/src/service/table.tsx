import { Badge, Text } from '@mantine/core';

import { short } from '../lib/text';
import { paths } from '../paths';
import { serviceStatuses, State } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import type { ServiceRow } from './queries';

/** Columns of services. The reason stands beside the status: it is what one looks for. */
export const serviceColumns: Columns<ServiceRow> = [
  {
    id: 'name',
    header: 'Service',
    meta: { track: 'minmax(120px, 1.2fr)', isSorted: true },
    cell: ({ row: { original: service } }) => (
      <>
        {service.cluster ? (
          <RouteLink to={paths.service(service.cluster.handle ?? '', service.name)} strong>
            <Name of={service.name} />
          </RouteLink>
        ) : (
          <Name of={service.name} />
        )}
        {service.paused === true && <Mark text="paused" />}
        {service.pin && <Mark text="pinned" />}
        {service.dryRun === true && <Mark text="dry run" />}
      </>
    ),
  },
  {
    id: 'cluster',
    header: 'Cluster',
    meta: { track: 'minmax(80px, 0.8fr)', from: 480 },
    cell: ({ row: { original: service } }) =>
      service.cluster && (
        <RouteLink to={paths.cluster(service.cluster.handle ?? '')}>
          <Name of={service.cluster.handle ?? ''} />
        </RouteLink>
      ),
  },
  {
    id: 'status',
    header: 'Status',
    meta: { track: '150px', isSorted: true },
    cell: ({ row }) => <State look={serviceStatuses[row.original.status]} />,
  },
  {
    id: 'reason',
    header: 'Reason',
    meta: { track: 'minmax(160px, 2.4fr)', from: 760, isBlank: (service) => service.reason == null },
    cell: ({ row: { original: service } }) => service.reason && <Name of={service.reason.message} />,
  },
  {
    id: 'ready',
    header: 'Ready',
    meta: { track: '70px', from: 620, isNumber: true },
    cell: ({ row }) => row.original.componentStatus ?? '–',
  },
  {
    id: 'commit',
    header: 'Commit',
    meta: { track: 'minmax(120px, 1.4fr)', from: 1060 },
    cell: ({ row: { original: service } }) =>
      service.sha != null && (
        <>
          <Text component="span" ff="monospace" size="xs" c="dimmed">
            {short(service.sha)}
          </Text>{' '}
          {service.message != null && <Name of={service.message} />}
        </>
      ),
  },
  {
    id: 'changed',
    header: 'Changed',
    meta: { track: '84px', from: 560, isNumber: true, isSorted: true },
    cell: ({ row }) => <Ago at={row.original.updatedAt} />,
  },
];

/** The same of services that fail: since when, in place of when they were changed last. */
export const failingColumns: Columns<ServiceRow> = [
  ...serviceColumns.filter(({ id }) => id !== 'changed'),
  {
    id: 'since',
    header: 'Since',
    meta: { track: '84px', from: 560, isNumber: true },
    cell: ({ row }) => <Ago at={row.original.failingSince} />,
  },
];

function Mark({ text }: { text: string }) {
  return (
    <Badge variant="default" size="xs" ml={6} tt="none" fw={400}>
      {text}
    </Badge>
  );
}
