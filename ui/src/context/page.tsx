import { Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { lazy, Suspense } from 'react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { document } from '../lib/yaml';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, type Field } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import { servicesQuery } from '../service/queries';
import { serviceColumns } from '../service/table';
import { ContextImports } from './imports';

const Yaml = lazy(async () => ({ default: (await import('../parts/code')).Yaml }));

const Contexts = graphql(/* GraphQL */ `
  query Contexts($after: String, $q: String) {
    list: serviceContexts(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          secretNames
          insertedAt
          updatedAt
          project {
            name
          }
        }
      }
    }
  }
`);
const Context = graphql(/* GraphQL */ `
  query Context($name: String!) {
    serviceContext(name: $name) {
      id
      name
      configuration
      secretNames
      imports {
        stackId
        output
        name
        sensitive
        stack {
          id
          name
        }
      }
      insertedAt
      updatedAt
      project {
        name
      }
    }
  }
`);
const Save = graphql(/* GraphQL */ `
  mutation SaveContext($name: String!, $attributes: ServiceContextAttributes!) {
    saveServiceContext(name: $name, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteContext($id: ID!) {
    deleteServiceContext(id: $id) {
      id
    }
  }
`);

/** The text as JSON again, so that what is no mapping is refused here with words. */
function json(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return JSON.stringify(value);
  } catch {
    // Told below.
  }
  throw new Error('the values are no JSON object: write {"name": "value", …}');
}

const configuration = (initial: string): Field => ({
  name: 'configuration',
  label: 'Values, as a JSON object',
  kind: 'area',
  isRequired: true,
  initial,
  hint: 'Who may see the context sees them. Secrets are set with --secrets-file of the command line.',
});

const columns: Columns<RowOf<typeof Contexts>> = [
  {
    id: 'name',
    header: 'Context',
    meta: tracks.wide,
    cell: ({ row }) => <Linked noun="contexts" id={row.original.name} name={row.original.name} />,
  },
  { id: 'project', header: 'Project', meta: tracks.mid, cell: ({ row }) => text(row.original.project?.name) },
  {
    id: 'secrets',
    header: 'Secrets',
    meta: tracks.mid,
    cell: ({ row }) => text((row.original.secretNames ?? []).join(', ')),
  },
  { id: 'at', header: 'Changed', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.updatedAt} /> },
];

export function List() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Listing
      title="Contexts"
      noun="contexts"
      document={Contexts}
      columns={columns}
      teaches="Values that templates of several services read: outputs of Terraform, addresses, names of accounts."
      actions={
        <Action
          noun="contexts"
          label="Create a context"
          icon={IconPlus}
          {...(first && { right: { verb: 'create', thing: 'contexts', within: `project/${first.name}` } })}
          explains="Services that name it read its values when they are rendered."
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            {
              name: 'project',
              label: 'Project',
              kind: 'choice',
              initial: first?.id ?? '',
              options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
            },
            configuration('{\n  \n}'),
          ]}
          command={(values) => `plural cd contexts save ${quoted(values['name'] ?? '')} -f values.json`}
          run={async (values) =>
            ask(Save, {
              name: (values['name'] ?? '').trim(),
              attributes: { configuration: json(values['configuration'] ?? ''), projectId: given(values, 'project') },
            })
          }
          done="Created the context"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['contexts', 'one', name],
    queryFn: async ({ signal }) => (await ask(Context, { name }, signal)).serviceContext,
  });
  const right = (verb: string) => ({ verb, thing: `context/${name}` });
  return (
    <OneThing
      noun="contexts"
      many="Contexts"
      name={name}
      query={query}
      title={(context) => context.name}
      actions={(context) => (
        <>
          <Action
            noun="contexts"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="Every service that uses it is rendered anew. Its secrets stay."
            fields={[configuration(JSON.stringify(context.configuration ?? {}, null, 2))]}
            command={`plural cd contexts save ${quoted(name)} -f values.json`}
            run={async (values) => ask(Save, { name, attributes: { configuration: json(values['configuration'] ?? '') } })}
            done="Changed the context"
          />
          <Action
            noun="contexts"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Refused while a service uses it."
            confirm={context.name}
            command={`plural cd contexts delete ${quoted(name)}`}
            run={() => ask(Delete, { id: context.id })}
            done="Deleted the context"
          />
        </>
      )}
    >
      {(context) => (
        <>
          <Panel title="Context">
            <Facts
              facts={[
                ['Project', context.project && <Name of={context.project.name} />],
                ['Secrets', (context.secretNames ?? []).join(', ') || 'none'],
                ['Changed', <Ago key="at" at={context.updatedAt} />],
              ]}
            />
          </Panel>
          <Panel title="Values">
            <Suspense fallback={<Waiting />}>
              <Yaml text={document(context.configuration ?? {})} label="Values" />
            </Suspense>
          </Panel>
          <ContextImports context={context} save={(imports) => ask(Save, { name, attributes: { imports } })} />
          <UsedBy id={context.id} />
        </>
      )}
    </OneThing>
  );
}

function UsedBy({ id }: { id: string }) {
  const list = useInfiniteQuery(servicesQuery({ contextId: id }));
  return (
    <Panel title="Services that read it">
      <Shown query={list} what="its services">
        <Table
          isShort
          label="Services that read it"
          rows={list.data ?? []}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          empty={<Empty title="No service reads it">It can be deleted.</Empty>}
        />
      </Shown>
      {list.hasNextPage && (
        <Text size="xs" c="dimmed" p="sm">
          The first hundred.
        </Text>
      )}
    </Panel>
  );
}
