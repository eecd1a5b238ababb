import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash, IconUserMinus, IconUserPlus } from '@tabler/icons-react';

import { Groups, usersQuery } from '../access/queries';
import { graphql } from '../generated';
import type { GroupQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, type Field } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Panel } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const GroupOf = graphql(/* GraphQL */ `
  query Group($name: String!) {
    group(name: $name) {
      id
      name
      description
      global
      insertedAt
      updatedAt
      members {
        id
        name
        email
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateGroup($attributes: GroupAttributes!) {
    createGroup(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateGroup($groupId: ID!, $attributes: GroupAttributes!) {
    updateGroup(groupId: $groupId, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteGroup($groupId: ID!) {
    deleteGroup(groupId: $groupId) {
      id
    }
  }
`);
const AddMember = graphql(/* GraphQL */ `
  mutation AddMember($groupId: ID!, $userId: ID!) {
    createGroupMember(groupId: $groupId, userId: $userId) {
      id
    }
  }
`);
const RemoveMember = graphql(/* GraphQL */ `
  mutation RemoveMember($groupId: ID!, $userId: ID!) {
    deleteGroupMember(groupId: $groupId, userId: $userId) {
      id
    }
  }
`);

const fields = (group?: { name: string; description?: string | null; global?: boolean | null }): Field[] => [
  { name: 'name', label: 'Name', isRequired: true, initial: group?.name ?? '' },
  { name: 'description', label: 'What it is for', initial: group?.description ?? '' },
  {
    name: 'global',
    label: 'Every user is a member, those who come later too',
    kind: 'check',
    initial: group?.global === true ? 'yes' : '',
  },
];

const columns: Columns<RowOf<typeof Groups>> = [
  {
    id: 'name',
    header: 'Group',
    meta: tracks.wide,
    cell: ({ row }) => <Linked noun="groups" id={row.original.name} name={row.original.name} />,
  },
  {
    id: 'description',
    header: 'What it is for',
    meta: { ...tracks.mid, isBlank: ({ description }) => description == null || description === '' },
    cell: ({ row }) => text(row.original.description),
  },
  {
    id: 'global',
    header: 'Members',
    meta: { track: '110px', from: 480 },
    cell: ({ row }) => (row.original.global === true ? 'every user' : 'those added'),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Groups"
      noun="groups"
      document={Groups}
      columns={columns}
      teaches="Users that are given access together. Identity providers can fill them."
      actions={
        <Action
          noun="groups"
          label="Create a group"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'groups' }}
          explains="It has no access until it is given a role on a project, a cluster or a service."
          fields={fields()}
          command={(values) =>
            `plural cd groups create ${quoted(values['name'] ?? '')} --description ${quoted(values['description'] ?? '')}${isOn(values, 'global') ? ' --global' : ''}`
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                name: (values['name'] ?? '').trim(),
                description: given(values, 'description'),
                global: isOn(values, 'global'),
              },
            })
          }
          done="Created the group"
        />
      }
    />
  );
}

type Group = NonNullable<GroupQuery['group']>;
type Member = NonNullable<NonNullable<Group['members']>[number]>;

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['groups', 'one', name],
    queryFn: async ({ signal }) => (await ask(GroupOf, { name }, signal)).group,
  });
  const users = useInfiniteQuery(usersQuery);
  const which = quoted(name);
  const right = { verb: 'update', thing: `group/${name}` };
  const memberColumns = (group: Group): Columns<Member> => [
    {
      id: 'name',
      header: 'Member',
      meta: tracks.wide,
      cell: ({ row }) => <Linked noun="users" id={row.original.email} name={row.original.name} />,
    },
    { id: 'email', header: 'E-mail address', meta: tracks.mid, cell: ({ row }) => text(row.original.email) },
    {
      id: 'do',
      header: '',
      meta: { track: '110px' },
      cell: ({ row: { original: member } }) => (
        <Action
          noun="groups"
          isSmall
          isDangerous
          label="Remove"
          icon={IconUserMinus}
          right={right}
          unless={group.global === true ? 'Every user is a member of it.' : undefined}
          explains={
            <>
              <Name of={member.name} /> loses what the group may do.
            </>
          }
          command={`plural cd groups remove ${which} ${quoted(member.email)}`}
          run={() => ask(RemoveMember, { groupId: group.id, userId: member.id })}
          done="Removed the member"
        />
      ),
    },
  ];
  return (
    <OneThing
      noun="groups"
      many="Groups"
      name={name}
      query={query}
      title={(group) => group.name}
      actions={(group) => (
        <>
          <Action
            noun="groups"
            label="Change"
            icon={IconPencil}
            right={right}
            explains="What it may do stays."
            fields={fields(group)}
            command={(values) =>
              `plural cd groups update ${which} --name ${quoted(values['name'] ?? '')} --description ${quoted(values['description'] ?? '')} --global=${String(isOn(values, 'global'))}`
            }
            run={(values) =>
              ask(Update, {
                groupId: group.id,
                attributes: {
                  name: (values['name'] ?? '').trim(),
                  description: values['description'] ?? '',
                  global: isOn(values, 'global'),
                },
              })
            }
            done="Changed the group"
          />
          <Action
            noun="groups"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={{ ...right, verb: 'delete' }}
            explains="Its members lose what it may do."
            confirm={group.name}
            command={`plural cd groups delete ${which}`}
            run={() => ask(Delete, { groupId: group.id })}
            done="Deleted the group"
          />
        </>
      )}
    >
      {(group) => (
        <>
          <Panel title="Group">
            <Facts
              facts={[
                ['What it is for', group.description != null && <Name of={group.description} />],
                ['Members', group.global === true ? 'every user' : (group.members ?? []).length],
                ['Created', <Ago key="at" at={group.insertedAt} />],
              ]}
            />
          </Panel>
          <Panel
            title="Members"
            aside={
              <Action
                noun="groups"
                label="Add a member"
                icon={IconUserPlus}
                right={right}
                unless={group.global === true ? 'Every user is a member of it.' : undefined}
                explains="They may do what the group may do, at once."
                fields={[
                  {
                    name: 'user',
                    label: 'User',
                    kind: 'choice',
                    isRequired: true,
                    options: (users.data ?? []).map((user) => ({ value: user.id, label: user.email })),
                  },
                ]}
                command={(values) =>
                  `plural cd groups add ${which} ${quoted((users.data ?? []).find((user) => user.id === values['user'])?.email ?? 'EMAIL')}`
                }
                run={(values) => ask(AddMember, { groupId: group.id, userId: values['user'] ?? '' })}
                done="Added the member"
              />
            }
          >
            <Table
              isShort
              label="Members"
              rows={(group.members ?? []).flatMap((member) => member ?? [])}
              columns={memberColumns(group)}
              id={({ id }) => id}
              empty={<Empty title="It has no members">What it may do, nobody does.</Empty>}
            />
          </Panel>
        </>
      )}
    </OneThing>
  );
}
