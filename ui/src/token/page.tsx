import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';

import { clustersQuery } from '../cluster/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action, Once } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given, password } from '../parts/values';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago } from '../parts/text';

const Tokens = graphql(/* GraphQL */ `
  query Tokens($after: String) {
    list: accessTokens(first: 100, after: $after) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          hint
          scopes
          session
          insertedAt
          expiresAt
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateToken($validForSeconds: Int, $scopes: [ScopeAttributes], $currentPassword: String) {
    createAccessToken(validForSeconds: $validForSeconds, scopes: $scopes, currentPassword: $currentPassword) {
      id
      token
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteToken($id: String!) {
    deleteAccessToken(token: $id) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Tokens>> = [
  { id: 'hint', header: 'Begins with', meta: { track: 'minmax(110px, 1fr)' }, cell: ({ row }) => text(row.original.hint) },
  {
    id: 'kind',
    header: 'Type',
    meta: { track: '80px' },
    cell: ({ row }) => (row.original.session === true ? 'a session' : 'a token'),
  },
  {
    id: 'scopes',
    header: 'Scopes',
    meta: { track: 'minmax(120px, 1.4fr)', from: 620 },
    cell: ({ row }) => {
      const scopes = (row.original.scopes ?? []).join(', ');
      return text(scopes === '' || scopes === '*' ? 'all that you may' : scopes);
    },
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'until',
    header: 'Ends',
    meta: { track: '170px', from: 620 },
    cell: ({ row }) => (row.original.expiresAt == null ? 'never' : new Date(row.original.expiresAt).toLocaleString()),
  },
  {
    id: 'do',
    header: '',
    meta: { track: '100px' },
    cell: ({ row: { original: token } }) => (
      <Action
        noun="tokens"
        isSmall
        isDangerous
        label="Revoke"
        icon={IconTrash}
        explains={
          token.session === true
            ? 'Whoever is signed in with it is signed out within five seconds. If it is this browser, you sign in again.'
            : 'Programs that use it are refused within five seconds.'
        }
        command={`plural tokens revoke ${token.id ?? ''}`}
        run={() => ask(Delete, { id: token.id ?? '' })}
        done="Revoked it"
      />
    ),
  },
];

const LENGTHS: Record<string, number> = { '1h': 3600, '1d': 86_400, '30d': 2_592_000, '90d': 7_776_000, '365d': 31_536_000 };

/** Your tokens and the sessions that you are signed in with. */
export function List() {
  const clusters = useInfiniteQuery(clustersQuery({}, 200));
  return (
    <Listing
      title="Tokens and sessions"
      noun="tokens"
      document={Tokens}
      columns={columns}
      isSearched={false}
      teaches="What programs sign in with on your behalf, and where you are signed in."
      how="plural tokens create --valid-for 30d"
      actions={
        <Action
          noun="tokens"
          label="Create a token"
          icon={IconPlus}
          explains="It is shown once; the console keeps only its digest. Give it as little as it needs."
          fields={[
            {
              name: 'length',
              label: 'Valid for',
              kind: 'choice',
              isRequired: true,
              initial: '30d',
              options: [
                { value: '1h', label: 'an hour' },
                { value: '1d', label: 'a day' },
                { value: '30d', label: '30 days' },
                { value: '90d', label: '90 days' },
                { value: '365d', label: 'a year' },
                { value: 'ever', label: 'until it is revoked' },
              ],
            },
            {
              name: 'reach',
              label: 'Reaches',
              kind: 'choice',
              isRequired: true,
              initial: '*',
              options: [
                { value: '*', label: 'all that you may' },
                { value: 'k8s', label: 'the Kubernetes APIs of all clusters, and nothing else' },
                ...(clusters.data ?? []).map((one) => ({
                  value: one.id,
                  label: `the Kubernetes API of ${one.handle ?? one.name}`,
                })),
              ],
            },
            password,
          ]}
          command={({ length = '', reach = '' }) =>
            [
              'plural tokens create',
              length === 'ever' ? '' : `--valid-for ${length}`,
              reach === '*'
                ? ''
                : reach === 'k8s'
                  ? '--all-clusters'
                  : `--cluster ${quoted((clusters.data ?? []).find(({ id }) => id === reach)?.handle ?? reach)}`,
            ]
              .filter((word) => word !== '')
              .join(' ')
          }
          run={(values) => {
            const { length = '', reach = '*' } = values;
            return ask(Create, {
              validForSeconds: LENGTHS[length] ?? null,
              scopes: reach === '*' ? null : [reach === 'k8s' ? { api: 'k8s' } : { api: 'k8s', identifier: reach }],
              currentPassword: given(values, 'currentPassword'),
            });
          }}
          tells={(answer) => <Once text={answer.createAccessToken?.token ?? ''} what="The token" />}
          done=""
        />
      }
    />
  );
}
