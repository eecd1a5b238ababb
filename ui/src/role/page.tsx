import { useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import { Roles } from '../access/queries';
import { graphql } from '../generated';
import type { RowOf } from '../lib/list';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, type Field, type Values } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const RoleOf = graphql(/* GraphQL */ `
  query Role($name: String!) {
    role(name: $name) {
      id
      name
      description
      actions
      insertedAt
      updatedAt
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateRole($attributes: RoleAttributes!) {
    createRole(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateRole($id: ID!, $attributes: RoleAttributes!) {
    updateRole(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteRole($id: ID!) {
    deleteRole(id: $id) {
      id
    }
  }
`);

/** What each action opens, as docs/roles.md says it. */
const actions: Record<string, string> = {
  read: 'see the thing, in lists and by name; reach a cluster’s Kubernetes API as far as its RBAC goes',
  exec: 'exec, attach and streams through the console; the cluster’s RBAC still decides',
  'impersonate-group': 'the console names the user’s groups to the cluster',
  write: 'create, change and delete services; syncs, windows, contexts; read configuration and secrets',
  rollback: 'return a service to an earlier revision',
  prune: 'approve the deletions of a service that need approval',
  approve: 'decide about a canary, the plan of a stack or the commit of a fork',
  admin: 'bindings, limits, recordings on or off, tokens and the audit log of a cluster; delete clusters and projects',
  assume: 'create tokens of a service account, and so act as it',
  'state-read': 'read the state of stacks, with the secret values in it',
  'state-write': 'lock and replace the state of stacks',
  'stack-exec': 'run commands of their own in the environment of stacks',
  'pr-create': 'open pull requests with automations',
  recordings: 'read recordings of shells',
};

const fields = (role?: { name: string; description?: string | null; actions?: (string | null)[] | null }): Field[] => [
  { name: 'name', label: 'Name', isRequired: true, initial: role?.name ?? '' },
  { name: 'description', label: 'What it is for', initial: role?.description ?? '' },
  ...Object.entries(actions).map(([action, hint]): Field => ({
    name: `action-${action}`,
    label: action,
    hint,
    kind: 'check',
    initial: role?.actions?.includes(action) === true ? 'yes' : '',
  })),
];
const chosen = (values: Values) => Object.keys(actions).filter((action) => isOn(values, `action-${action}`));
const attributes = (values: Values) => ({
  name: (values['name'] ?? '').trim(),
  description: given(values, 'description'),
  actions: chosen(values),
});
const flags = (values: Values) =>
  chosen(values)
    .map((action) => ` --action ${action}`)
    .join('');

const columns: Columns<RowOf<typeof Roles>> = [
  {
    id: 'name',
    header: 'Role',
    meta: { track: 'minmax(100px, 1fr)' },
    cell: ({ row }) => <Linked noun="roles" id={row.original.name} name={row.original.name} />,
  },
  { id: 'actions', header: 'Allows', meta: tracks.wide, cell: ({ row }) => text((row.original.actions ?? []).join(', ')) },
  {
    id: 'description',
    header: 'What it is for',
    meta: { track: 'minmax(100px, 2fr)', from: 620 },
    cell: ({ row }) => text(row.original.description),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Roles"
      noun="roles"
      document={Roles}
      columns={columns}
      teaches="The roles read, write and admin are always there. Create others of single actions: on-call, for instance, that only rolls back."
      actions={
        <Action
          noun="roles"
          label="Create a role"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'roles' }}
          explains="It allows exactly these actions, wherever somebody is bound with it."
          fields={fields()}
          command={(values) => `plural cd roles create ${quoted(values['name'] ?? '')}${flags(values)}`}
          run={(values) => ask(Create, { attributes: attributes(values) })}
          done="Created the role"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['roles', 'one', name],
    queryFn: async ({ signal }) => (await ask(RoleOf, { name }, signal)).role,
  });
  const right = (verb: string) => ({ verb, thing: `role/${name}` });
  return (
    <OneThing
      noun="roles"
      many="Roles"
      name={name}
      query={query}
      title={(role) => role.name}
      actions={(role) => (
        <>
          <Action
            noun="roles"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="It changes wherever somebody is bound with it."
            fields={fields(role)}
            command={(values) => `plural cd roles update ${quoted(name)} --name ${quoted(values['name'] ?? '')}${flags(values)}`}
            run={(values) => ask(Update, { id: role.id, attributes: attributes(values) })}
            done="Changed the role"
          />
          <Action
            noun="roles"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Refused while somebody is bound with it."
            confirm={role.name}
            command={`plural cd roles delete ${quoted(name)}`}
            run={() => ask(Delete, { id: role.id })}
            done="Deleted the role"
          />
        </>
      )}
    >
      {(role) => (
        <>
          <Panel title="Role">
            <Facts
              facts={[
                ['What it is for', role.description != null && <Name of={role.description} />],
                ['Created', <Ago key="at" at={role.insertedAt} />],
                ['Changed', <Ago key="ch" at={role.updatedAt} />],
              ]}
            />
          </Panel>
          <Panel title="What it allows">
            <Facts facts={(role.actions ?? []).map((action) => [action ?? '', actions[action ?? ''] ?? '', 'wide'])} />
          </Panel>
        </>
      )}
    </OneThing>
  );
}
