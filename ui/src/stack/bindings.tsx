import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconTrash, IconUserPlus } from '@tabler/icons-react';

import { groupsQuery, usersQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import { Action } from '../parts/action';
import type { Values } from '../parts/form';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import type { StackOne } from './queries';

const Bound = graphql(/* GraphQL */ `
  query BindingsOfStack($name: String!) {
    infrastructureStack(name: $name) {
      id
      readBindings {
        ...Binding
      }
      writeBindings {
        ...Binding
      }
    }
  }
`);

type Role = 'read' | 'write';
interface Row {
  id: string;
  role: Role;
  who: string;
  userId: string | undefined;
  groupId: string | undefined;
}

/** Who may do what with exactly this stack; what its project grants is said there. */
export function StackBindings({ stack }: { stack: StackOne }) {
  const { id, name } = stack;
  const query = useQuery({
    queryKey: ['stack', 'bindings', name],
    queryFn: async ({ signal }) => (await ask(Bound, { name }, signal)).infrastructureStack,
  });
  const users = useInfiniteQuery(usersQuery);
  const groups = useInfiniteQuery(groupsQuery);
  const right = stackRight(name, 'bind');
  const rows = (['write', 'read'] as const).flatMap((role) =>
    ((role === 'read' ? query.data?.readBindings : query.data?.writeBindings) ?? []).flatMap((one): Row[] =>
      one
        ? [
            {
              id: `${role} ${one.id ?? ''}`,
              role,
              who: one.group?.name ?? one.user?.email ?? '',
              userId: one.user?.id,
              groupId: one.group?.id,
            },
          ]
        : [],
    ),
  );
  /** The list of a role is replaced as a whole. */
  const listed = (role: Role, some: Pick<Row, 'userId' | 'groupId'>[]) => {
    const list = some.map(({ userId, groupId }) => (groupId === undefined ? { userId: userId ?? null } : { groupId }));
    return role === 'read' ? { readBindings: list } : { writeBindings: list };
  };
  const without = (row: Row) =>
    listed(
      row.role,
      rows.filter((one) => one.role === row.role && one.id !== row.id),
    );
  const withOne = (values: Values) => {
    const role: Role = values['role'] === 'write' ? 'write' : 'read';
    const [kind, who] = (values['who'] ?? '').split(' ');
    const given = { userId: kind === 'user' ? who : undefined, groupId: kind === 'group' ? who : undefined };
    return listed(role, [...rows.filter((one) => one.role === role), given]);
  };
  const columns: Columns<Row> = [
    {
      id: 'who',
      header: 'Who',
      meta: { track: 'minmax(140px, 2fr)' },
      cell: ({ row: { original: row } }) => (
        <>
          {row.groupId !== undefined && 'group '}
          <Name of={row.who} />
        </>
      ),
    },
    { id: 'role', header: 'Role', meta: { track: 'minmax(90px, 1fr)' }, cell: ({ row }) => row.original.role },
    {
      id: 'do',
      header: '',
      meta: { track: '110px', from: 480 },
      cell: ({ row: { original: row } }) => (
        <Action
          noun="stack"
          isSmall
          isDangerous
          label="Take away"
          icon={IconTrash}
          right={right}
          explains={
            <>
              <Name of={row.who} /> loses the role {row.role} here. What groups and the project grant stays.
            </>
          }
          command={commands.settings(name, without(row))}
          run={() => ask(Update, { id, attributes: without(row) })}
          done="Took the role away"
        />
      ),
    },
  ];
  return (
    <Panel
      title="Who may do what with it"
      aside={
        <Action
          noun="stack"
          label="Give a role"
          icon={IconUserPlus}
          right={right}
          unless={query.data ? undefined : 'Who has a role now is not read yet: a change replaces the list as a whole.'}
          explains="Besides what the project grants. The role write reads and writes the state, with all secrets in it, and approves."
          fields={[
            {
              name: 'role',
              label: 'Role',
              kind: 'choice',
              isRequired: true,
              initial: 'read',
              options: [
                { value: 'read', label: 'read: look at it and its runs' },
                { value: 'write', label: 'write: change it, run it, approve, read and write its state' },
              ],
            },
            {
              name: 'who',
              label: 'Whom',
              kind: 'choice',
              isRequired: true,
              options: [
                ...(groups.data ?? []).map((one) => ({ value: `group ${one.id}`, label: `group ${one.name}` })),
                ...(users.data ?? []).map((one) => ({ value: `user ${one.id}`, label: one.email })),
              ],
            },
          ]}
          command={(values) => commands.settings(name, withOne(values))}
          run={(values) => ask(Update, { id, attributes: withOne(values) })}
          done="Gave the role"
        />
      }
    >
      <Shown query={query} what="who may do what">
        <Table
          isShort
          label="Who may do what with it"
          hasHead={rows.length > 0}
          rows={rows}
          columns={columns}
          id={(row) => row.id}
          isWaiting={query.isPending}
          empty={<Empty title="Only what its project grants">Nobody has a role on this stack alone.</Empty>}
        />
      </Shown>
    </Panel>
  );
}
