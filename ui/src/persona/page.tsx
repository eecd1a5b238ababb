import { useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { PersonaRole } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, type Field, type Values } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Personas = graphql(/* GraphQL */ `
  query Personas($after: String, $q: String) {
    list: personas(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          role
          insertedAt
        }
      }
    }
  }
`);
const Persona = graphql(/* GraphQL */ `
  query Persona($name: String!) {
    persona(name: $name) {
      id
      name
      description
      role
      insertedAt
      updatedAt
      bindings {
        id
        user {
          email
        }
        group {
          name
        }
      }
      configuration {
        all
        deployments {
          clusters
          services
          repositories
          providers
        }
        sidebar {
          audits
          settings
          kubernetes
        }
        services {
          configuration
          secrets
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreatePersona($attributes: PersonaAttributes!) {
    createPersona(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdatePersona($id: ID!, $attributes: PersonaAttributes!) {
    updatePersona(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeletePersona($id: ID!) {
    deletePersona(id: $id) {
      id
    }
  }
`);

const roles: PersonaRole[] = ['DEVELOPER', 'PLATFORM', 'SECURITY', 'MANAGEMENT', 'FINOPS'];
const fields = (one?: { name: string; description?: string | null; role?: PersonaRole | null }): Field[] => [
  { name: 'name', label: 'Name', isRequired: true, initial: one?.name ?? '' },
  { name: 'description', label: 'Who it is for', initial: one?.description ?? '' },
  {
    name: 'role',
    label: 'Kind of work',
    kind: 'choice',
    initial: one?.role ?? '',
    options: roles.map((role) => ({ value: role, label: role.toLowerCase() })),
  },
];
const attributes = (values: Values) => ({
  name: given(values, 'name'),
  description: given(values, 'description'),
  role: roles.find((role) => role === values['role']) ?? null,
});

const columns: Columns<RowOf<typeof Personas>> = [
  {
    id: 'name',
    header: 'Persona',
    meta: { track: 'minmax(140px, 1fr)' },
    cell: ({ row }) => <Linked noun="personas" id={row.original.name} name={row.original.name} />,
  },
  {
    id: 'description',
    header: 'Who it is for',
    meta: { track: 'minmax(100px, 2fr)', from: 620 },
    cell: ({ row }) => text(row.original.description),
  },
  {
    id: 'role',
    header: 'Kind of work',
    meta: { track: '120px', from: 480 },
    cell: ({ row }) => text(row.original.role?.toLowerCase()),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Personas"
      noun="personas"
      document={Personas}
      columns={columns}
      teaches="What a web console shows to whom, for the original console and for tools that read it. A persona never allows anything: roles do."
      actions={
        <Action
          noun="personas"
          label="Create a persona"
          icon={IconPlus}
          explains="It shows or hides parts of a web console. It allows nothing."
          fields={[...fields(), { name: 'all', label: 'Shows everything', kind: 'check', initial: 'yes' }]}
          command={(values) => `plural cd personas create ${quoted(values['name'] ?? '')}`}
          run={(values) => ask(Create, { attributes: { ...attributes(values), configuration: { all: isOn(values, 'all') } } })}
          done="Created the persona"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['personas', 'one', name],
    queryFn: async ({ signal }) => (await ask(Persona, { name }, signal)).persona,
  });
  return (
    <OneThing
      noun="personas"
      many="Personas"
      name={name}
      query={query}
      title={(persona) => persona.name}
      actions={(persona) => (
        <>
          <Action
            noun="personas"
            label="Change"
            icon={IconPencil}
            explains="Who has it sees the change when they load a page anew."
            fields={fields(persona)}
            command={(values) => `plural cd personas update ${quoted(name)} --name ${quoted(values['name'] ?? '')}`}
            run={(values) => ask(Update, { id: persona.id, attributes: attributes(values) })}
            done="Changed the persona"
          />
          <Action
            noun="personas"
            isDangerous
            label="Delete"
            icon={IconTrash}
            explains="Who had it sees what others see."
            confirm={persona.name}
            command={`plural cd personas delete ${quoted(name)}`}
            run={() => ask(Delete, { id: persona.id })}
            done="Deleted the persona"
          />
        </>
      )}
    >
      {(persona) => {
        const shown = Object.entries({
          ...persona.configuration?.deployments,
          ...persona.configuration?.sidebar,
          ...persona.configuration?.services,
        })
          .filter(([, is]) => is === true)
          .map(([part]) => part);
        return (
          <Panel title="Persona">
            <Facts
              facts={[
                ['Who it is for', persona.description != null && <Name of={persona.description} />],
                ['Kind of work', persona.role?.toLowerCase()],
                ['Shows', persona.configuration?.all === true ? 'everything' : shown.join(', ') || 'nothing in particular'],
                [
                  'Who has it',
                  (persona.bindings ?? []).length === 0
                    ? 'nobody yet'
                    : (persona.bindings ?? []).map(
                        (binding, at) =>
                          binding && (
                            <div key={at}>
                              {binding.group && 'group '}
                              <Name of={binding.group?.name ?? binding.user?.email ?? ''} />
                            </div>
                          ),
                      ),
                ],
                ['Created', <Ago key="at" at={persona.insertedAt} />],
                ['Changed', <Ago key="ch" at={persona.updatedAt} />],
              ]}
            />
          </Panel>
        );
      }}
    </OneThing>
  );
}
