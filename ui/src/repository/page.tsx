import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash, IconWebhook } from '@tabler/icons-react';
import { Code, Stack, Text } from '@mantine/core';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import type { GitAttributes, GitHealth } from '../generated/graphql';
import { ask } from '../lib/client';
import { useNext, type RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action, Once } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, type Field, type Values } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Panel } from '../parts/page';
import { componentStates, State, type Look } from '../parts/state';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, Outside } from '../parts/text';
import { Repositories } from './queries';
import { servicesQuery, statusesQuery } from '../service/queries';
import { serviceColumns } from '../service/table';

const Repository = graphql(/* GraphQL */ `
  query Repository($id: ID!) {
    gitRepository(id: $id) {
      id
      url
      health
      error
      authMethod
      pulledAt
      insertedAt
      updatedAt
      signedCommits
      httpsPath
      urlFormat
      project {
        name
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateRepository($attributes: GitAttributes!, $projectId: ID) {
    createGitRepository(attributes: $attributes, projectId: $projectId) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateRepository($id: ID!, $attributes: GitAttributes!) {
    updateGitRepository(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteRepository($id: ID!) {
    deleteGitRepository(id: $id) {
      id
    }
  }
`);
const Hook = graphql(/* GraphQL */ `
  mutation RotateHook($id: ID!) {
    rotateGitRepositoryWebhook(id: $id) {
      path
      secret
    }
  }
`);

/** Whether it can be fetched, in a word. */
export function health(value: GitHealth | null | undefined): Look {
  if (value === 'FAILED') return componentStates.FAILED;
  if (value === 'PULLABLE') return { ...componentStates.RUNNING, word: 'Fetched' };
  return { ...componentStates.PENDING, word: 'Not yet', tone: 'none' };
}

const fields = (url: string): Field[] => [
  { name: 'url', label: 'Address', isRequired: true, initial: url, placeholder: 'https://git.example.com/team/deploy.git' },
  {
    name: 'auth',
    label: 'Signs in with',
    kind: 'choice',
    options: [
      { value: 'BASIC', label: 'user name and password or token' },
      { value: 'SSH', label: 'a private key' },
    ],
    hint: url === '' ? 'Nothing when empty: it is public' : 'What it has stays when empty, unless the address changes its host',
  },
  { name: 'username', label: 'User name', when: ({ auth }) => auth === 'BASIC' },
  { name: 'password', label: 'Password or token', kind: 'secret', isRequired: true, when: ({ auth }) => auth === 'BASIC' },
  { name: 'privateKey', label: 'Private key', kind: 'area', isRequired: true, when: ({ auth }) => auth === 'SSH' },
  { name: 'passphrase', label: 'Passphrase of the key', kind: 'secret', when: ({ auth }) => auth === 'SSH' },
];
function attributes(values: Values): GitAttributes {
  const { auth } = values;
  return {
    url: (values['url'] ?? '').trim(),
    ...(auth === 'BASIC' && { username: given(values, 'username'), password: values['password'] ?? '' }),
    ...(auth === 'SSH' && { privateKey: values['privateKey'] ?? '', passphrase: given(values, 'passphrase') }),
  };
}
const flags = (values: Values) =>
  values['auth'] === 'SSH'
    ? ' --private-key FILE'
    : values['auth'] === 'BASIC'
      ? ` --username ${quoted(values['username'] ?? '')} --password-stdin`
      : '';

const signsIn = (method: RowOf<typeof Repositories>['authMethod']) =>
  method == null ? 'no' : method === 'SSH' ? 'with a private key' : 'with a password';

const columns: Columns<RowOf<typeof Repositories>> = [
  {
    id: 'url',
    header: 'Repository',
    meta: { track: 'minmax(200px, 3fr)', isCutAtStart: true },
    cell: ({ row }) => <Linked noun="repositories" id={row.original.id} name={row.original.url.replace(/^https:\/\//, '')} />,
  },
  { id: 'health', header: 'Health', meta: { track: '100px' }, cell: ({ row }) => <State look={health(row.original.health)} /> },
  {
    id: 'error',
    header: 'Why',
    meta: { ...tracks.wide, from: 760, isBlank: ({ error }) => error == null },
    cell: ({ row }) => text(row.original.error),
  },
  {
    id: 'auth',
    header: 'Signs in',
    meta: { track: '130px', from: 620 },
    cell: ({ row }) => signsIn(row.original.authMethod),
  },
  {
    id: 'project',
    header: 'Project',
    meta: { track: 'minmax(80px, 0.6fr)', from: 860 },
    cell: ({ row }) => text(row.original.project?.name),
  },
  { id: 'at', header: 'Fetched', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.pulledAt} absent="never" /> },
];

export function List() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Listing
      title="Git repositories"
      noun="repositories"
      document={Repositories}
      columns={columns}
      teaches="Services are read from folders of git repositories. Add one, then create a service of a folder in it. The console fetches them; clusters never do."
      actions={
        <Action
          noun="repositories"
          label="Add a repository"
          icon={IconPlus}
          {...(first && { right: { verb: 'create', thing: 'repositories', within: `project/${first.name}` } })}
          explains="It is fetched when the first service names it. Credentials are kept encrypted and shown to nobody."
          fields={[
            ...fields(''),
            {
              name: 'project',
              label: 'Project',
              kind: 'choice',
              initial: first?.id ?? '',
              options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
            },
          ]}
          command={(values) => `plural cd repositories create ${quoted(values['url'] ?? '')}${flags(values)}`}
          run={(values) => ask(Create, { attributes: attributes(values), projectId: given(values, 'project') })}
          done="Added the repository"
        />
      }
    />
  );
}

export function One({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['repositories', 'one', id],
    queryFn: async ({ signal }) => (await ask(Repository, { id }, signal)).gitRepository,
  });
  const right = (verb: string) => ({ verb, thing: `repository/${id}` });
  return (
    <OneThing
      noun="repositories"
      many="Git repositories"
      name={id}
      query={query}
      title={(repository) => repository.url.replace(/^.*\/([^/]+\/[^/]+?)(\.git)?$/, '$1')}
      state={(repository) => <State look={health(repository.health)} />}
      actions={(repository) => (
        <>
          <Action
            noun="repositories"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="Services that read from it are fetched again. When host, user or scheme change, credentials must be given again."
            fields={fields(repository.url)}
            command={(values) =>
              `plural cd repositories update ${quoted(repository.url)} --to ${quoted(values['url'] ?? '')}${flags(values)}`
            }
            run={(values) => ask(Update, { id, attributes: attributes(values) })}
            done="Changed the repository"
          />
          <Action
            noun="repositories"
            label="Webhook"
            icon={IconWebhook}
            right={right('update')}
            explains="Creates a secret with which the git host tells of pushes: commits arrive in seconds. A secret of before is refused from then on."
            command={`plural cd repositories get ${quoted(repository.url)}`}
            run={() => ask(Hook, { id })}
            tells={({ rotateGitRepositoryWebhook: hook }) => (
              <Stack gap="sm">
                <Text size="sm">
                  Let the host send to <Code>{window.location.origin + (hook?.path ?? '')}</Code>, with <Code>github</Code>,{' '}
                  <Code>gitlab</Code> or <Code>generic</Code> in place of <Code>TYPE</Code>.
                </Text>
                <Once text={hook?.secret ?? ''} what="The secret" />
              </Stack>
            )}
            done=""
          />
          <Action
            noun="repositories"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Refused while a service uses it."
            command={`plural cd repositories delete ${quoted(repository.url)}`}
            run={() => ask(Delete, { id })}
            done="Deleted the repository"
          />
        </>
      )}
    >
      {(repository) => (
        <>
          <Panel title="Repository">
            <Facts
              facts={[
                ['Address', <Outside key="u" address={repository.url} />],
                ['Why it fails', repository.error != null && <Name of={repository.error} />],
                ['Fetched', <Ago key="p" at={repository.pulledAt} absent="never" />],
                ['Signs in', signsIn(repository.authMethod)],
                ['Commits', repository.signedCommits ? 'only those that an allowed key signed' : 'all'],
                ['Project', repository.project && <Name of={repository.project.name} />],
                ['For people', repository.httpsPath != null && <Outside address={repository.httpsPath} />],
                ['Changed', <Ago key="at" at={repository.updatedAt} />],
              ]}
            />
          </Panel>
          <Uses id={id} />
        </>
      )}
    </OneThing>
  );
}

function Uses({ id }: { id: string }) {
  const list = useInfiniteQuery(servicesQuery({ repositoryId: id }));
  const next = useNext(list);
  const counts = useQuery(statusesQuery({ repositoryId: id }));
  const all = [...(counts.data?.values() ?? [])].reduce((sum, count) => sum + count, 0);
  return (
    <Panel
      title="Services that are read from it"
      aside={
        <Text size="sm" c="dimmed">
          {all.toLocaleString('en')}
        </Text>
      }
    >
      <Shown query={list} what="its services">
        <Table
          isShort
          label="Services"
          rows={list.data ?? []}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          next={next}
          empty={<Empty title="No service is read from it">It can be deleted.</Empty>}
        />
      </Shown>
    </Panel>
  );
}
