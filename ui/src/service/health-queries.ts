import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { FailuresQuery, ServiceHealthQuery } from '../generated/graphql';
import { ask } from '../lib/client';

const Health = graphql(/* GraphQL */ `
  query ServiceHealth($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      failingSince
      lastRecoveredAt
      healthChanges(first: 100) {
        edges {
          node {
            id
            to
            at
            reason
            sha
            failingSince
          }
        }
      }
    }
  }
`);

type Healths = NonNullable<NonNullable<ServiceHealthQuery['serviceDeployment']>['healthChanges']>;
export type HealthChange = NonNullable<NonNullable<NonNullable<Healths['edges']>[number]>['node']>;

/** What its status was, the newest first: all that is kept. */
export function healthQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'health', cluster, name],
    queryFn: async ({ signal }) => (await ask(Health, { cluster, name }, signal)).serviceDeployment,
  });
}

const Failures = graphql(/* GraphQL */ `
  query Failures($first: Int!) {
    healthChanges(first: $first, failures: true) {
      edges {
        node {
          id
          to
          at
          reason
          failingSince
          service {
            id
            name
            cluster {
              id
              handle
            }
          }
        }
      }
    }
  }
`);

type FailureEdge = NonNullable<NonNullable<NonNullable<FailuresQuery['healthChanges']>['edges']>[number]>;
export type Failure = NonNullable<FailureEdge['node']>;

/** Which services began to fail or recovered lately, the newest first. */
export function failuresQuery(first: number) {
  return queryOptions({
    queryKey: ['service', 'failures', first],
    queryFn: async ({ signal }) => (await ask(Failures, { first }, signal)).healthChanges ?? null,
    select: (page): Failure[] => (page?.edges ?? []).flatMap((edge) => edge?.node ?? []),
  });
}
