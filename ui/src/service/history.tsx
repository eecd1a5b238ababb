import { Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconArrowBackUp } from '@tabler/icons-react';

import type { ServiceHistoryQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted, short } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import { Compare } from './compare';
import { Rollback } from './mutations';
import { historyQuery } from './history-queries';
import type { Service } from './queries';

type History = NonNullable<ServiceHistoryQuery['serviceDeployment']>;
export type Revision = NonNullable<NonNullable<NonNullable<NonNullable<History['revisions']>['edges']>[number]>['node']>;
type Event = NonNullable<NonNullable<NonNullable<NonNullable<History['events']>['edges']>[number]>['node']>;

function columns(service: Service, handle: string): Columns<Revision> {
  const now = service.revision?.id;
  return [
    {
      id: 'commit',
      header: 'Commit',
      meta: { track: '90px' },
      cell: ({ row }) => (
        <Text component="span" ff="monospace" size="xs">
          {row.original.sha == null ? '–' : short(row.original.sha)}
        </Text>
      ),
    },
    {
      id: 'message',
      header: 'Message',
      meta: { track: 'minmax(140px, 2fr)' },
      cell: ({ row }) => <Name of={row.original.message ?? ''} />,
    },
    {
      id: 'author',
      header: 'Author',
      meta: { track: 'minmax(80px, 0.7fr)', from: 620 },
      cell: ({ row }) => <Name of={row.original.author ?? ''} />,
    },
    {
      id: 'by',
      header: 'Created by',
      meta: { track: 'minmax(80px, 0.7fr)', from: 900 },
      cell: ({ row }) => <Name of={row.original.by ?? ''} />,
    },
    {
      id: 'at',
      header: 'Created',
      meta: { track: '90px', from: 480, isNumber: true },
      cell: ({ row }) => <Ago at={row.original.insertedAt} />,
    },
    {
      id: 'healthy',
      header: 'Healthy',
      meta: { track: '90px', from: 760, isNumber: true },
      cell: ({ row }) => <Ago at={row.original.healthyAt} absent="never" />,
    },
    {
      id: 'do',
      header: '',
      meta: { track: '124px', from: 400 },
      cell: ({ row: { original: revision } }) =>
        revision.id === now ? (
          <Text size="sm" fw={600}>
            Current
          </Text>
        ) : service.pin?.revisionId === revision.id ? (
          <Text size="sm">Pinned</Text>
        ) : (
          <Action
            noun="service"
            isSmall
            label="Roll back"
            icon={IconArrowBackUp}
            right={{ verb: 'rollback', thing: `service/${handle}/${service.name}` }}
            unless={
              revision.restorable === true
                ? undefined
                : 'Its artifact is not kept any more, or it was never one that could be applied.'
            }
            explains={
              <>
                Applies {revision.sha == null ? 'that revision' : <code>{short(revision.sha)}</code>} again and pins the service
                there. New commits wait as long.
              </>
            }
            fields={[
              {
                name: 'until',
                label: 'Stays there until',
                kind: 'choice',
                isRequired: true,
                initial: 'RELEASE',
                options: [
                  { value: 'RELEASE', label: 'somebody releases it' },
                  { value: 'NEXT_COMMIT', label: 'the next commit that changes it' },
                ],
              },
            ]}
            command={({ until }) =>
              `plural cd services rollback ${quoted(`${handle}/${service.name}`)} ${revision.id}${until === 'NEXT_COMMIT' ? ' --until-next-commit' : ''}`
            }
            run={({ until }) =>
              ask(Rollback, { id: service.id, revisionId: revision.id, until: until === 'NEXT_COMMIT' ? until : 'RELEASE' })
            }
            done={`Rolled back ${service.name}`}
          />
        ),
    },
  ];
}

/** What it was, newest first. */
export function Revisions({ service, handle }: { service: Service; handle: string }) {
  const query = useQuery(historyQuery(handle, service.name));
  if (query.isPending) return <Waiting />;
  const rows = (query.data?.revisions?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  return (
    <Shown query={query} what="revisions">
      <Stack gap="md">
        <Panel title="Revisions, newest first">
          <Table
            isShort
            label="Revisions"
            rows={rows}
            columns={columns(service, handle)}
            id={({ id }) => id}
            empty={
              <Empty title="No revisions yet">
                The console has not fetched its source yet. If this stays so, the reason above says why.
              </Empty>
            }
          />
        </Panel>
        {rows.length > 1 && <Compare revisions={rows} />}
      </Stack>
    </Shown>
  );
}

const eventColumns: Columns<Event> = [
  { id: 'at', header: 'When', meta: { track: '110px' }, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  { id: 'who', header: 'Who', meta: { track: 'minmax(100px, 1fr)' }, cell: ({ row }) => <Name of={row.original.actorName} /> },
  { id: 'what', header: 'What', meta: { track: 'minmax(120px, 2fr)' }, cell: ({ row }) => <Name of={row.original.action} /> },
  {
    id: 'times',
    header: 'Times',
    meta: { track: '60px', from: 480, isNumber: true },
    cell: ({ row }) => row.original.times ?? 1,
  },
];

/** Who did what to it, newest first. */
export function Events({ cluster, name }: { cluster: string; name: string }) {
  const query = useQuery(historyQuery(cluster, name));
  if (query.isPending) return <Waiting />;
  const rows = (query.data?.events?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  return (
    <Panel title="Who did what, newest first">
      <Shown query={query} what="events">
        <Table
          isShort
          label="Events"
          rows={rows}
          columns={eventColumns}
          id={({ id }) => id}
          empty={<Empty title="Nobody did anything yet" />}
        />
      </Shown>
    </Panel>
  );
}
