import { useQuery } from '@tanstack/react-query';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { ManagedNamespaceQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { document } from '../lib/yaml';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, pairs } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Panel } from '../parts/page';
import { componentStates, State, type Look } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';

const Namespaces = graphql(/* GraphQL */ `
  query ManagedNamespaces($after: String, $q: String) {
    list: managedNamespaces(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          namespace
          description
          error
          spread
          deletedAt
          updatedAt
          project {
            name
          }
          instanceCounts {
            all
            synced
            leaving
          }
        }
      }
    }
  }
`);
const Namespace = graphql(/* GraphQL */ `
  query ManagedNamespace($name: String!) {
    managedNamespace(name: $name) {
      id
      name
      namespace
      description
      error
      spread
      labels
      annotations
      pullSecrets
      deletedAt
      insertedAt
      updatedAt
      project {
        name
      }
      cascade {
        delete
        detach
      }
      target {
        distro
        tags
      }
      instanceCounts {
        all
        synced
        leaving
      }
      instances(first: 500) {
        edges {
          node {
            state
            leaving
            cluster {
              id
              handle
            }
          }
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateNamespace($attributes: ManagedNamespaceAttributes!) {
    createManagedNamespace(attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteNamespace($id: ID!) {
    deleteManagedNamespace(id: $id) {
      id
    }
  }
`);

function look(one: { error?: string | null; spread: boolean; deletedAt?: string | null }): Look {
  if (one.deletedAt != null) return { ...componentStates.PAUSED, word: 'Is removed' };
  if (one.error != null) return { ...componentStates.FAILED, word: 'Failed' };
  return one.spread ? { ...componentStates.RUNNING, word: 'Everywhere' } : { ...componentStates.PENDING, word: 'Spreading' };
}

const columns: Columns<RowOf<typeof Namespaces>> = [
  {
    id: 'name',
    header: 'Managed namespace',
    meta: tracks.wide,
    cell: ({ row }) => <Linked noun="managed-namespaces" id={row.original.name} name={row.original.name} />,
  },
  { id: 'namespace', header: 'Namespace', meta: tracks.mid, cell: ({ row }) => text(row.original.namespace) },
  { id: 'state', header: 'State', meta: { track: '120px' }, cell: ({ row }) => <State look={look(row.original)} /> },
  {
    id: 'counts',
    header: 'Clusters',
    meta: { track: '100px', from: 480, isNumber: true },
    cell: ({ row: { original: one } }) => `${one.instanceCounts?.synced ?? 0} of ${one.instanceCounts?.all ?? 0}`,
  },
  { id: 'project', header: 'Project', meta: tracks.mid, cell: ({ row }) => text(row.original.project?.name) },
  { id: 'error', header: 'Why', meta: { track: 'minmax(100px, 1fr)', from: 860 }, cell: ({ row }) => text(row.original.error) },
  { id: 'at', header: 'Changed', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.updatedAt} /> },
];

const record = (all: { name: string; value: string }[]) => Object.fromEntries(all.map(({ name, value }) => [name, value]));

export function List() {
  return (
    <Listing
      title="Managed namespaces"
      noun="managed namespaces"
      document={Namespaces}
      columns={columns}
      teaches="A namespace with its labels and pull secrets on every cluster that it targets."
      how="plural cd managed-namespaces create --help"
      actions={
        <Action
          noun="managed namespaces"
          label="Create one"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'managed-namespaces' }}
          explains="Every cluster with these tags has the namespace from then on."
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            { name: 'namespace', label: 'Namespace', hint: 'The name when empty' },
            { name: 'description', label: 'What it is for' },
            { name: 'tags', label: 'Tags that a cluster must have', hint: 'tier=prod, region=eu; all clusters when empty' },
            { name: 'labels', label: 'Labels', hint: 'team=shop, …' },
            { name: 'cascade', label: 'Delete the namespace where a cluster is no target any more', kind: 'check' },
          ]}
          command={(values) =>
            [
              `plural cd managed-namespaces create ${quoted(values['name'] ?? '')}`,
              values['namespace'] === '' ? '' : `--namespace ${quoted(values['namespace'] ?? '')}`,
              ...pairs(values, 'tags').map((tag) => `--tag ${quoted(`${tag.name}=${tag.value}`)}`),
              ...pairs(values, 'labels').map((tag) => `--label ${quoted(`${tag.name}=${tag.value}`)}`),
              isOn(values, 'cascade') ? '--cascade delete' : '',
            ]
              .filter((word) => word !== '')
              .join(' ')
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                name: (values['name'] ?? '').trim(),
                namespace: given(values, 'namespace'),
                description: given(values, 'description'),
                labels: JSON.stringify(record(pairs(values, 'labels'))),
                target: { tags: JSON.stringify(record(pairs(values, 'tags'))) },
                ...(isOn(values, 'cascade') && { cascade: { delete: true } }),
              },
            })
          }
          done="The namespace spreads"
        />
      }
    />
  );
}

type Known = NonNullable<ManagedNamespaceQuery['managedNamespace']>;
type Instance = NonNullable<NonNullable<NonNullable<NonNullable<Known['instances']>['edges']>[number]>['node']>;

const instanceColumns: Columns<Instance> = [
  {
    id: 'cluster',
    header: 'Cluster',
    meta: tracks.wide,
    cell: ({ row }) =>
      row.original.cluster && (
        <RouteLink to={paths.cluster(row.original.cluster.handle ?? '')} strong>
          <Name of={row.original.cluster.handle ?? ''} />
        </RouteLink>
      ),
  },
  {
    id: 'state',
    header: 'State',
    meta: { track: '150px' },
    cell: ({ row: { original: one } }) => (
      <State
        look={
          one.leaving
            ? { ...componentStates.PAUSED, word: 'Leaves' }
            : one.state === 'SYNCED'
              ? { ...componentStates.RUNNING, word: 'There' }
              : one.state === 'ERROR'
                ? componentStates.FAILED
                : { ...componentStates.PENDING, word: 'Waits' }
        }
      />
    ),
  },
];

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['managed namespaces', 'one', name],
    queryFn: async ({ signal }) => (await ask(Namespace, { name }, signal)).managedNamespace,
  });
  const map = (value: unknown) =>
    typeof value === 'object' && value !== null && Object.keys(value).length > 0 ? (
      <pre style={{ margin: 0 }}>
        <Name of={document(value)} />
      </pre>
    ) : (
      'none'
    );
  return (
    <OneThing
      noun="managed-namespaces"
      many="Managed namespaces"
      name={name}
      query={query}
      title={(one) => one.name}
      state={(one) => <State look={look(one)} />}
      actions={(one) => (
        <Action
          noun="managed namespaces"
          isDangerous
          label="Delete"
          icon={IconTrash}
          right={{ verb: 'delete', thing: `managed-namespace/${name}` }}
          explains={
            one.cascade?.delete === true
              ? `The namespace and all that is in it is deleted on ${one.instanceCounts?.all ?? 0} clusters.`
              : 'The namespaces stay on their clusters; nobody keeps them as they should be any more.'
          }
          confirm={one.name}
          command={`plural cd managed-namespaces delete ${quoted(name)}`}
          run={() => ask(Delete, { id: one.id })}
          done={`${name} is removed`}
        />
      )}
    >
      {(one) => (
        <>
          <Panel title="Managed namespace">
            <Facts
              facts={[
                ['Why it fails', one.error != null && <Name of={one.error} />],
                ['Namespace', <Name key="n" of={one.namespace} />],
                ['What it is for', one.description != null && <Name of={one.description} />],
                ['Project', one.project && <Name of={one.project.name} />],
                ['Targets', map(one.target?.tags)],
                ['Labels', map(one.labels)],
                ['Annotations', map(one.annotations)],
                ['Pull secrets', (one.pullSecrets ?? []).join(', ')],
                ['Changed', <Ago key="at" at={one.updatedAt} />],
              ]}
            />
          </Panel>
          <Panel title="Clusters that have it">
            <Table
              isShort
              label="Instances"
              rows={(one.instances?.edges ?? []).flatMap((edge) => edge?.node ?? [])}
              columns={instanceColumns}
              id={(instance) => instance.cluster?.id ?? ''}
              empty={<Empty title="No cluster is a target">Give clusters the tags that it names.</Empty>}
            />
          </Panel>
        </>
      )}
    </OneThing>
  );
}
