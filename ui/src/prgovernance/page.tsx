import { useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ApiError, ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago } from '../parts/text';
import { given, type Field, type Values } from '../parts/values';

const Governances = graphql(/* GraphQL */ `
  query PrGovernances($after: String, $q: String) {
    list: prGovernances(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          insertedAt
          configuration {
            webhook {
              url
              signed
            }
          }
          connection {
            id
            name
          }
          project {
            name
          }
        }
      }
    }
  }
`);
const Choices = graphql(/* GraphQL */ `
  query PrGovernanceConnections {
    scmConnections(first: 100) {
      edges {
        node {
          id
          name
        }
      }
    }
  }
`);
const Upsert = graphql(/* GraphQL */ `
  mutation UpsertPrGovernance($attributes: PrGovernanceAttributes!) {
    upsertPrGovernance(attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeletePrGovernance($id: ID!) {
    deletePrGovernance(id: $id) {
      id
    }
  }
`);

type Governance = RowOf<typeof Governances>;

/** Where it is called, and with what. */
const webhook = (known?: Governance): Field[] => [
  {
    name: 'url',
    label: 'Address',
    isRequired: true,
    initial: known?.configuration?.webhook?.url ?? '',
    placeholder: 'https://board.example.com',
    hint: 'The console calls /v1/open, /v1/confirm and /v1/close below it',
  },
  {
    name: 'secret',
    label: 'Secret',
    kind: 'secret',
    hint: known ? 'The one that it has stays when empty' : 'Calls are signed with it: at least 16 characters',
  },
];

const attributes = (values: Values, name: string, connectionId: string) => ({
  type: 'WEBHOOK' as const,
  name,
  connectionId,
  configuration: {
    webhook: {
      url: (values['url'] ?? '').trim(),
      ...(given(values, 'secret') !== null && { secret: given(values, 'secret') }),
    },
  },
});

const columns: Columns<Governance> = [
  {
    id: 'name',
    header: 'Governance',
    meta: { track: 'minmax(100px, 1fr)' },
    cell: ({ row }) => text(row.original.name),
  },
  {
    id: 'connection',
    header: 'Approves with',
    meta: { ...tracks.mid, from: 760 },
    cell: ({ row }) => text(row.original.connection?.name),
  },
  {
    id: 'url',
    header: 'Address',
    meta: tracks.wide,
    cell: ({ row }) => text(row.original.configuration?.webhook?.url),
  },
  {
    id: 'signed',
    header: 'Signed',
    meta: { track: '80px', from: 900 },
    cell: ({ row }) => (row.original.configuration?.webhook?.signed === true ? 'yes' : 'no'),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'do',
    header: '',
    meta: { track: '200px', from: 480 },
    cell: ({ row: { original: governance } }) => <Actions governance={governance} />,
  },
];

function Actions({ governance }: { governance: Governance }) {
  const { id, name, connection, project } = governance;
  const right = project != null && { right: { verb: 'update', thing: `project/${project.name}` } };
  return (
    <>
      <Action
        noun="governances"
        isSmall
        label="Change"
        icon={IconPencil}
        {...right}
        unless={connection == null ? 'You do not see the connection that it approves with.' : undefined}
        explains="What it confirmed before stays confirmed."
        fields={webhook(governance)}
        command={(values) =>
          [
            `plural pr governance update ${quoted(name)} --webhook-url ${quoted(values['url'] ?? '')}`,
            given(values, 'secret') === null ? '' : '--secret-file FILE',
          ]
            .filter((word) => word !== '')
            .join(' ')
        }
        run={(values) => ask(Upsert, { attributes: attributes(values, name, connection?.id ?? '') })}
        done="Changed the governance"
      />
      <Action
        noun="governances"
        isSmall
        isDangerous
        label="Delete"
        icon={IconTrash}
        {...right}
        explains="Its secret is forgotten. The console refuses that while an automation names it or an open pull request has it."
        command={`plural pr governance delete ${quoted(name)}`}
        run={() => ask(Delete, { id })}
        done="Deleted the governance"
      />
    </>
  );
}

/** The console makes a governance or changes the one that has the name: whoever adds one means no other. */
async function refuseKnown(name: string): Promise<void> {
  const { list } = await ask(Governances, { q: name });
  if ((list?.edges ?? []).some((edge) => edge?.node?.name === name)) {
    throw new ApiError('there is a governance with this name already', 'INVALID');
  }
}

export function List() {
  const query = useQuery({
    queryKey: ['connections', 'choices', 'governances'],
    queryFn: async ({ signal }) => (await ask(Choices, {}, signal)).scmConnections,
  });
  const connections = (query.data?.edges ?? []).flatMap((edge) => (edge?.node ? [edge.node] : []));
  const first = connections[0];
  const nameOf = (id: string | undefined) => connections.find((connection) => connection.id === id)?.name ?? '';
  return (
    <Listing
      title="Governances of pull requests"
      noun="governances"
      document={Governances}
      columns={columns}
      teaches="A governance is a service of yours that confirms each commit of a pull request before the console merges it. Automations name theirs."
      actions={
        <Action
          noun="governances"
          label="Add a governance"
          icon={IconPlus}
          {...(first && { right: { verb: 'update', thing: `scm-connection/${first.name}` } })}
          explains="It belongs where its connection does. The connection's account approves what it confirms: it must be another one than the account that opens the pull requests."
          fields={[
            { name: 'name', label: 'Name', isRequired: true, placeholder: 'board' },
            {
              name: 'connection',
              label: 'Connection that approves',
              kind: 'choice',
              isRequired: true,
              initial: first?.id ?? '',
              options: connections.map((connection) => ({ value: connection.id, label: connection.name })),
            },
            ...webhook(),
          ]}
          command={(values) =>
            [
              `plural pr governance create ${quoted(values['name'] ?? '')} --connection ${quoted(nameOf(values['connection']))}`,
              `--webhook-url ${quoted(values['url'] ?? '')}`,
              given(values, 'secret') === null ? '' : '--secret-file FILE',
            ]
              .filter((word) => word !== '')
              .join(' ')
          }
          run={async (values) => {
            const name = (values['name'] ?? '').trim();
            await refuseKnown(name);
            return ask(Upsert, { attributes: attributes(values, name, values['connection'] ?? '') });
          }}
          done="Added the governance"
        />
      }
    />
  );
}
