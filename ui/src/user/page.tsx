import { useQuery } from '@tanstack/react-query';
import {
  IconKey,
  IconPencil,
  IconPlugConnectedX,
  IconShieldOff,
  IconTrash,
  IconUserOff,
  IconUserPlus,
  IconUserUp,
} from '@tabler/icons-react';

import { Users } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, password } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Fault, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { Invitation } from '../invitation/told';

const User = graphql(/* GraphQL */ `
  query User($email: String!) {
    user(email: $email) {
      id
      name
      email
      serviceAccount
      suspendedAt
      secondFactor
      insertedAt
      updatedAt
      roles {
        admin
      }
      groups {
        id
        name
      }
      personas {
        id
        name
      }
    }
  }
`);
const Identities = graphql(/* GraphQL */ `
  query Identities($userId: ID!) {
    userIdentities(userId: $userId) {
      id
      provider
      issuer
      subject
      insertedAt
      lastUsedAt
    }
    passkeys(userId: $userId) {
      id
      name
      insertedAt
      lastUsedAt
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateUser($attributes: UserAttributes!, $currentPassword: String) {
    createUser(attributes: $attributes, currentPassword: $currentPassword) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateUser($id: ID!, $attributes: UserAttributes!, $currentPassword: String) {
    updateUser(id: $id, attributes: $attributes, currentPassword: $currentPassword) {
      id
    }
  }
`);
const Suspend = graphql(/* GraphQL */ `
  mutation SuspendUser($id: ID!) {
    suspendUser(id: $id) {
      id
    }
  }
`);
const Resume = graphql(/* GraphQL */ `
  mutation ResumeUser($id: ID!) {
    resumeUser(id: $id) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteUser($id: ID!) {
    deleteUser(id: $id) {
      id
    }
  }
`);
const Reset = graphql(/* GraphQL */ `
  mutation ResetPassword($userId: ID!, $currentPassword: String) {
    createPasswordReset(userId: $userId, currentPassword: $currentPassword) {
      id
      email
      page
      token
      expiresAt
    }
  }
`);
const EndFactor = graphql(/* GraphQL */ `
  mutation EndFactor($userId: ID, $currentPassword: String, $code: String) {
    endSecondFactor(userId: $userId, currentPassword: $currentPassword, code: $code)
  }
`);
const Untie = graphql(/* GraphQL */ `
  mutation Untie($userId: ID!, $id: ID!) {
    deleteUserIdentity(userId: $userId, id: $id) {
      id
    }
  }
`);
const DeleteKey = graphql(/* GraphQL */ `
  mutation DeleteKeyOf($id: ID!) {
    deletePasskey(id: $id) {
      id
    }
  }
`);

const what = (user: {
  suspendedAt?: string | null;
  serviceAccount?: boolean | null;
  roles?: { admin?: boolean | null } | null;
}) =>
  user.suspendedAt != null
    ? 'suspended'
    : user.roles?.admin === true
      ? 'administrator'
      : user.serviceAccount === true
        ? 'service account'
        : 'user';

const columns: Columns<RowOf<typeof Users>> = [
  {
    id: 'name',
    header: 'User',
    meta: { track: 'minmax(120px, 1.4fr)' },
    cell: ({ row }) => <Linked noun="users" id={row.original.email} name={row.original.name} />,
  },
  {
    id: 'email',
    header: 'E-mail address',
    meta: { track: 'minmax(160px, 1.4fr)', from: 620 },
    cell: ({ row }) => text(row.original.email),
  },
  { id: 'is', header: 'Role', meta: { track: '130px' }, cell: ({ row }) => what(row.original) },
  {
    id: 'factor',
    header: 'Second factor',
    meta: { track: '110px', from: 760 },
    cell: ({ row }) => (row.original.secondFactor === true ? 'yes' : 'no'),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Users"
      noun="users"
      document={Users}
      columns={columns}
      teaches="People who sign in. Invite them, and they choose their own password or passkey."
      actions={
        <Action
          noun="users"
          label="Create a user"
          icon={IconUserPlus}
          right={{ verb: 'create', thing: 'users' }}
          explains={
            <>
              The account has the password that you choose. Better:{' '}
              <RouteLink to={paths.settings('invitations')}>invite</RouteLink> them, and only they know it.
            </>
          }
          fields={[
            { name: 'email', label: 'E-mail address', isRequired: true },
            { name: 'name', label: 'Name', isRequired: true },
            { name: 'password', label: 'Password', kind: 'secret', isRequired: true },
            { name: 'admin', label: 'Administrator of the installation', kind: 'check' },
            password,
          ]}
          command={(values) =>
            `plural cd users create ${quoted(values['email'] ?? '')} --name ${quoted(values['name'] ?? '')}${isOn(values, 'admin') ? ' --admin' : ''}`
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                email: given(values, 'email'),
                name: given(values, 'name'),
                password: values['password'] ?? '',
                roles: { admin: isOn(values, 'admin') },
              },
              currentPassword: given(values, 'currentPassword'),
            })
          }
          done="Created the user"
        />
      }
    />
  );
}

export function One({ id: email }: { id: string }) {
  const query = useQuery({
    queryKey: ['users', 'one', email],
    queryFn: async ({ signal }) => (await ask(User, { email }, signal)).user,
  });
  const thing = `user/${email}`;
  const right = (verb: string) => ({ verb, thing });
  const which = quoted(email);
  return (
    <OneThing
      noun="users"
      many="Users"
      name={email}
      query={query}
      title={({ name }) => name}
      actions={(user) => (
        <>
          <Action
            noun="users"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="Another name, or another right on the whole installation."
            fields={[
              { name: 'name', label: 'Name', initial: user.name, isRequired: true },
              {
                name: 'admin',
                label: 'Administrator of the installation',
                kind: 'check',
                initial: user.roles?.admin === true ? 'yes' : '',
              },
              password,
            ]}
            command={(values) =>
              `plural cd users update ${which} --name ${quoted(values['name'] ?? '')} --admin=${String(isOn(values, 'admin'))}`
            }
            run={(values) =>
              ask(Update, {
                id: user.id,
                attributes: { name: given(values, 'name'), roles: { admin: isOn(values, 'admin') } },
                currentPassword: given(values, 'currentPassword'),
              })
            }
            done="Changed the user"
          />
          <Action
            noun="users"
            label="Reset the password"
            icon={IconKey}
            right={right('update')}
            explains="Creates a code with which they choose another password, within a day. It is shown once: give it to them."
            fields={[password]}
            command={`plural cd users reset-password ${which}`}
            run={async (values) =>
              (await ask(Reset, { userId: user.id, currentPassword: given(values, 'currentPassword') })).createPasswordReset
            }
            tells={(invite) => <Invitation invite={invite} />}
            done=""
          />
          {user.suspendedAt == null ? (
            <Action
              noun="users"
              isDangerous
              label="Suspend"
              icon={IconUserOff}
              right={right('suspend')}
              explains="Their sessions and tokens end within five seconds, and they get no others until somebody resumes them."
              command={`plural cd users suspend ${which}`}
              run={() => ask(Suspend, { id: user.id })}
              done={`Suspended ${user.name}`}
            />
          ) : (
            <Action
              noun="users"
              label="Resume"
              icon={IconUserUp}
              right={right('resume')}
              explains="They may sign in again. The tokens that they had do not come back."
              command={`plural cd users resume ${which}`}
              run={() => ask(Resume, { id: user.id })}
              done={`Resumed ${user.name}`}
            />
          )}
          <Action
            noun="users"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="The user goes with tokens, memberships and bindings. The audit log keeps what they did."
            confirm={user.email}
            command={`plural cd users delete ${which}`}
            run={() => ask(Delete, { id: user.id })}
            done={`Deleted ${user.name}`}
          />
        </>
      )}
    >
      {(user) => (
        <>
          <Panel title="User">
            <Facts
              facts={[
                ['E-mail', <Name key="e" of={user.email} />],
                ['Role', what(user)],
                ['Suspended', user.suspendedAt != null && <Ago at={user.suspendedAt} />],
                [
                  'Second factor',
                  user.secondFactor === true ? (
                    <>
                      yes{' '}
                      <Action
                        noun="users"
                        isSmall
                        isDangerous
                        label="End it"
                        icon={IconShieldOff}
                        right={right('update')}
                        explains="For a user who has lost the app and the recovery codes: their password alone signs them in then."
                        fields={[
                          password,
                          { name: 'code', label: 'A code of your own second factor', hint: 'Where you have one' },
                        ]}
                        command={`plural second-factor disable --user ${which}`}
                        run={(values) =>
                          ask(EndFactor, {
                            userId: user.id,
                            currentPassword: given(values, 'currentPassword'),
                            code: given(values, 'code'),
                          })
                        }
                        done="Ended the second factor"
                      />
                    </>
                  ) : (
                    'none'
                  ),
                ],
                [
                  'Groups',
                  (user.groups ?? []).map(
                    (group) =>
                      group && (
                        <div key={group.id}>
                          <RouteLink to={paths.setting('groups', group.name)}>
                            <Name of={group.name} />
                          </RouteLink>
                        </div>
                      ),
                  ),
                ],
                ['Personas', (user.personas ?? []).map((persona) => persona?.name).join(', ')],
                ['Created', <Ago key="at" at={user.insertedAt} />],
                ['Changed', <Ago key="ch" at={user.updatedAt} />],
                [
                  'What they did',
                  <RouteLink key="did" to={paths.audit()} search={{ actor: user.email }}>
                    In the audit log
                  </RouteLink>,
                ],
              ]}
            />
          </Panel>
          <SigningIn userId={user.id} which={which} />
        </>
      )}
    </OneThing>
  );
}

function SigningIn({ userId, which }: { userId: string; which: string }) {
  const query = useQuery({
    queryKey: ['users', 'identities', userId],
    queryFn: ({ signal }) => ask(Identities, { userId }, signal),
  });
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="how they sign in" retry={() => void query.refetch()} />;
  const identities = (query.data.userIdentities ?? []).map((one) => ({
    ...one,
    what: `${one.provider}: ${one.subject}`,
    key: false,
  }));
  const passkeys = (query.data.passkeys ?? []).map((one) => ({ ...one, what: `passkey ${one.name}`, key: true, provider: '' }));
  const rows = [...identities, ...passkeys];
  type Row = (typeof rows)[number];
  const keyColumns: Columns<Row> = [
    { id: 'what', header: 'By', meta: tracks.wide, cell: ({ row }) => text(row.original.what) },
    { id: 'at', header: 'Since', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
    {
      id: 'used',
      header: 'Last used',
      meta: tracks.when,
      cell: ({ row }) => <Ago at={row.original.lastUsedAt} absent="never" />,
    },
    {
      id: 'do',
      header: '',
      meta: { track: '110px' },
      cell: ({ row: { original: row } }) =>
        row.key ? (
          <Action
            noun="users"
            isSmall
            isDangerous
            label="Remove"
            icon={IconTrash}
            explains="The passkey signs nobody in any more. Sessions that were opened with it go on."
            command={`plural passkeys delete ${row.id}`}
            run={() => ask(DeleteKey, { id: row.id })}
            done="Removed the passkey"
          />
        ) : (
          <Action
            noun="users"
            isSmall
            isDangerous
            label="Untie"
            icon={IconPlugConnectedX}
            explains="Sessions that this identity made end, and so do memberships that the provider gave."
            command={`plural cd users untie ${which} --provider ${quoted(row.provider)}`}
            run={() => ask(Untie, { userId, id: row.id })}
            done="Untied the identity"
          />
        ),
    },
  ];
  return (
    <Panel title="How they sign in, besides a password">
      <Table
        isShort
        label="Identities and passkeys"
        rows={rows}
        columns={keyColumns}
        id={({ id }) => id}
        empty={<Empty title="By password only">Identities of providers and passkeys stand here.</Empty>}
      />
    </Panel>
  );
}
