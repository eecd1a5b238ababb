import { useQuery } from '@tanstack/react-query';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { ScmType } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago } from '../parts/text';

const Webhooks = graphql(/* GraphQL */ `
  query ScmWebhooks($after: String, $q: String) {
    list: scmWebhooks(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          url
          insertedAt
          connection {
            name
          }
        }
      }
    }
  }
`);
const Choices = graphql(/* GraphQL */ `
  query ScmWebhookConnections {
    scmConnections(first: 100) {
      edges {
        node {
          id
          name
          type
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateScmWebhook($attributes: ScmWebhookAttributes!) {
    createScmWebhookPointer(attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteScmWebhook($id: ID!) {
    deleteScmWebhook(id: $id) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Webhooks>> = [
  {
    id: 'name',
    header: 'Webhook',
    meta: { track: 'minmax(100px, 1fr)' },
    cell: ({ row }) => text(row.original.name),
  },
  {
    id: 'connection',
    header: 'Connection',
    meta: { ...tracks.mid, from: 760 },
    cell: ({ row }) => text(row.original.connection?.name),
  },
  { id: 'url', header: 'Address', meta: tracks.wide, cell: ({ row }) => text(row.original.url) },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'do',
    header: '',
    meta: { track: '100px', from: 480 },
    cell: ({ row: { original: webhook } }) => (
      <Action
        noun="webhooks"
        isSmall
        isDangerous
        label="Delete"
        icon={IconTrash}
        {...(webhook.connection && { right: { verb: 'update', thing: `scm-connection/${webhook.connection.name}` } })}
        explains="What the host sends to its address is refused from then on. The repositories are still polled."
        command={`plural cd scm-webhooks delete ${quoted(webhook.id)}`}
        run={() => ask(Delete, { id: webhook.id })}
        done="Deleted the webhook"
      />
    ),
  },
];

export function List() {
  const query = useQuery({
    queryKey: ['connections', 'choices'],
    queryFn: async ({ signal }) => (await ask(Choices, {}, signal)).scmConnections,
  });
  const connections = (query.data?.edges ?? []).flatMap((edge) => (edge?.node ? [edge.node] : []));
  const chosen = (id: string | undefined) => connections.find((connection) => connection.id === id);
  const first = connections[0];
  return (
    <Listing
      title="Webhooks of git hosts"
      noun="webhooks"
      document={Webhooks}
      columns={columns}
      teaches="A git host sends to these addresses when something happens. Each belongs to one connection, and is believed for the repositories that the connection may touch."
      actions={
        <Action
          noun="webhooks"
          label="Add a webhook"
          icon={IconPlus}
          {...(first && { right: { verb: 'update', thing: `scm-connection/${first.name}` } })}
          explains="You make the webhook itself at the host: with the address that the list shows then, content type JSON, and this secret."
          fields={[
            {
              name: 'connection',
              label: 'Connection',
              kind: 'choice',
              isRequired: true,
              initial: first?.id ?? '',
              options: connections.map((connection) => ({ value: connection.id, label: connection.name })),
            },
            { name: 'owner', label: 'Owner', isRequired: true, placeholder: 'acme', hint: 'The organization, group or user' },
            { name: 'hmac', label: 'Secret', kind: 'secret', isRequired: true, hint: 'At least 16 characters' },
          ]}
          command={(values) =>
            `plural cd scm-webhooks create --connection ${quoted(chosen(values['connection'])?.name ?? '')} --owner ${quoted(values['owner'] ?? '')} --secret-file FILE`
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                connectionId: values['connection'] ?? '',
                type: (chosen(values['connection'])?.type ?? 'GITHUB') satisfies ScmType,
                owner: (values['owner'] ?? '').trim(),
                hmac: (values['hmac'] ?? '').trim(),
              },
            })
          }
          done="Made the address"
        />
      }
    />
  );
}
