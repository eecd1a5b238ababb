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
