import { useInfiniteQuery } from '@tanstack/react-query';
import { IconMailPlus, IconTrash } from '@tabler/icons-react';

import { groupsQuery, projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given, password } from '../parts/values';
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
          role
          project {
            name
          }
          customRole {
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

const right = { verb: 'create', thing: 'invitations' };

/** What whoever accepts it gets. */
function purpose(row: RowOf<typeof Invites>): string {
  const role = row.customRole?.name ?? row.role?.toLowerCase();
  if (role !== undefined) return `${role} on ${row.project?.name ?? 'a project'}`;
  return row.user ? 'another password' : 'a new account';
}

const columns: Columns<RowOf<typeof Invites>> = [
  { id: 'email', header: 'Who', meta: tracks.wide, cell: ({ row }) => text(row.original.email) },
  {
    id: 'what',
    header: 'For',
    meta: { track: '120px' },
    cell: ({ row }) => text(purpose(row.original)),
  },
  {
    id: 'groups',
    header: 'Groups',
    meta: { ...tracks.mid, from: 1000 },
    cell: ({ row }) => text((row.original.groups ?? []).map((group) => group?.name).join(', ')),
  },
  { id: 'by', header: 'By', meta: tracks.mid, cell: ({ row }) => text(row.original.inviter?.email) },
  {
    id: 'until',
    header: 'Ends',
    meta: { track: '120px', from: 760 },
    cell: ({ row: { original: row } }) =>
      row.expiresAt == null ? (
        '–'
      ) : (
        <time dateTime={row.expiresAt} title={new Date(row.expiresAt).toLocaleString()}>
          {new Date(row.expiresAt).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })}
        </time>
      ),
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
        right={{ verb: 'revoke', thing: `invitation/${row.id}` }}
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
  const projects = useInfiniteQuery(projectsQuery);
  const [first, ...others] = projects.data ?? [];
  const named = (id: string | undefined) => (projects.data ?? []).find((one) => one.id === id)?.name ?? 'PROJECT';
  return (
    <Listing
      title="Invitations"
      noun="invitations"
      document={Invites}
      columns={columns}
      teaches="Somebody who is invited creates their own account within seven days: nobody else knows the password."
      actions={
        <>
          <Action
            noun="invitations"
            label="Invite to a project"
            icon={IconMailPlus}
            // Of several projects, who may invite to one need not be allowed to for the first.
            {...(first && others.length === 0 && { right: { ...right, within: `project/${first.name}` } })}
            explains="Creates a code that is shown once. Whoever accepts it has the role on the project, with the account that they have or create."
            fields={[
              { name: 'email', label: 'E-mail address', isRequired: true },
              {
                name: 'project',
                label: 'Project',
                kind: 'choice',
                isRequired: true,
                initial: first?.id ?? '',
                options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
              },
              {
                name: 'role',
                label: 'Role there',
                kind: 'choice',
                isRequired: true,
                initial: 'READ',
                options: (['READ', 'WRITE', 'ADMIN'] as const).map((role) => ({ value: role, label: role.toLowerCase() })),
              },
              password,
            ]}
            command={(values) =>
              `plural cd users invite ${quoted(values['email'] ?? '')} --project ${quoted(named(values['project']))} --role ${(values['role'] ?? 'READ').toLowerCase()}`
            }
            run={async (values) => {
              const role = (['READ', 'WRITE', 'ADMIN'] as const).find((one) => one === values['role']) ?? 'READ';
              const attributes = { email: (values['email'] ?? '').trim(), projectId: values['project'] ?? '', role };
              return (await ask(Create, { attributes, currentPassword: given(values, 'currentPassword') })).createInvite;
            }}
            tells={(invite) => <Invitation invite={invite} />}
            done=""
          />
          <Action
            noun="invitations"
            label="Invite"
            icon={IconMailPlus}
            right={right}
            explains="Creates a code that is shown once. The console sends no mail: give the link to them yourself."
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
        </>
      }
    />
  );
}
