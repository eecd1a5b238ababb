import { useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { graphql } from '../generated';
import type { StackDefinitionQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import { given, type Field, type Values } from '../parts/values';
import { commandFacts, customAttributes, customFields, customOptions, line } from '../stack/custom';
import { hookField, hookOptions, hooksOf } from '../stack/hooks';
import { StackDefinitions } from './queries';

const StackDefinition = graphql(/* GraphQL */ `
  query StackDefinition($name: String!) {
    stackDefinition(name: $name) {
      id
      name
      description
      configuration {
        image
        version
        tag
        hooks {
          cmd
          args
          afterStage
        }
      }
      steps {
        cmd
        args
        stage
        requireApproval
      }
      deleteSteps {
        cmd
        args
        stage
        requireApproval
      }
      insertedAt
      updatedAt
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateStackDefinition($attributes: StackDefinitionAttributes!) {
    createStackDefinition(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateStackDefinition($id: ID!, $attributes: StackDefinitionAttributes!, $unchangedSince: DateTime) {
    updateStackDefinition(id: $id, attributes: $attributes, unchangedSince: $unchangedSince) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteStackDefinition($id: ID!) {
    deleteStackDefinition(id: $id) {
      id
    }
  }
`);

type Definition = NonNullable<StackDefinitionQuery['stackDefinition']>;
interface Image {
  image?: string | null;
  version?: string | null;
  tag?: string | null;
}

/** Its commands, as those of a stack are called. */
const commandsOf = (one?: Definition) => ({ commands: one?.steps, deleteCommands: one?.deleteSteps });
const imageOf = ({ image, version, tag }: Image): string | null => {
  const of = tag ?? version;
  return image == null ? null : of == null ? image : `${image}:${of}`;
};

const fields = (one?: Definition): Field[] => [
  { name: 'name', label: 'Name', isRequired: true, initial: one?.name ?? '', placeholder: 'dns' },
  { name: 'description', label: 'What it is for', initial: one?.description ?? '' },
  {
    name: 'image',
    label: 'Image with the programs',
    initial: one?.configuration.image ?? '',
    hint: 'Without tag. A stack that names one keeps its own',
  },
  { name: 'version', label: 'Tag of the image', initial: one?.configuration.tag ?? one?.configuration.version ?? '' },
  ...customFields(commandsOf(one)),
  hookField(one?.configuration.hooks, 'Commands that run after a stage. A stack with hooks keeps its own'),
];

/** The tag of the image, called as it was where it stays: the same by another name is a change. */
const tagOf = (values: Values, one?: Definition) => {
  const { version, tag } = one?.configuration ?? {};
  return tag != null && given(values, 'version') === tag ? { version, tag } : { version: given(values, 'version') };
};

/** All that a definition is: an update replaces the whole. */
const attributes = (values: Values, one?: Definition) => {
  const { commands: steps, deleteCommands: deleteSteps } = customAttributes(values, commandsOf(one));
  const hooks = hooksOf(values, one?.configuration.hooks);
  return {
    name: (values['name'] ?? '').trim(),
    description: given(values, 'description'),
    configuration: { image: given(values, 'image'), ...tagOf(values, one), hooks },
    steps,
    deleteSteps,
  };
};

const options = (values: Values, one?: Definition): string =>
  [
    ...(
      [
        ['description', 'description'],
        ['image', 'tool-image'],
        ['version', 'tool-version'],
      ] as const
    ).flatMap(([name, flag]) => (given(values, name) === null ? [] : [`--${flag} ${quoted((values[name] ?? '').trim())}`])),
    ...customOptions(values),
    ...hookOptions(values, one?.configuration.hooks),
  ]
    .map((option) => ` ${option}`)
    .join('');

const columns: Columns<RowOf<typeof StackDefinitions>> = [
  {
    id: 'name',
    header: 'Definition',
    meta: { track: 'minmax(140px, 1fr)' },
    cell: ({ row }) => <Linked noun="stack-definitions" id={row.original.name} name={row.original.name} />,
  },
  {
    id: 'image',
    header: 'Image',
    meta: { track: 'minmax(100px, 1fr)', from: 480 },
    cell: ({ row }) => text(imageOf(row.original.configuration)),
  },
  {
    id: 'description',
    header: 'What it is for',
    meta: { track: 'minmax(100px, 2fr)', from: 620 },
    cell: ({ row }) => text(row.original.description),
  },
  { id: 'at', header: 'Changed', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.updatedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Stack definitions"
      noun="stack-definitions"
      document={StackDefinitions}
      columns={columns}
      teaches="A definition has the commands, the image and the hooks of many stacks without a tool of their own: they are changed in one place."
      actions={
        <Action
          noun="stack-definitions"
          label="Create a definition"
          icon={IconPlus}
          explains="For administrators. Every stack may name it, and runs its commands then."
          fields={fields()}
          command={(values) =>
            `plural cd stack-definitions create ${quoted((values['name'] ?? '').trim() || 'NAME')}${options(values)}`
          }
          run={(values) => ask(Create, { attributes: attributes(values) })}
          done="Created the definition"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['stack-definitions', 'one', name],
    queryFn: async ({ signal }) => (await ask(StackDefinition, { name }, signal)).stackDefinition,
  });
  return (
    <OneThing
      noun="stack-definitions"
      many="Stack definitions"
      name={name}
      query={query}
      title={(one) => one.name}
      actions={(one) => (
        <>
          <Action
            key={one.updatedAt ?? ''}
            noun="stack-definitions"
            label="Change"
            icon={IconPencil}
            explains="For administrators. Where its commands, image or hooks change, each of its stacks that is not paused plans again."
            fields={fields(one)}
            command={(values) =>
              `plural cd stack-definitions update ${quoted(name)} --name ${quoted((values['name'] ?? '').trim())}${options(values, one)}`
            }
            run={(values) => ask(Update, { id: one.id, attributes: attributes(values, one), unchangedSince: one.updatedAt })}
            done="Changed the definition"
          />
          <Action
            noun="stack-definitions"
            isDangerous
            label="Delete"
            icon={IconTrash}
            explains="For administrators. Refused while a stack names it."
            confirm={one.name}
            command={`plural cd stack-definitions delete ${quoted(name)}`}
            run={() => ask(Delete, { id: one.id })}
            done="Deleted the definition"
          />
        </>
      )}
    >
      {(one) => (
        <>
          <Panel title="Definition">
            <Facts
              facts={[
                ['What it is for', one.description != null && <Name of={one.description} />],
                ['Image', imageOf(one.configuration) !== null && <Name of={imageOf(one.configuration) ?? ''} />],
                ['Created', <Ago key="at" at={one.insertedAt} />],
                ['Changed', <Ago key="ch" at={one.updatedAt} />],
              ]}
            />
          </Panel>
          <Panel title="Commands">
            <Facts
              facts={[
                ...commandFacts(commandsOf(one)),
                ...(one.configuration.hooks ?? []).map((hook): [string, ReactNode, 'wide'] => [
                  `After ${(hook?.afterStage ?? '').toLowerCase()}`,
                  <Name key="hook" of={line(hook?.cmd ?? '', hook?.args ?? [])} />,
                  'wide',
                ]),
              ]}
            />
          </Panel>
        </>
      )}
    </OneThing>
  );
}
