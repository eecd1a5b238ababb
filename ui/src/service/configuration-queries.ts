import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import { ask } from '../lib/client';

const Configuration = graphql(/* GraphQL */ `
  query ServiceConfigurationOf($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      configuration {
        name
        valueFrom {
          secretKeyRef {
            namespace
            name
            key
          }
          configMapKeyRef {
            namespace
            name
            key
          }
          vaultKeyRef {
            path
            key
          }
          sopsKeyRef {
            file
            key
          }
          ageKeyRef {
            file
            key
          }
        }
      }
    }
  }
`);

const ConfigurationValues = graphql(/* GraphQL */ `
  query ServiceConfigurationValues($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      configuration {
        name
        value
      }
    }
  }
`);

const Imports = graphql(/* GraphQL */ `
  query ServiceImportsOf($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      imports {
        id
        sensitive
        stack {
          id
          name
        }
        outputs {
          name
          secret
        }
      }
    }
  }
`);

const ImportableStacks = graphql(/* GraphQL */ `
  query ImportableStacks {
    infrastructureStacks(first: 200) {
      edges {
        node {
          id
          name
          deletedAt
        }
      }
    }
  }
`);

/** The stacks whose outputs its templates read, with the names of these: no value is asked for. */
export function importsQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'imports', cluster, name],
    queryFn: async ({ signal }) => {
      const { serviceDeployment } = await ask(Imports, { cluster, name }, signal);
      return (serviceDeployment?.imports ?? []).flatMap((one) => one ?? []);
    },
    refetchInterval: false,
  });
}

/** Stacks that a service can import. */
export const importableStacksQuery = queryOptions({
  queryKey: ['stacks', 'importable'],
  queryFn: async ({ signal }) => {
    const { infrastructureStacks } = await ask(ImportableStacks, {}, signal);
    const all = (infrastructureStacks?.edges ?? []).flatMap((edge) => edge?.node ?? []);
    return all.filter(({ deletedAt }) => deletedAt == null);
  },
});

/** One value, read when somebody wants to see it and kept nowhere. */
export async function configurationValue(cluster: string, name: string, key: string): Promise<string> {
  const { serviceDeployment } = await ask(ConfigurationValues, { cluster, name });
  return serviceDeployment?.configuration?.find((one) => one?.name === key)?.value ?? '';
}

/** Names of its values for templates and where references point; no value. */
export function configurationQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'configuration', cluster, name],
    queryFn: async ({ signal }) => (await ask(Configuration, { cluster, name }, signal)).serviceDeployment,
    gcTime: 0,
    // Its secrets are opened for each answer: it is read when somebody looks or changes it, not again and again.
    refetchInterval: false,
    refetchOnWindowFocus: false,
  });
}
