import { useInfiniteQuery } from '@tanstack/react-query';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action, Once } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given, pairs, password } from '../parts/values';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago } from '../parts/text';

const Tokens = graphql(/* GraphQL */ `
  query RegistrationTokens($after: String) {
    list: bootstrapTokens(first: 100, after: $after) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          hint
          prefix
          limit
          uses
          insertedAt
          expiresAt
          lastUsedAt
          project {
            name
          }
          user {
            email
          }
        }
      }
    }
  }
`);
export const CreateRegistrationToken = graphql(/* GraphQL */ `
  mutation CreateRegistrationToken($attributes: BootstrapTokenAttributes!, $currentPassword: String) {
    createBootstrapToken(attributes: $attributes, currentPassword: $currentPassword) {
      id
      token
      expiresAt
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteRegistrationToken($id: ID!) {
    deleteBootstrapToken(id: $id) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Tokens>> = [
  {
    id: 'name',
    header: 'Token',
    meta: tracks.wide,
    cell: ({ row }) => text([row.original.name, row.original.hint].filter((part) => part != null && part !== '').join(', ')),
  },
  { id: 'project', header: 'Creates clusters in', meta: tracks.mid, cell: ({ row }) => text(row.original.project?.name) },
  { id: 'by', header: 'In whose name', meta: tracks.mid, cell: ({ row }) => text(row.original.user?.email) },
  {
    id: 'uses',
    header: 'Used',
    meta: { track: '80px', from: 480, isNumber: true },
    cell: ({ row }) => `${row.original.uses ?? 0}${row.original.limit == null ? '' : ` of ${row.original.limit}`}`,
  },
  {
    id: 'last',
    header: 'Last used',
    meta: tracks.when,
    cell: ({ row }) => <Ago at={row.original.lastUsedAt} absent="never" />,
  },
  {
    id: 'until',
    header: 'Ends',
    meta: { track: '160px', from: 860 },
    cell: ({ row }) => (row.original.expiresAt == null ? '–' : new Date(row.original.expiresAt).toLocaleString()),
  },
  {
    id: 'do',
    header: '',
    meta: { track: '100px' },
    cell: ({ row }) => (
      <Action
        noun="registration tokens"
        isSmall
        isDangerous
        label="Revoke"
        icon={IconTrash}
        explains="Machines create no clusters with it any more. Clusters that were created with it stay."
        command={`plural cd registration-tokens delete ${row.original.id}`}
        run={() => ask(Delete, { id: row.original.id })}
        done="Revoked the token"
      />
    ),
  },
];

export function List() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Listing
      title="Registration tokens"
      noun="registration tokens"
      document={Tokens}
      columns={columns}
      isSearched={false}
      teaches="Machines that set up clusters register them with such a token, and can do nothing else with it."
      actions={
        <Action
          noun="registration tokens"
          label="Create a token"
          icon={IconPlus}
          {...(first && { right: { verb: 'create', thing: 'clusters', within: `project/${first.name}` } })}
          explains="It creates clusters of one project and does nothing else. It is shown once."
          fields={[
            {
              name: 'project',
              label: 'Project',
              kind: 'choice',
              isRequired: true,
              initial: first?.id ?? '',
              options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
            },
            { name: 'name', label: 'Name' },
            { name: 'expiry', label: 'Valid for', hint: '1h, 30d, 2w; thirty days when empty' },
            { name: 'limit', label: 'Clusters at most', kind: 'number', hint: 'Any number when empty' },
            { name: 'prefix', label: 'Handles begin with' },
            { name: 'tags', label: 'Tags of its clusters', hint: 'tier=prod, region=eu' },
            password,
          ]}
          command={(values) =>
            [
              'plural cd registration-tokens create --project',
              quoted((projects.data ?? []).find(({ id }) => id === values['project'])?.name ?? 'PROJECT'),
              values['name'] === '' ? '' : `--name ${quoted(values['name'] ?? '')}`,
              values['expiry'] === '' ? '' : `--valid-for ${quoted(values['expiry'] ?? '')}`,
              values['limit'] === '' ? '' : `--limit ${values['limit'] ?? ''}`,
              values['prefix'] === '' ? '' : `--prefix ${quoted(values['prefix'] ?? '')}`,
              ...pairs(values, 'tags').map((tag) => `--tag ${quoted(`${tag.name}=${tag.value}`)}`),
            ]
              .filter((word) => word !== '')
              .join(' ')
          }
          run={(values) =>
            ask(CreateRegistrationToken, {
              attributes: {
                projectId: values['project'] ?? '',
                name: given(values, 'name'),
                expiry: given(values, 'expiry'),
                limit: given(values, 'limit') === null ? null : Number(values['limit']),
                prefix: given(values, 'prefix'),
                tags: pairs(values, 'tags'),
              },
              currentPassword: given(values, 'currentPassword'),
            })
          }
          tells={(answer) => <Once text={answer.createBootstrapToken?.token ?? ''} what="The token" />}
          done=""
        />
      }
    />
  );
}
