import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconTrash, IconUserPlus } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { BindingsOfClusterQuery, PolicyRole } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Fault, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import { groupsQuery, rolesQuery, usersQuery } from './queries';

const OfService = graphql(/* GraphQL */ `
  query BindingsOfService($id: ID!) {
    thing: serviceDeployment(id: $id) {
      id
      ...ServiceBindings
    }
  }
  fragment ServiceBindings on ServiceDeployment {
    readBindings {
      ...Binding
    }
    writeBindings {
      ...Binding
    }
    adminBindings {
      ...Binding
    }
    roleBindings {
      ...OfRole
    }
  }
  fragment Binding on PolicyBinding {
    id
    user {
      id
      email
      name
    }
    group {
      id
      name
    }
  }
  fragment OfRole on RoleBinding {
    id
    role {
      id
      name
    }
    user {
      id
      email
      name
    }
    group {
      id
      name
    }
  }
`);
const OfCluster = graphql(/* GraphQL */ `
  query BindingsOfCluster($id: ID!) {
    thing: cluster(id: $id) {
      id
      readBindings {
        ...Binding
      }
      writeBindings {
        ...Binding
      }
      adminBindings {
        ...Binding
      }
      roleBindings {
        ...OfRole
      }
    }
  }
`);
const OfProject = graphql(/* GraphQL */ `
  query BindingsOfProject($id: ID!) {
    thing: project(id: $id) {
      id
      readBindings {
        ...Binding
      }
      writeBindings {
        ...Binding
      }
      adminBindings {
        ...Binding
      }
      roleBindings {
        ...OfRole
      }
    }
  }
`);
const Change = graphql(/* GraphQL */ `
  mutation ChangeBindings(
    $role: PolicyRole
    $roleId: ID
    $add: [PolicyBindingAttributes]
    $remove: [PolicyBindingAttributes]
    $serviceId: ID
    $clusterId: ID
    $projectId: ID
  ) {
    changeBindings(
      role: $role
      roleId: $roleId
      add: $add
      remove: $remove
      serviceId: $serviceId
      clusterId: $clusterId
      projectId: $projectId
    )
  }
`);

export type Thing = { serviceId: string } | { clusterId: string } | { projectId: string };
type Bound = NonNullable<BindingsOfClusterQuery['thing']>;

interface Row {
  id: string;
  role: string;
  roleId: string | undefined;
  builtIn: PolicyRole | undefined;
  who: string;
  isGroup: boolean;
  userId: string | undefined;
  groupId: string | undefined;
}

async function read(thing: Thing, signal: AbortSignal): Promise<Bound | null | undefined> {
  if ('serviceId' in thing) return (await ask(OfService, { id: thing.serviceId }, signal)).thing;
  if ('clusterId' in thing) return (await ask(OfCluster, { id: thing.clusterId }, signal)).thing;
  return (await ask(OfProject, { id: thing.projectId }, signal)).thing;
}

function rows(bound: Bound): Row[] {
  const builtIn = (role: PolicyRole, bindings: Bound['readBindings']) =>
    (bindings ?? []).flatMap((one): Row[] =>
      one ? [{ ...person(one), id: `${role}${one.id ?? ''}`, role: role.toLowerCase(), builtIn: role, roleId: undefined }] : [],
    );
  return [
    ...builtIn('ADMIN', bound.adminBindings),
    ...builtIn('WRITE', bound.writeBindings),
    ...builtIn('READ', bound.readBindings),
    ...(bound.roleBindings ?? []).flatMap((one): Row[] =>
      one
        ? [
            {
              ...person(one),
              id: `${one.role?.id ?? ''}${one.id ?? ''}`,
              role: one.role?.name ?? '',
              builtIn: undefined,
              roleId: one.role?.id,
            },
          ]
        : [],
    ),
  ];
}

function person(one: {
  user?: { id: string; email: string } | null;
  group?: { id: string; name: string } | null;
}): Pick<Row, 'who' | 'isGroup' | 'userId' | 'groupId'> {
  return {
    who: one.group?.name ?? one.user?.email ?? '',
    isGroup: one.group != null,
    userId: one.user?.id,
    groupId: one.group?.id,
  };
}

/** Who may do what with exactly one thing; what its project grants is said there. */
export function Bindings({ thing, right, kind, name }: { thing: Thing; right: string; kind: string; name: string }) {
  const query = useQuery({ queryKey: ['binding', thing], queryFn: ({ signal }) => read(thing, signal) });
  const users = useInfiniteQuery(usersQuery);
  const groups = useInfiniteQuery(groupsQuery);
  const roles = useInfiniteQuery(rolesQuery);
  const bind = { verb: 'bind', thing: right };
  const on = kind === 'project' ? `--project ${quoted(name)}` : `--${kind} ${quoted(name)}`;
  const columns: Columns<Row> = [
    {
      id: 'who',
      header: 'Who',
      meta: { track: 'minmax(140px, 2fr)' },
      cell: ({ row: { original: row } }) => (
        <>
          {row.isGroup ? 'group ' : ''}
          <Name of={row.who} />
        </>
      ),
    },
    { id: 'role', header: 'Role', meta: { track: 'minmax(90px, 1fr)' }, cell: ({ row }) => <Name of={row.original.role} /> },
    {
      id: 'do',
      header: '',
      meta: { track: '110px', from: 480 },
      cell: ({ row: { original: row } }) => (
        <Action
          noun="binding"
          isSmall
          isDangerous
          label="Take away"
          icon={IconTrash}
          right={bind}
          explains={
            <>
              <Name of={row.who} /> loses the role {row.role} here. What groups and the project grant stays.
            </>
          }
          command={`plural cd access revoke ${row.role} ${row.isGroup ? '--group' : '--user'} ${quoted(row.who)} ${on}`}
          run={() =>
            ask(Change, {
              ...(row.builtIn ? { role: row.builtIn } : { roleId: row.roleId ?? null }),
              remove: [row.isGroup ? { groupId: row.groupId ?? null } : { userId: row.userId ?? null }],
              ...thing,
            })
          }
          done="Took the role away"
        />
      ),
    },
  ];
  const people = [
    ...(groups.data ?? []).map((group) => ({ value: `g:${group.id}`, label: `group ${group.name}` })),
    ...(users.data ?? []).map((user) => ({ value: `u:${user.id}`, label: user.email })),
  ];
  const roleNames = [
    { value: 'READ', label: 'read' },
    { value: 'WRITE', label: 'write' },
    { value: 'ADMIN', label: 'admin' },
    ...(roles.data ?? []).map((role) => ({ value: role.id, label: role.name })),
  ];
  const label = (all: { value: string; label: string }[], value: string | undefined, absent: string) =>
    all.find((one) => one.value === value)?.label ?? absent;
  return (
    <Panel
      title="Who may do what with it"
      aside={
        <Action
          noun="binding"
          label="Give a role"
          icon={IconUserPlus}
          right={bind}
          explains="Nobody gives a role that allows more than they may do themselves."
          fields={[
            { name: 'who', label: 'User or group', kind: 'choice', isRequired: true, options: people },
            { name: 'role', label: 'Role', kind: 'choice', isRequired: true, initial: 'READ', options: roleNames },
          ]}
          command={({ who, role }) => {
            const chosen = label(people, who, 'WHO');
            const flag = chosen.startsWith('group ') ? `--group ${quoted(chosen.slice(6))}` : `--user ${quoted(chosen)}`;
            return `plural cd access grant ${label(roleNames, role, 'ROLE')} ${flag} ${on}`;
          }}
          run={({ who = '', role = '' }) => {
            const id = who.slice(2);
            const isBuiltIn = role === 'READ' || role === 'WRITE' || role === 'ADMIN';
            return ask(Change, {
              ...(isBuiltIn ? { role } : { roleId: role }),
              add: [who.startsWith('g:') ? { groupId: id } : { userId: id }],
              ...thing,
            });
          }}
          done="Gave the role"
        />
      }
    >
      {query.isPending && <Waiting lines={3} />}
      {query.isError && <Fault error={query.error} what="its bindings" retry={() => void query.refetch()} />}
      {query.isSuccess && (
        <Table
          isShort
          label="Bindings"
          rows={query.data ? rows(query.data) : []}
          columns={columns}
          id={({ id }) => id}
          empty={
            <Empty title={kind === 'project' ? 'Nobody has a role here' : 'Nobody has a role on it alone'}>
              {kind === 'project'
                ? 'Only administrators of the installation may see what is in it.'
                : kind === 'cluster'
                  ? 'Who has a role on its project has that role here, too. Give one here to somebody who needs this cluster alone.'
                  : 'Who has a role on its project or its cluster has that role here, too.'}
            </Empty>
          }
        />
      )}
    </Panel>
  );
}
