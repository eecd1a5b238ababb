import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';

import { visible } from '../lib/text';
import { paths } from '../paths';
import { Facets, Search } from '../parts/filter';
import { Empty, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import { isCustom, kindsQuery } from './discovery';
import { Frame, Trouble } from './frame';
import { Go } from './go';
import listClasses from './list.module.css';
import type { Kind } from './request';

const route = getRouteApi('/clusters/$handle/kubernetes/kinds');

/** Verbs in the order in which people name them; others come after. */
const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'];
const rank = (verb: string): number => (VERBS.indexOf(verb) + VERBS.length + 1) % (VERBS.length + 1);

/** Everything that a cluster's API server serves, custom resources with their definitions. */
export function KindsPage() {
  const { handle } = route.useParams();
  const { q = '', custom } = route.useSearch();
  const navigate = route.useNavigate();
  const kinds = useQuery(kindsQuery(handle));
  const rows = useMemo(() => {
    const wanted = q.toLowerCase();
    return (kinds.data ?? [])
      .filter((kind) => custom === undefined || isCustom(kind))
      .filter(({ id, kind, shortNames }) => [id, kind, ...shortNames].some((name) => name.toLowerCase().includes(wanted)))
      .sort((a, b) => (a.group === b.group ? (a.kind < b.kind ? -1 : 1) : a.group < b.group ? -1 : 1));
  }, [kinds.data, q, custom]);
  const columns = useMemo(() => columnsOf(handle), [handle]);
  return (
    <Frame handle={handle} title="Kinds" isFull>
      <div className={listClasses['tools']}>
        <Search
          label="Search kinds"
          value={q}
          onChange={(value) => void navigate({ search: (old) => ({ ...old, q: value || undefined }), replace: true })}
        />
        <Facets
          label="Which"
          value={custom}
          onChange={(value) => void navigate({ search: (old) => ({ ...old, custom: value }), replace: true })}
          choices={[
            { value: undefined, label: 'All', count: kinds.data?.length },
            { value: 'yes', label: 'Custom', count: kinds.data?.filter(isCustom).length },
          ]}
        />
      </div>
      {kinds.isPending && <Waiting lines={10} />}
      {kinds.isError && (
        <Trouble handle={handle} error={kinds.error} what="what the cluster serves" retry={() => void kinds.refetch()} />
      )}
      {kinds.isSuccess && (
        <Table
          label="Kinds"
          rows={rows}
          columns={columns}
          id={({ id }) => id}
          total={rows.length}
          empty={
            <Empty title={q === '' ? 'No custom kinds' : 'No kind has this in its name'}>
              Custom kinds come with their CustomResourceDefinitions.
            </Empty>
          }
        />
      )}
    </Frame>
  );
}

function columnsOf(handle: string): Columns<Kind> {
  return [
    {
      id: 'kind',
      header: 'Kind',
      meta: { track: 'minmax(150px, 1.3fr)' },
      cell: ({ row: { original: kind } }) =>
        kind.verbs.includes('list') ? (
          <Go strong to={paths.kubernetes(handle, { kind: kind.id })}>
            <Name of={kind.kind} />
          </Go>
        ) : (
          <Name of={kind.kind} />
        ),
    },
    { id: 'group', header: 'API', meta: { track: 'minmax(140px, 1.2fr)' }, cell: ({ row }) => <Name of={api(row.original)} /> },
    {
      id: 'name',
      header: 'Resource',
      meta: { track: 'minmax(120px, 1fr)', from: 620 },
      cell: ({ row: { original: kind } }) => <Name of={[kind.resource, ...kind.shortNames].join(', ')} />,
    },
    {
      id: 'scope',
      header: 'Scope',
      meta: { track: '90px', from: 520 },
      cell: ({ row }) => (row.original.isNamespaced ? 'Namespace' : 'Cluster'),
    },
    {
      id: 'verbs',
      header: 'Verbs',
      meta: { track: 'minmax(160px, 1.4fr)', from: 900 },
      cell: ({ row }) => {
        const verbs = [...row.original.verbs].sort((a, b) => rank(a) - rank(b)).join(', ');
        return (
          <span title={visible(verbs)}>
            <Name of={verbs} />
          </span>
        );
      },
    },
    {
      id: 'definition',
      header: 'Definition',
      meta: { track: '90px', from: 720 },
      cell: ({ row: { original: kind } }) =>
        isCustom(kind) && (
          <Go to={paths.kubernetesObject(handle, { kind: 'customresourcedefinitions.apiextensions.k8s.io', name: kind.id })}>
            Fields
          </Go>
        ),
    },
  ];
}

function api({ group, version }: Kind): string {
  return group === '' ? version : `${group}/${version}`;
}
