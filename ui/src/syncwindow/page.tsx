import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { clustersQuery } from '../cluster/queries';
import { graphql } from '../generated';
import type { AllWindowsQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given } from '../parts/values';
import { Empty, Fault, Page } from '../parts/page';
import { componentStates, State } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';

const Windows = graphql(/* GraphQL */ `
  query AllWindows {
    syncWindows {
      id
      name
      kind
      schedule
      duration
      timeZone
      description
      project {
        id
        name
      }
      cluster {
        id
        handle
      }
      service {
        id
        name
        cluster {
          handle
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateWindow($projectId: ID, $clusterId: ID, $attributes: SyncWindowAttributes!) {
    createSyncWindow(projectId: $projectId, clusterId: $clusterId, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteWindow($id: ID!, $projectId: ID, $clusterId: ID, $serviceId: ID) {
    deleteSyncWindow(id: $id, projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId) {
      id
    }
  }
`);

type Row = NonNullable<NonNullable<AllWindowsQuery['syncWindows']>[number]>;

/** Of what it is, as the command line names it. */
function of(row: Row): { flag: string; thing: string } {
  if (row.service) {
    const name = `${row.service.cluster?.handle ?? ''}/${row.service.name}`;
    return { flag: `--service ${quoted(name)}`, thing: `service/${name}` };
  }
  if (row.cluster) return { flag: `--cluster ${quoted(row.cluster.handle ?? '')}`, thing: `cluster/${row.cluster.handle ?? ''}` };
  return { flag: `--project ${quoted(row.project?.name ?? '')}`, thing: `project/${row.project?.name ?? ''}` };
}

const long = (seconds: number) => (seconds % 3600 === 0 ? `${seconds / 3600} h` : `${Math.round(seconds / 60)} min`);

const columns: Columns<Row> = [
  {
    id: 'kind',
    header: 'Kind',
    meta: { track: '120px' },
    cell: ({ row }) => (
      <State
        look={
          row.original.kind === 'ALLOW'
            ? { ...componentStates.RUNNING, word: 'Lets through' }
            : { ...componentStates.PAUSED, word: 'Holds back' }
        }
      />
    ),
  },
  { id: 'name', header: 'Name', meta: { track: 'minmax(80px, 1fr)', from: 620 }, cell: ({ row }) => text(row.original.name) },
  {
    id: 'when',
    header: 'Opens',
    meta: { track: 'minmax(90px, 2fr)' },
    cell: ({ row }) => (
      <>
        <code>{row.original.schedule}</code> <Name of={row.original.timeZone} />
      </>
    ),
  },
  { id: 'long', header: 'For', meta: { track: '60px', from: 480 }, cell: ({ row }) => long(row.original.duration) },
  {
    id: 'of',
    header: 'Concerns',
    meta: tracks.mid,
    cell: ({ row: { original: row } }) =>
      row.service ? (
        <RouteLink to={paths.service(row.service.cluster?.handle ?? '', row.service.name)}>
          <Name of={of(row).thing} />
        </RouteLink>
      ) : row.cluster ? (
        <RouteLink to={paths.cluster(row.cluster.handle ?? '')}>
          <Name of={of(row).thing} />
        </RouteLink>
      ) : (
        <RouteLink to={paths.setting('projects', row.project?.name ?? '')}>
          <Name of={of(row).thing} />
        </RouteLink>
      ),
  },
  { id: 'why', header: 'Why', meta: { ...tracks.mid, from: 860 }, cell: ({ row }) => text(row.original.description) },
  {
    id: 'do',
    header: '',
    meta: { track: '100px' },
    cell: ({ row: { original: row } }) => (
      <Action
        noun="sync windows"
        isSmall
        isDangerous
        label="Delete"
        icon={IconTrash}
        right={{ verb: 'update', thing: of(row).thing }}
        explains={
          row.kind === 'ALLOW'
            ? 'Services wait for it no more: they sync at any time that other windows leave.'
            : 'It holds nothing back any more.'
        }
        command={`plural cd sync-windows delete ${of(row).flag} ${row.id}`}
        run={() =>
          ask(Delete, {
            id: row.id,
            serviceId: row.service?.id ?? null,
            clusterId: row.cluster?.id ?? null,
            projectId: row.project?.id ?? null,
          })
        }
        done="Deleted the window"
      />
    ),
  },
];

export function List() {
  const query = useQuery({ queryKey: ['sync windows'], queryFn: ({ signal }) => ask(Windows, {}, signal) });
  const projects = useInfiniteQuery(projectsQuery);
  const clusters = useInfiniteQuery(clustersQuery({}, 200));
  const choices = [
    ...(projects.data ?? []).map((one) => ({ value: `p:${one.id}`, label: `project ${one.name}` })),
    ...(clusters.data ?? []).map((one) => ({ value: `c:${one.id}`, label: `cluster ${one.handle ?? one.name}` })),
  ];
  return (
    <Page
      title="Sync windows"
      isFull
      actions={
        <Action
          noun="sync windows"
          label="Create a window"
          icon={IconPlus}
          explains="Services sync only while a window that lets through is open, and never while one that holds back is."
          fields={[
            {
              name: 'kind',
              label: 'What it does',
              kind: 'choice',
              isRequired: true,
              initial: 'DENY',
              options: [
                { value: 'DENY', label: 'holds syncs back' },
                { value: 'ALLOW', label: 'lets syncs through, and nothing outside of it' },
              ],
            },
            { name: 'of', label: 'Concerns the services of', kind: 'choice', isRequired: true, options: choices },
            { name: 'name', label: 'Name' },
            { name: 'schedule', label: 'Opens, in cron’s five fields', isRequired: true, placeholder: '0 22 * * 1-5' },
            { name: 'minutes', label: 'Stays open, in minutes', kind: 'number', isRequired: true, initial: '60' },
            {
              name: 'timeZone',
              label: 'Time zone',
              initial: Intl.DateTimeFormat().resolvedOptions().timeZone,
              isRequired: true,
            },
            { name: 'description', label: 'Why' },
          ]}
          command={(values) => {
            const chosen = choices.find(({ value }) => value === values['of'])?.label ?? 'project PROJECT';
            const [kind = '', ...name] = chosen.split(' ');
            return `plural cd sync-windows create ${(values['kind'] ?? '').toLowerCase()} --${kind} ${quoted(name.join(' '))} --schedule ${quoted(values['schedule'] ?? '')} --duration ${values['minutes'] ?? ''}m --time-zone ${quoted(values['timeZone'] ?? '')}`;
          }}
          run={(values) => {
            const { of: where = '', kind = 'DENY' } = values;
            const id = where.slice(2);
            return ask(Create, {
              ...(where.startsWith('p:') ? { projectId: id } : { clusterId: id }),
              attributes: {
                kind: kind === 'ALLOW' ? kind : 'DENY',
                name: given(values, 'name'),
                schedule: (values['schedule'] ?? '').trim(),
                duration: Number(values['minutes'] ?? 60) * 60,
                timeZone: given(values, 'timeZone'),
                description: given(values, 'description'),
              },
            });
          }}
          done="Created the window"
        />
      }
    >
      {query.isError ? (
        <Fault error={query.error} what="sync windows" retry={() => void query.refetch()} />
      ) : (
        <Table
          label="Sync windows"
          rows={(query.data?.syncWindows ?? []).flatMap((row) => row ?? [])}
          columns={columns}
          id={({ id }) => id}
          isWaiting={query.isPending}
          empty={
            <Empty title="No sync windows yet">
              Services sync at any time. A window holds them back at night, or lets them through only then.
            </Empty>
          }
        />
      )}
    </Page>
  );
}
