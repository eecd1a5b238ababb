import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconKey, IconLinkPlus, IconPlus, IconTrash, IconX } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import type { FederatedQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action, Once } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, password } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Fault, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Accounts = graphql(/* GraphQL */ `
  query ServiceAccounts($after: String, $q: String) {
    list: serviceAccounts(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          email
          insertedAt
          project {
            name
          }
        }
      }
    }
  }
`);
const Account = graphql(/* GraphQL */ `
  query ServiceAccount($id: ID!) {
    serviceAccount(id: $id) {
      id
      name
      email
      insertedAt
      project {
        name
      }
      roles {
        admin
      }
      assumeBindings {
        id
        user {
          email
        }
        group {
          name
        }
      }
    }
  }
`);
const Federated = graphql(/* GraphQL */ `
  query Federated($userId: ID!) {
    federatedCredentials(userId: $userId) {
      id
      issuer
      subject
      audience
      scopes
      insertedAt
      cluster {
        handle
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateServiceAccount($attributes: ServiceAccountAttributes!) {
    createServiceAccount(attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteServiceAccount($id: ID!) {
    deleteServiceAccount(id: $id) {
      id
    }
  }
`);
const MakeToken = graphql(/* GraphQL */ `
  mutation ServiceAccountToken($id: ID!, $expiry: String, $currentPassword: String) {
    createServiceAccountToken(id: $id, expiry: $expiry, currentPassword: $currentPassword) {
      token
    }
  }
`);
const EndTokens = graphql(/* GraphQL */ `
  mutation EndServiceAccountTokens($id: ID!) {
    endServiceAccountTokens(id: $id)
  }
`);
const Federate = graphql(/* GraphQL */ `
  mutation Federate($attributes: FederatedCredentialAttributes!, $currentPassword: String) {
    createFederatedCredential(attributes: $attributes, currentPassword: $currentPassword) {
      id
    }
  }
`);
const EndFederated = graphql(/* GraphQL */ `
  mutation EndFederated($id: ID!) {
    deleteFederatedCredential(id: $id) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Accounts>> = [
  {
    id: 'name',
    header: 'Service account',
    meta: tracks.wide,
    cell: ({ row }) => <Linked noun="service-accounts" id={row.original.id} name={row.original.name} />,
  },
  { id: 'email', header: 'Address', meta: tracks.mid, cell: ({ row }) => text(row.original.email) },
  { id: 'project', header: 'Project', meta: tracks.mid, cell: ({ row }) => text(row.original.project?.name) },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Listing
      title="Service accounts"
      noun="service accounts"
      document={Accounts}
      columns={columns}
      teaches="Users that are machines: CI systems sign in with their tokens, or with tokens of their own issuer."
      actions={
        <Action
          noun="service accounts"
          label="Create a service account"
          icon={IconPlus}
          {...(first && { right: { verb: 'create', thing: 'service-accounts', within: `project/${first.name}` } })}
          explains="It belongs to a project. Who may assume it creates its tokens."
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            {
              name: 'project',
              label: 'Project',
              kind: 'choice',
              isRequired: true,
              initial: first?.id ?? '',
              options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
            },
            { name: 'email', label: 'Address', hint: 'Derived from the name when empty' },
          ]}
          command={(values) =>
            `plural cd service-accounts create ${quoted(values['name'] ?? '')} --project ${quoted((projects.data ?? []).find(({ id }) => id === values['project'])?.name ?? 'PROJECT')}`
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                name: (values['name'] ?? '').trim(),
                projectId: given(values, 'project'),
                email: given(values, 'email'),
              },
            })
          }
          done="Created the service account"
        />
      }
    />
  );
}

export function One({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['service accounts', 'one', id],
    queryFn: async ({ signal }) => (await ask(Account, { id }, signal)).serviceAccount,
  });
  return (
    <OneThing
      noun="service-accounts"
      many="Service accounts"
      name={id}
      query={query}
      title={({ name }) => name}
      actions={(account) => {
        const which = quoted(account.email);
        const right = (verb: string) => ({ verb, thing: `service-account/${account.email}` });
        return (
          <>
            <Action
              noun="service accounts"
              label="Create a token"
              icon={IconKey}
              right={right('assume')}
              explains="The token reaches what the account may. It is shown once."
              fields={[{ name: 'expiry', label: 'Valid for', hint: '1h, 30d, 1w; until it is revoked when empty' }, password]}
              command={(values) =>
                `plural cd service-accounts token ${which}${values['expiry'] === '' ? '' : ` --valid-for ${quoted(values['expiry'] ?? '')}`}`
              }
              run={(values) =>
                ask(MakeToken, {
                  id,
                  expiry: given(values, 'expiry'),
                  currentPassword: given(values, 'currentPassword'),
                })
              }
              tells={(answer) => <Once text={answer.createServiceAccountToken?.token ?? ''} what="The token" />}
              done=""
            />
            <Action
              noun="service accounts"
              isDangerous
              label="End its tokens"
              icon={IconX}
              right={right('end-tokens')}
              explains="All of its tokens end within five seconds."
              confirm={account.name}
              command={`plural cd service-accounts end-tokens ${which}`}
              run={() => ask(EndTokens, { id })}
              done="Ended its tokens"
            />
            <Action
              noun="service accounts"
              isDangerous
              label="Delete"
              icon={IconTrash}
              right={right('delete')}
              explains="Its tokens end, and its bindings go."
              confirm={account.name}
              command={`plural cd service-accounts delete ${which}`}
              run={() => ask(Delete, { id })}
              done="Deleted the service account"
            />
          </>
        );
      }}
    >
      {(account) => (
        <>
          <Panel title="Service account">
            <Facts
              facts={[
                ['Address', <Name key="e" of={account.email} />],
                ['Project', account.project && <Name of={account.project.name} />],
                ['Role', account.roles?.admin === true ? 'administrator of the installation' : 'a machine'],
                [
                  'May assume it',
                  (account.assumeBindings ?? []).length === 0
                    ? 'nobody yet'
                    : (account.assumeBindings ?? []).map(
                        (binding) =>
                          binding && (
                            <div key={binding.id}>
                              {binding.group && 'group '}
                              <Name of={binding.group?.name ?? binding.user?.email ?? ''} />
                            </div>
                          ),
                      ),
                ],
                ['Created', <Ago key="at" at={account.insertedAt} />],
              ]}
            />
          </Panel>
          <FederatedOf id={id} email={account.email} />
        </>
      )}
    </OneThing>
  );
}

type Credential = NonNullable<FederatedQuery['federatedCredentials']>[number];

function FederatedOf({ id, email }: { id: string; email: string }) {
  const query = useQuery({
    queryKey: ['service accounts', 'federated', id],
    queryFn: ({ signal }) => ask(Federated, { userId: id }, signal),
  });
  const right = { verb: 'federate', thing: `service-account/${email}` };
  const rows: Credential[] = query.data?.federatedCredentials ?? [];
  const credentialColumns: Columns<Credential> = [
    {
      id: 'issuer',
      header: 'Who signs the tokens',
      meta: tracks.wide,
      cell: ({ row }) => text(row.original.cluster ? `cluster ${row.original.cluster.handle ?? ''}` : row.original.issuer),
    },
    { id: 'subject', header: 'Subject', meta: tracks.wide, cell: ({ row }) => text(row.original.subject) },
    { id: 'audience', header: 'Audience', meta: tracks.mid, cell: ({ row }) => text(row.original.audience) },
    { id: 'scopes', header: 'Reaches', meta: tracks.mid, cell: ({ row }) => text((row.original.scopes ?? []).join(', ')) },
    {
      id: 'do',
      header: '',
      meta: { track: '100px' },
      cell: ({ row }) => (
        <Action
          noun="service accounts"
          isSmall
          isDangerous
          label="Delete"
          icon={IconTrash}
          right={right}
          explains="Tokens that were given for it end."
          command={`plural cd federated-credentials delete ${row.original.id}`}
          run={() => ask(EndFederated, { id: row.original.id })}
          done="Deleted the federated credential"
        />
      ),
    },
  ];
  return (
    <Panel
      title="Federated credentials"
      aside={
        <Action
          noun="service accounts"
          label="Trust an issuer"
          icon={IconLinkPlus}
          right={right}
          explains="Tokens of this issuer with this subject and audience are exchanged for short tokens of the account: no secret is kept anywhere."
          fields={[
            { name: 'issuer', label: 'Issuer', isRequired: true, placeholder: 'https://token.actions.githubusercontent.com' },
            { name: 'subject', label: 'Subject', isRequired: true, hint: 'From end to end; * stands for any run of characters' },
            { name: 'audience', label: 'Audience', hint: 'The address of the console when empty' },
            password,
          ]}
          command={(values) =>
            `plural cd federated-credentials create ${quoted(email)} --issuer ${quoted(values['issuer'] ?? '')} --subject ${quoted(values['subject'] ?? '')}`
          }
          run={(values) =>
            ask(Federate, {
              attributes: {
                userId: id,
                issuer: given(values, 'issuer'),
                subject: given(values, 'subject'),
                audience: given(values, 'audience'),
              },
              currentPassword: given(values, 'currentPassword'),
            })
          }
          done="The issuer is trusted for this account"
        />
      }
    >
      {query.isPending && <Waiting lines={3} />}
      {query.isError && <Fault error={query.error} what="federated credentials" retry={() => void query.refetch()} />}
      {query.isSuccess && (
        <Table
          isShort
          label="Federated credentials"
          rows={rows}
          columns={credentialColumns}
          id={(one) => one.id}
          empty={
            <Empty title="No issuer is trusted">
              A CI system or a cluster’s ServiceAccount can sign in with its own token, without a secret of the console.
            </Empty>
          }
        />
      )}
    </Panel>
  );
}
