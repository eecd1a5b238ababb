import { useQuery } from '@tanstack/react-query';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, password, words, type Field } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Providers = graphql(/* GraphQL */ `
  query Providers($after: String, $q: String) {
    list: identityProviders(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          issuer
          clientId
          domains
          createsUsers
          insertedAt
        }
      }
    }
  }
`);
const Provider = graphql(/* GraphQL */ `
  query Provider($name: String!) {
    identityProvider(name: $name) {
      id
      name
      issuer
      clientId
      hasSecret
      scopes
      domains
      createsUsers
      groupsClaim
      insertedAt
      updatedAt
      groups {
        claim
        group {
          name
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateProvider($attributes: IdentityProviderAttributes!, $currentPassword: String) {
    createIdentityProvider(attributes: $attributes, currentPassword: $currentPassword) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateProvider($id: ID!, $attributes: IdentityProviderUpdateAttributes!, $currentPassword: String) {
    updateIdentityProvider(id: $id, attributes: $attributes, currentPassword: $currentPassword) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteProvider($id: ID!) {
    deleteIdentityProvider(id: $id) {
      id
    }
  }
`);

interface Known {
  clientId: string;
  scopes: string[];
  domains: string[];
  createsUsers: boolean;
  groupsClaim?: string | null;
}
const common = (known?: Known): Field[] => [
  { name: 'clientId', label: 'Client id', isRequired: true, initial: known?.clientId ?? '' },
  {
    name: 'clientSecret',
    label: 'Client secret',
    kind: 'secret',
    hint: known ? 'The one that it has stays when empty' : 'Empty for a public client',
  },
  {
    name: 'domains',
    label: 'Domains',
    kind: 'area',
    initial: known?.domains.join('\n') ?? '',
    hint: 'Verified addresses of these domains are tied to users that are there already. One a line.',
  },
  {
    name: 'createsUsers',
    label: 'Who signs in there first gets an account',
    kind: 'check',
    initial: known?.createsUsers === true ? 'yes' : '',
  },
  { name: 'groupsClaim', label: 'Claim with groups', initial: known?.groupsClaim ?? '', placeholder: 'groups' },
  { name: 'scopes', label: 'Scopes', initial: known?.scopes.join(', ') ?? '', hint: 'openid, email and profile when empty' },
  password,
];

const columns: Columns<RowOf<typeof Providers>> = [
  {
    id: 'name',
    header: 'Provider',
    meta: { track: 'minmax(100px, 1fr)' },
    cell: ({ row }) => <Linked noun="providers" id={row.original.name} name={row.original.name} />,
  },
  { id: 'issuer', header: 'Issuer', meta: tracks.wide, cell: ({ row }) => text(row.original.issuer) },
  { id: 'domains', header: 'Domains', meta: tracks.mid, cell: ({ row }) => text(row.original.domains.join(', ')) },
  {
    id: 'creates',
    header: 'New users',
    meta: { track: '110px', from: 760 },
    cell: ({ row }) => (row.original.createsUsers ? 'get an account' : 'are refused'),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Identity providers"
      noun="providers"
      document={Providers}
      columns={columns}
      teaches="Where people sign in besides with a password here: Okta, Entra, Google, Keycloak, Dex and others that speak OpenID Connect."
      actions={
        <Action
          noun="providers"
          label="Add a provider"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'providers' }}
          explains="Its button stands on the sign-in page at once. Register /auth/callback/NAME of this console there as redirect address."
          fields={[
            { name: 'name', label: 'Name', isRequired: true, placeholder: 'okta' },
            { name: 'issuer', label: 'Issuer', isRequired: true, placeholder: 'https://login.example.com' },
            ...common(),
          ]}
          command={(values) =>
            `plural cd providers create ${quoted(values['name'] ?? '')} --issuer ${quoted(values['issuer'] ?? '')} --client-id ${quoted(values['clientId'] ?? '')}`
          }
          run={(values) =>
            ask(Create, {
              attributes: {
                name: (values['name'] ?? '').trim(),
                issuer: (values['issuer'] ?? '').trim(),
                clientId: (values['clientId'] ?? '').trim(),
                clientSecret: given(values, 'clientSecret'),
                createsUsers: isOn(values, 'createsUsers'),
                domains: words(values, 'domains'),
                groupsClaim: given(values, 'groupsClaim'),
                ...(words(values, 'scopes').length > 0 && { scopes: words(values, 'scopes') }),
              },
              currentPassword: given(values, 'currentPassword'),
            })
          }
          done="Added the provider"
        />
      }
    />
  );
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['providers', 'one', name],
    queryFn: async ({ signal }) => (await ask(Provider, { name }, signal)).identityProvider,
  });
  const right = (verb: string) => ({ verb, thing: `provider/${name}` });
  return (
    <OneThing
      noun="providers"
      many="Identity providers"
      name={name}
      query={query}
      title={(provider) => provider.name}
      actions={(provider) => (
        <>
          <Action
            noun="providers"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="Sessions that are open go on."
            fields={common(provider)}
            command={(values) => `plural cd providers update ${quoted(name)} --client-id ${quoted(values['clientId'] ?? '')}`}
            run={(values) =>
              ask(Update, {
                id: provider.id,
                attributes: {
                  clientId: given(values, 'clientId'),
                  createsUsers: isOn(values, 'createsUsers'),
                  domains: words(values, 'domains'),
                  groupsClaim: given(values, 'groupsClaim'),
                  ...(given(values, 'clientSecret') !== null && { clientSecret: given(values, 'clientSecret') }),
                  ...(words(values, 'scopes').length > 0 && { scopes: words(values, 'scopes') }),
                },
                currentPassword: given(values, 'currentPassword'),
              })
            }
            done="Changed the provider"
          />
          <Action
            noun="providers"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Who signed in with it is signed out, and leaves the groups that it gave."
            confirm={provider.name}
            command={`plural cd providers delete ${quoted(name)}`}
            run={() => ask(Delete, { id: provider.id })}
            done="Deleted the provider"
          />
        </>
      )}
    >
      {(provider) => (
        <Panel title="Identity provider">
          <Facts
            facts={[
              ['Issuer', <Name key="i" of={provider.issuer} />],
              ['Client id', <Name key="c" of={provider.clientId} />],
              ['Client secret', provider.hasSecret ? 'kept encrypted' : 'none: a public client'],
              ['Domains', provider.domains.join(', ') || 'none: no address is tied to a user that is there already'],
              ['New users', provider.createsUsers ? 'get an account' : 'are refused'],
              ['Scopes', provider.scopes.join(', ')],
              ['Groups claim', provider.groupsClaim],
              [
                'Groups',
                provider.groups.length === 0
                  ? 'none'
                  : provider.groups.map((group) => (
                      <div key={group.claim}>
                        <Name of={group.claim} /> → <Name of={group.group?.name ?? 'a group that is gone'} />
                      </div>
                    )),
              ],
              ['Created', <Ago key="at" at={provider.insertedAt} />],
              ['Changed', <Ago key="ch" at={provider.updatedAt} />],
            ]}
          />
        </Panel>
      )}
    </OneThing>
  );
}
