import { useInfiniteQuery } from '@tanstack/react-query';
import { IconMailPlus, IconTrash } from '@tabler/icons-react';

import { groupsQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given, password } from '../parts/form';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago } from '../parts/text';
import { Invitation } from './told';

const Invites = graphql(/* GraphQL */ `
  query Invites($after: String, $q: String) {
    list: invites(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          email
          insertedAt
          expiresAt
          inviter {
            email
          }
          user {
            id
          }
          groups {
            name
          }
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateInvite($attributes: InviteAttributes!, $currentPassword: String) {
    createInvite(attributes: $attributes, currentPassword: $currentPassword) {
      id
      email
      page
      token
      expiresAt
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteInvite($id: ID!) {
    deleteInvite(id: $id) {
      id
    }
  }
`);

const right = { verb: 'create', thing: 'users' };
const columns: Columns<RowOf<typeof Invites>> = [
  { id: 'email', header: 'Who', meta: tracks.wide, cell: ({ row }) => text(row.original.email) },
  {
    id: 'what',
    header: 'For',
    meta: { track: '130px' },
    cell: ({ row }) => (row.original.user ? 'another password' : 'a new account'),
  },
  {
    id: 'groups',
    header: 'Groups',
    meta: tracks.mid,
    cell: ({ row }) => text((row.original.groups ?? []).map((group) => group?.name).join(', ')),
  },
  { id: 'by', header: 'By', meta: tracks.mid, cell: ({ row }) => text(row.original.inviter?.email) },
  {
    id: 'until',
    header: 'Ends',
    meta: { track: '170px', from: 760 },
    cell: ({ row }) => (row.original.expiresAt == null ? '–' : new Date(row.original.expiresAt).toLocaleString()),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'do',
    header: '',
    meta: { track: '100px' },
    cell: ({ row: { original: row } }) => (
      <Action
        noun="invitations"
        isSmall
        isDangerous
        label="Revoke"
        icon={IconTrash}
        right={right}
        explains="The code is worth nothing any more."
        command={`plural cd users uninvite ${row.id}`}
        run={() => ask(Delete, { id: row.id })}
        done="Revoked the invitation"
      />
    ),
  },
];

export function List() {
  const groups = useInfiniteQuery(groupsQuery);
  return (
    <Listing
      title="Invitations"
      noun="invitations"
      document={Invites}
      columns={columns}
      teaches="Somebody who is invited makes their own account within seven days: nobody else knows the password."
      actions={
        <Action
          noun="invitations"
          label="Invite"
          icon={IconMailPlus}
          right={right}
          explains="Makes a code that is shown once. The console sends no mail: give the link to them yourself."
          fields={[
            { name: 'email', label: 'E-mail address', isRequired: true },
            {
              name: 'group',
              label: 'Group that the account is put into',
              kind: 'choice',
              options: (groups.data ?? []).map((group) => ({ value: group.id, label: group.name })),
            },
            password,
          ]}
          command={(values) => {
            const group = (groups.data ?? []).find((one) => one.id === values['group']);
            return `plural cd users invite ${quoted(values['email'] ?? '')}${group ? ` --group ${quoted(group.name)}` : ''}`;
          }}
          run={async (values) => {
            const group = given(values, 'group');
            const attributes = { email: (values['email'] ?? '').trim(), ...(group !== null && { groupIds: [group] }) };
            return (await ask(Create, { attributes, currentPassword: given(values, 'currentPassword') })).createInvite;
          }}
          tells={(invite) => <Invitation invite={invite} />}
          done=""
        />
      }
    />
  );
}
