import { IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import { State } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Outside } from '../parts/text';
import { health } from '../repository/page';

const Charts = graphql(/* GraphQL */ `
  query HelmRepositories($after: String) {
    list: helmRepositories(first: 100, after: $after) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          url
          health
          error
          provider
          pulledAt
          project {
            name
          }
        }
      }
    }
  }
`);
const Upsert = graphql(/* GraphQL */ `
  mutation UpsertHelm($url: String!, $attributes: HelmRepositoryAttributes) {
    upsertHelmRepository(url: $url, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteHelm($url: String!) {
    deleteHelmRepository(url: $url) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Charts>> = [
  {
    id: 'url',
    header: 'Repository',
    meta: { track: 'minmax(220px, 3fr)' },
    cell: ({ row }) => <Outside address={row.original.url} />,
  },
  { id: 'health', header: 'Health', meta: { track: '100px' }, cell: ({ row }) => <State look={health(row.original.health)} /> },
  { id: 'error', header: 'Why', meta: { ...tracks.wide, from: 760 }, cell: ({ row }) => text(row.original.error) },
  {
    id: 'auth',
    header: 'Signs in',
    meta: { track: '90px', from: 1000 },
    cell: ({ row }) => text(row.original.provider?.toLowerCase()),
  },
  { id: 'project', header: 'Project', meta: { ...tracks.mid, from: 900 }, cell: ({ row }) => text(row.original.project?.name) },
  { id: 'at', header: 'Read', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.pulledAt} absent="never" /> },
  {
    id: 'do',
    header: '',
    meta: { track: '100px', from: 480 },
    cell: ({ row: { original: chart } }) => (
      <Action
        noun="chart repositories"
        isSmall
        isDangerous
        label="Delete"
        icon={IconTrash}
        right={{ verb: 'delete', thing: 'helm-repositories' }}
        explains="Its credentials are forgotten. Services that name an address in it read it without."
        command={`plural cd helm-repositories delete ${quoted(chart.url)}`}
        run={() => ask(Delete, { url: chart.url })}
        done="Deleted the chart repository"
      />
    ),
  },
];

export function List() {
  return (
    <Listing
      title="Chart repositories"
      noun="chart repositories"
      document={Charts}
      columns={columns}
      isSearched={false}
      teaches="Helm repositories and OCI registries that need credentials, certificates or a proxy. Public ones need not be here."
      actions={
        <Action
          noun="chart repositories"
          label="Add or change one"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'helm-repositories' }}
          explains="Every service that names an address in it uses these credentials. They are kept encrypted and shown to nobody."
          fields={[
            { name: 'url', label: 'Address', isRequired: true, placeholder: 'oci://registry.example.com/charts' },
            {
              name: 'auth',
              label: 'Signs in with',
              kind: 'choice',
              options: [
                { value: 'BASIC', label: 'user name and password' },
                { value: 'BEARER', label: 'a token' },
              ],
            },
            { name: 'username', label: 'User name', isRequired: true, when: ({ auth }) => auth === 'BASIC' },
            { name: 'password', label: 'Password', kind: 'secret', isRequired: true, when: ({ auth }) => auth === 'BASIC' },
            { name: 'token', label: 'Token', kind: 'secret', isRequired: true, when: ({ auth }) => auth === 'BEARER' },
          ]}
          command={(values) =>
            `plural cd helm-repositories set ${quoted(values['url'] ?? '')}${values['auth'] === 'BASIC' ? ` --username ${quoted(values['username'] ?? '')} --password-stdin` : values['auth'] === 'BEARER' ? ' --bearer --password-stdin' : ''}`
          }
          run={(values) => {
            const { auth, username = '', password = '', token = '' } = values;
            return ask(Upsert, {
              url: (values['url'] ?? '').trim(),
              attributes: {
                ...(auth === 'BASIC' && { auth: { basic: { username, password } } }),
                ...(auth === 'BEARER' && { auth: { bearer: { token } } }),
              },
            });
          }}
          done="Saved the chart repository"
        />
      }
    />
  );
}
