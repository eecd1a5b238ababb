import { Tabs, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, type ReactNode } from 'react';

import type { ClusterAuditQuery, ClusterQuery } from '../generated/graphql';
import { useNext } from '../lib/list';
import { clusterTabs, paths, type ClusterTab } from '../paths';
import { Command } from '../parts/action';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Shown, Stale } from '../parts/shown';
import { clusterState, serviceStatuses, State, statusOrder } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { servicesQuery, statusesQuery } from '../service/queries';
import { serviceColumns } from '../service/table';
import { document } from '../lib/yaml';
import { recordingColumns } from '../recording/page';
import { Kubectl } from './kubeconfig';
import { distribution } from './fleet';
import { clusterAuditQuery, clusterQuery, clusterRecordingsQuery } from './queries';
import { ClusterSettings } from './settings';
import { Tag } from './table';

const Yaml = lazy(async () => ({ default: (await import('../parts/code')).Yaml }));

const route = getRouteApi('/clusters/$handle');

const tabNames: Record<ClusterTab, string> = {
  services: 'Services',
  deprecations: 'Deprecated APIs',
  audit: 'Requests',
  recordings: 'Recordings',
  kubectl: 'kubectl',
  metadata: 'Metadata',
  settings: 'Settings',
};

/** One cluster: its agent, what runs in it, what its next upgrade would break. */
export function ClusterPage() {
  const { handle } = route.useParams();
  const { tab = 'services' } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(clusterQuery(handle));
  const cluster = held(query);
  const within = [{ name: 'Clusters', to: paths.clusters() }];
  if (cluster == null) {
    return (
      <Page title={handle} within={within}>
        {query.isError && <Fault error={query.error} what={`cluster ${handle}`} retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={10} />}
        {query.isSuccess && (
          <Empty title="There is no such cluster">
            It is gone, or you may not see it. <RouteLink to={paths.clusters()}>All clusters</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  const conditions = (cluster.status?.conditions ?? []).flatMap((condition) => condition ?? []);
  const ends = (cluster.apiDeprecations ?? []).flatMap((one) => one ?? []);
  return (
    <Page
      title={cluster.handle ?? handle}
      within={within}
      state={<State look={clusterState(cluster)} />}
      actions={<RouteLink to={paths.kubernetes(handle)}>Kubernetes</RouteLink>}
    >
      <Stale query={query} what={`cluster ${handle}`} />
      <Panel title="Cluster">
        <Facts
          facts={[
            ['Name', <Name key="name" of={cluster.name} />],
            ['Kubernetes', cluster.currentVersion ?? 'not known yet'],
            ['Distribution', cluster.distro != null && distribution(cluster.distro)],
            [
              'Agent',
              cluster.agentVersion == null
                ? 'never connected'
                : `${cluster.agentVersion}${cluster.agentOutdated === true ? ', of an earlier build' : ''}`,
            ],
            ['Last heard', <Ago key="heard" at={cluster.pingedAt} absent="never" />],
            ['Nodes', cluster.nodeCount],
            ['Pods', cluster.podCount],
            ['Namespaces', cluster.namespaceCount],
            ['Project', cluster.project && <Name of={cluster.project.name} />],
            [
              'Tags',
              (cluster.tags ?? []).length > 0 &&
                (cluster.tags ?? []).map((tag) => tag && <Tag key={tag.name} name={tag.name} value={tag.value} />),
            ],
            ['Protected', cluster.protect === true && 'deleting it is refused'],
            ['Added', <Ago key="added" at={cluster.insertedAt} />],
            ...conditions.map(({ type, status, reason, message }): [string, ReactNode] => [
              type ?? 'Condition',
              <Name key={type} of={[status, reason, message].filter((part) => part != null && part !== '').join(', ')} />,
            ]),
          ]}
        />
      </Panel>
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) => void navigate({ search: (old) => ({ ...old, tab: next as ClusterTab }), replace: true })}
      >
        <Tabs.List mb="md">
          {clusterTabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {tabNames[one]}
              {one === 'deprecations' && ends.length > 0 && ` (${ends.length})`}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="services">
          <Services id={cluster.id} handle={handle} />
        </Tabs.Panel>
        <Tabs.Panel value="deprecations">
          <Panel title="Objects of APIs that a later Kubernetes does not serve">
            {ends.length === 0 ? (
              <Empty title="No service uses a deprecated API" />
            ) : (
              <Table
                isShort
                label="Deprecated APIs"
                rows={ends}
                columns={endColumns}
                id={(end) => `${end.component?.id ?? ''}${end.removedIn ?? ''}`}
                empty={null}
              />
            )}
          </Panel>
        </Tabs.Panel>
        <Tabs.Panel value="audit">
          <Requests handle={handle} />
        </Tabs.Panel>
        <Tabs.Panel value="recordings">
          <Recordings handle={handle} />
        </Tabs.Panel>
        <Tabs.Panel value="kubectl">
          <Kubectl cluster={cluster} />
        </Tabs.Panel>
        <Tabs.Panel value="metadata">
          <Panel title="Metadata, for templates">
            {isEmpty(cluster.metadata) ? (
              <Empty title="No metadata">
                Templates read it as <code>cluster.metadata</code>. It is set under Settings.
              </Empty>
            ) : (
              <Suspense fallback={<Waiting />}>
                <Yaml text={document(cluster.metadata)} label="Metadata" />
              </Suspense>
            )}
          </Panel>
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <ClusterSettings cluster={cluster} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function isEmpty(value: unknown): boolean {
  return typeof value !== 'object' || value === null || Object.keys(value).length === 0;
}

function Recordings({ handle }: { handle: string }) {
  const query = useQuery(clusterRecordingsQuery(handle));
  if (query.isPending) return <Waiting />;
  const rows = (query.data?.recordings?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  return (
    <Panel title="Recordings of shells, newest first">
      <Shown query={query} what="recordings">
        <Table
          isShort
          label="Recordings"
          rows={rows}
          columns={recordingColumns}
          id={({ id }) => id}
          empty={
            <Empty title="No recordings that you may read">
              Administrators of its project switch recordings on, and name who may read them.
            </Empty>
          }
        />
      </Shown>
    </Panel>
  );
}

function Services({ id, handle }: { id: string; handle: string }) {
  const list = useInfiniteQuery(servicesQuery({ cluster: handle }));
  const counts = useQuery(statusesQuery({ clusterId: id }));
  const next = useNext(list);
  return (
    <Panel
      title="Services"
      aside={
        <Text size="sm" component="div" style={{ display: 'flex', gap: 16, flexWrap: 'wrap' }}>
          {statusOrder
            .filter((status) => (counts.data?.get(status) ?? 0) > 0)
            .map((status) => (
              <span key={status}>
                <State look={serviceStatuses[status]} /> {counts.data?.get(status)}
              </span>
            ))}
          <RouteLink to={paths.services()} search={{ cluster: handle }}>
            Search these services
          </RouteLink>
        </Text>
      }
    >
      <Shown query={list} what="its services">
        <Table
          isShort
          label="Services"
          rows={list.data ?? []}
          columns={serviceColumns.filter(({ id: column }) => column !== 'cluster')}
          id={(service) => service.id}
          isWaiting={list.isPending}
          next={next}
          empty={
            <Empty title="No services here yet">
              <Command caption="How to create one" line="plural cd services create --help" />
            </Empty>
          }
        />
      </Shown>
    </Panel>
  );
}

type End = NonNullable<NonNullable<NonNullable<ClusterQuery['cluster']>['apiDeprecations']>[number]>;

const endColumns: Columns<End> = [
  {
    id: 'object',
    header: 'Object',
    meta: { track: 'minmax(160px, 1.5fr)' },
    cell: ({ row: { original: end } }) => (
      <>
        {end.component?.kind} <Name of={end.component?.name ?? ''} />
      </>
    ),
  },
  {
    id: 'service',
    header: 'Service',
    meta: { track: 'minmax(100px, 1fr)', from: 480 },
    cell: ({ row }) => <Name of={row.original.component?.service?.name ?? ''} />,
  },
  { id: 'removed', header: 'Gone in', meta: { track: '90px' }, cell: ({ row }) => row.original.removedIn ?? '–' },
  {
    id: 'use',
    header: 'Use instead',
    meta: { track: 'minmax(120px, 1fr)', from: 560 },
    cell: ({ row }) => row.original.replacement ?? '–',
  },
];

type Log = NonNullable<
  NonNullable<NonNullable<NonNullable<NonNullable<ClusterAuditQuery['cluster']>['auditLogs']>['edges']>[number]>['node']
>;

const logColumns: Columns<Log> = [
  { id: 'at', header: 'When', meta: { track: '100px' }, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'who',
    header: 'Who',
    meta: { track: 'minmax(100px, 0.6fr)' },
    cell: ({ row: { original: row } }) => (
      <Name of={row.impersonatedUser == null ? row.actorName : `${row.actorName} as ${row.impersonatedUser}`} />
    ),
  },
  {
    id: 'what',
    header: 'Request',
    meta: { track: 'minmax(160px, 2fr)', from: 480 },
    cell: ({ row }) => <Name of={`${row.original.method} ${row.original.path}`} />,
  },
  {
    id: 'recording',
    header: 'Recording',
    meta: { track: '90px', from: 760 },
    cell: ({ row }) =>
      row.original.recordingId != null && <RouteLink to={paths.setting('recordings', row.original.recordingId)}>Play</RouteLink>,
  },
  { id: 'code', header: 'Answer', meta: { track: '70px', isNumber: true }, cell: ({ row }) => row.original.responseCode },
];

function Requests({ handle }: { handle: string }) {
  const query = useQuery(clusterAuditQuery(handle));
  if (query.isPending) return <Waiting />;
  const rows = (query.data?.auditLogs?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  return (
    <Panel title="API requests by users, newest first">
      <Shown query={query} what="requests">
        <Table
          isShort
          label="Requests"
          rows={rows}
          columns={logColumns}
          id={({ id }) => id}
          empty={
            <Empty title="No requests yet">
              What users ask of this cluster’s API through the console appears here, by kubectl and by the pages under Kubernetes.
            </Empty>
          }
        />
      </Shown>
    </Panel>
  );
}
