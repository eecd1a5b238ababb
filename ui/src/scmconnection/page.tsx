import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash, IconWebhook } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import type { ScmConnectionAttributes, ScmType } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, words, type Field, type Values } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Connections = graphql(/* GraphQL */ `
  query ScmConnections($after: String, $q: String) {
    list: scmConnections(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          type
          default
          repositories
          insertedAt
          project {
            name
          }
        }
      }
    }
  }
`);
const Connection = graphql(/* GraphQL */ `
  query ScmConnection($name: String!) {
    scmConnection(name: $name) {
      id
      name
      type
      default
      owner
      username
      baseUrl
      apiUrl
      repositories
      hasToken
      hasSigningKey
      hasSshKey
      knownHosts
      hasProxy
      insertedAt
      updatedAt
      github {
        appId
        installationId
      }
      azure {
        username
        organization
        project
      }
      bitbucketDatacenter {
        userSlug
      }
      project {
        name
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateScmConnection($attributes: ScmConnectionAttributes!) {
    createScmConnection(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateScmConnection($id: ID!, $attributes: ScmConnectionAttributes!) {
    updateScmConnection(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteScmConnection($id: ID!) {
    deleteScmConnection(id: $id) {
      id
    }
  }
`);

const Register = graphql(/* GraphQL */ `
  mutation RegisterScmWebhook($connectionId: ID!, $repository: String, $organization: String) {
    registerScmWebhook(connectionId: $connectionId, repository: $repository, organization: $organization) {
      id
      url
    }
  }
`);

const types: Record<ScmType, string> = {
  GITHUB: 'GitHub',
  GITLAB: 'GitLab',
  BITBUCKET: 'Bitbucket',
  BITBUCKET_DATACENTER: 'Bitbucket Data Center',
  AZURE_DEVOPS: 'Azure DevOps',
  GITEA: 'Gitea or Forgejo',
  PLAIN: 'Git alone',
};

interface Known {
  type: ScmType;
  default?: boolean | null;
  owner?: string | null;
  username?: string | null;
  baseUrl?: string | null;
  apiUrl?: string | null;
  knownHosts?: string | null;
  hasToken?: boolean;
  hasSshKey?: boolean;
  repositories: string[];
}

/** The address is one of plain git over ssh, which is signed in to with a key. */
const isSsh = (values: Values) => {
  const address = (values['baseUrl'] ?? '').trim();
  return address.startsWith('ssh://') || (!address.includes('://') && address.includes(':'));
};

/** What is asked for of a host of the chosen type. */
const common = (known?: Known): Field[] => {
  const is = (values: Values, ...kinds: ScmType[]) => kinds.some((kind) => kind === (known?.type ?? values['type']));
  const stays = known ? 'The one that it has stays when empty' : undefined;
  return [
    {
      name: 'repositories',
      label: 'Repositories that it may touch',
      kind: 'area',
      initial: known?.repositories.join('\n') ?? '',
      placeholder: 'acme/*',
      hint: 'One a line: acme/shop, acme/* or acme/**. Without any, none.',
    },
    {
      name: 'auth',
      label: 'Signs in with',
      kind: 'choice',
      options: [
        { value: 'token', label: 'a token' },
        { value: 'app', label: 'a GitHub App' },
      ],
      when: (values) => known === undefined && is(values, 'GITHUB'),
    },
    {
      name: 'token',
      label: 'Token or password',
      kind: 'secret',
      when: (values) => values['auth'] !== 'app' && !(is(values, 'PLAIN') && isSsh(values)),
      ...(stays !== undefined && { hint: stays }),
    },
    { name: 'appId', label: 'Number of the App', isRequired: true, when: ({ auth }) => auth === 'app' },
    { name: 'installationId', label: 'Number of its installation', isRequired: true, when: ({ auth }) => auth === 'app' },
    { name: 'appKey', label: 'Private key of the App', kind: 'area', isRequired: true, when: ({ auth }) => auth === 'app' },
    {
      name: 'sshKey',
      label: 'Private key for ssh',
      kind: 'area',
      hint: `As OpenSSH writes it.${stays === undefined ? '' : ` ${stays}`}`,
      when: (values) => is(values, 'PLAIN') && isSsh(values),
    },
    {
      name: 'sshPassphrase',
      label: 'Passphrase of that key',
      kind: 'secret',
      when: (values) => is(values, 'PLAIN') && isSsh(values),
    },
    {
      name: 'knownHosts',
      label: 'Keys of the host',
      kind: 'area',
      initial: known?.knownHosts ?? '',
      placeholder: 'git.example.com ssh-ed25519 AAAA…',
      hint: 'The only ones that are accepted, as ssh-keyscan prints them. Without any, the first that is seen is kept',
      when: (values) => is(values, 'PLAIN') && isSsh(values),
    },
    {
      name: 'username',
      label: 'User name',
      initial: known?.username ?? '',
      when: (values) => !(is(values, 'PLAIN') && isSsh(values)),
    },
    {
      name: 'organization',
      label: 'Organization',
      isRequired: true,
      when: (values) => known === undefined && is(values, 'AZURE_DEVOPS'),
    },
    {
      name: 'azureProject',
      label: 'Project of Azure DevOps',
      isRequired: true,
      when: (values) => known === undefined && is(values, 'AZURE_DEVOPS'),
    },
    {
      name: 'userSlug',
      label: 'Slug of the user',
      when: (values) => known === undefined && is(values, 'BITBUCKET_DATACENTER'),
    },
    {
      name: 'baseUrl',
      label: 'Address',
      initial: known?.baseUrl ?? '',
      placeholder: 'https://git.example.com',
      hint: "Where repositories are cloned from, when that is not the host's own address; of plain git ssh://USER@HOST/PATH, too",
    },
    { name: 'apiUrl', label: 'Address of the API', initial: known?.apiUrl ?? '', when: (values) => !is(values, 'PLAIN') },
    {
      name: 'owner',
      label: 'Owner',
      initial: known?.owner ?? '',
      hint: 'Meant where a repository is named without one',
    },
    {
      name: 'signingKey',
      label: 'Key that commits are signed with',
      kind: 'area',
      ...(stays !== undefined && { hint: stays }),
    },
    {
      name: 'default',
      label: 'Meant where no connection is named',
      kind: 'check',
      initial: known?.default === true ? 'yes' : '',
    },
  ];
};

/** What both forms give. An empty text ends what there was. */
function attributes(values: Values, known?: Known): Omit<ScmConnectionAttributes, 'name' | 'type'> {
  const text = (name: string) => (known === undefined ? given(values, name) : (values[name] ?? '').trim());
  return {
    repositories: words(values, 'repositories'),
    username: text('username'),
    baseUrl: text('baseUrl'),
    apiUrl: text('apiUrl'),
    owner: text('owner'),
    default: isOn(values, 'default'),
    ...(given(values, 'token') !== null && { token: given(values, 'token') }),
    ...(given(values, 'signingKey') !== null && { signingPrivateKey: given(values, 'signingKey') }),
    // What fits the other kind of address ends with it.
    ...(isSsh(values)
      ? {
          username: known ? '' : null,
          knownHosts: text('knownHosts'),
          ...(known?.hasToken === true && { token: '' }),
          ...(given(values, 'sshKey') !== null && { sshPrivateKey: given(values, 'sshKey') }),
          // Blanks at its ends may belong to it.
          ...((values['sshPassphrase'] ?? '') !== '' && { sshPassphrase: values['sshPassphrase'] }),
        }
      : known?.hasSshKey === true && { sshPrivateKey: '', knownHosts: '' }),
  };
}

const columns: Columns<RowOf<typeof Connections>> = [
  {
    id: 'name',
    header: 'Connection',
    meta: { track: 'minmax(100px, 1fr)' },
    cell: ({ row }) => <Linked noun="scm-connections" id={row.original.name} name={row.original.name} />,
  },
  { id: 'type', header: 'Host', meta: { track: '150px' }, cell: ({ row }) => types[row.original.type] },
  {
    id: 'repositories',
    header: 'Repositories',
    meta: tracks.wide,
    cell: ({ row }) => text(row.original.repositories.join(', ') || 'none'),
  },
  {
    id: 'project',
    header: 'Project',
    meta: { ...tracks.mid, from: 900 },
    cell: ({ row }) => text(row.original.project?.name),
  },
  {
    id: 'default',
    header: 'Default',
    meta: { track: '80px', from: 760 },
    cell: ({ row }) => (row.original.default === true ? 'yes' : ''),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Listing
      title="Connections to git hosts"
      noun="connections"
      document={Connections}
      columns={columns}
      teaches="How the console signs in at GitHub, GitLab, Bitbucket, Azure DevOps, Gitea and others to open pull requests, and which repositories it may touch there."
      actions={
        <Action
          noun="connections"
          label="Add a connection"
          icon={IconPlus}
          isReading={projects.isPending}
          {...(first && { right: { verb: 'create', thing: 'scm-connections', within: `project/${first.name}` } })}
          explains="Its secrets are kept encrypted and shown to nobody. It touches the repositories that it names, and no other."
          fields={[
            { name: 'name', label: 'Name', isRequired: true, placeholder: 'github' },
            {
              name: 'type',
              label: 'Host',
              kind: 'choice',
              isRequired: true,
              options: Object.entries(types).map(([value, label]) => ({ value, label })),
            },
            {
              name: 'project',
              label: 'Project',
              kind: 'choice',
              initial: first?.id ?? '',
              options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
              hint: 'Without one it is of the whole installation, and for its administrators',
            },
            ...common(),
          ]}
          command={(values) =>
            [
              `plural cd scm-connections create ${quoted(values['name'] ?? '')}`,
              `--type ${(values['type'] ?? '').toLowerCase().replaceAll('_', '-')}`,
              ...words(values, 'repositories').map((pattern) => `--repository ${quoted(pattern)}`),
              given(values, 'baseUrl') === null ? '' : `--base-url ${quoted(values['baseUrl'] ?? '')}`,
              values['auth'] === 'app'
                ? `--app-id ${quoted(values['appId'] ?? '')} --installation-id ${quoted(values['installationId'] ?? '')} --app-key-file FILE`
                : values['type'] === 'PLAIN' && isSsh(values)
                  ? ['--ssh-key-file FILE', given(values, 'knownHosts') === null ? '' : ' --known-hosts FILE'].join('')
                  : '--token-file FILE',
            ]
              .filter((word) => word !== '')
              .join(' ')
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                ...attributes(values),
                name: (values['name'] ?? '').trim(),
                type: (values['type'] ?? 'GITHUB') as ScmType,
                projectId: given(values, 'project'),
                ...(values['auth'] === 'app' && {
                  github: {
                    appId: (values['appId'] ?? '').trim(),
                    installationId: (values['installationId'] ?? '').trim(),
                    privateKey: values['appKey'] ?? '',
                  },
                }),
                ...(values['type'] === 'AZURE_DEVOPS' && {
                  azure: {
                    username: (values['username'] ?? '').trim(),
                    organization: (values['organization'] ?? '').trim(),
                    project: (values['azureProject'] ?? '').trim(),
                  },
                }),
                ...(values['type'] === 'BITBUCKET_DATACENTER' &&
                  given(values, 'userSlug') !== null && {
                    bitbucketDatacenter: { userSlug: (values['userSlug'] ?? '').trim() },
                  }),
              },
            })
          }
          done="Added the connection"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['connections', 'one', name],
    queryFn: async ({ signal }) => (await ask(Connection, { name }, signal)).scmConnection,
  });
  const right = (verb: string) => ({ verb, thing: `scm-connection/${name}` });
  return (
    <OneThing
      noun="scm-connections"
      many="Connections to git hosts"
      name={name}
      query={query}
      title={(connection) => connection.name}
      actions={(connection) => (
        <>
          <Action
            noun="connections"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="A token belongs to the address that it is sent to: where that changes, it has to be given again."
            fields={common(connection)}
            command={(values) =>
              [
                `plural cd scm-connections update ${quoted(name)}`,
                ...words(values, 'repositories').map((pattern) => `--repository ${quoted(pattern)}`),
                given(values, 'token') === null ? '' : '--token-file FILE',
              ]
                .filter((word) => word !== '')
                .join(' ')
            }
            run={(values) =>
              ask(Update, {
                id: connection.id,
                attributes: { ...attributes(values, connection), name: connection.name, type: connection.type },
              })
            }
            done="Changed the connection"
          />
          {connection.type !== 'PLAIN' && (
            <Action
              noun="webhooks"
              label="Register webhook"
              icon={IconWebhook}
              right={right('update')}
              explains="The console makes a webhook at the git host, with an address and a secret of its own, or renews the one that is there. The token needs the right to make webhooks."
              fields={[
                {
                  name: 'of',
                  label: 'Of',
                  kind: 'choice',
                  isRequired: true,
                  initial: 'repository',
                  options: [
                    { value: 'repository', label: 'one repository' },
                    { value: 'organization', label: 'all repositories of an organization, group or project' },
                  ],
                },
                {
                  name: 'repository',
                  label: 'Repository',
                  isRequired: true,
                  placeholder: 'acme/shop',
                  when: ({ of }) => of !== 'organization',
                },
                {
                  name: 'organization',
                  label: 'Organization, group or project',
                  isRequired: true,
                  placeholder: 'acme',
                  hint: 'The connection has to be allowed all of its repositories',
                  when: ({ of }) => of === 'organization',
                },
              ]}
              command={(values) =>
                `plural cd scm-webhooks register ${quoted(name)} ${
                  values['of'] === 'organization'
                    ? `--organization ${quoted(values['organization'] ?? '')}`
                    : `--repository ${quoted(values['repository'] ?? '')}`
                }`
              }
              run={(values) =>
                ask(Register, {
                  connectionId: connection.id,
                  ...(values['of'] === 'organization'
                    ? { organization: (values['organization'] ?? '').trim() }
                    : { repository: (values['repository'] ?? '').trim() }),
                })
              }
              done="The host sends to the console from now on"
            />
          )}
          <Action
            noun="connections"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Its secrets are forgotten. No pull request is opened with it any more."
            confirm={connection.name}
            command={`plural cd scm-connections delete ${quoted(name)}`}
            run={() => ask(Delete, { id: connection.id })}
            done="Deleted the connection"
          />
        </>
      )}
    >
      {(connection) => (
        <Panel title="Connection">
          <Facts
            facts={[
              ['Host', types[connection.type]],
              ['Project', connection.project ? <Name key="p" of={connection.project.name} /> : 'the whole installation'],
              [
                'Repositories',
                connection.repositories.length === 0
                  ? 'none: it may touch no repository'
                  : connection.repositories.map((pattern) => (
                      <div key={pattern}>
                        <Name of={pattern} />
                      </div>
                    )),
              ],
              ['Default', connection.default === true ? 'yes' : 'no'],
              ['Owner', connection.owner && <Name key="o" of={connection.owner} />],
              ['User name', connection.username && <Name key="u" of={connection.username} />],
              ['Address', connection.baseUrl && <Name key="b" of={connection.baseUrl} />],
              ['Address of the API', connection.apiUrl && <Name key="a" of={connection.apiUrl} />],
              ['Token', connection.hasToken ? 'kept encrypted' : 'none'],
              [
                'GitHub App',
                connection.github && (
                  <Name key="g" of={`${connection.github.appId}, installation ${connection.github.installationId}`} />
                ),
              ],
              [
                'Azure DevOps',
                connection.azure && <Name key="z" of={`${connection.azure.organization}/${connection.azure.project}`} />,
              ],
              [
                'Slug of the user',
                connection.bitbucketDatacenter && <Name key="s" of={connection.bitbucketDatacenter.userSlug} />,
              ],
              ['SSH key', connection.hasSshKey && 'kept encrypted'],
              [
                'Keys of the host',
                connection.hasSshKey &&
                  (connection.knownHosts?.split('\n').map((key) => (
                    <div key={key}>
                      <Name of={key} />
                    </div>
                  )) ??
                    'the first that is seen'),
              ],
              ['Signing key', connection.hasSigningKey ? 'kept encrypted' : 'none'],
              ['Proxy', connection.hasProxy ? 'kept encrypted' : 'none'],
              ['Created', <Ago key="at" at={connection.insertedAt} />],
              ['Changed', <Ago key="ch" at={connection.updatedAt} />],
            ]}
          />
        </Panel>
      )}
    </OneThing>
  );
}
