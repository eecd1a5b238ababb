import { infiniteQueryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { StackDriftQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { PAGE } from '../lib/list';

const Drift = graphql(/* GraphQL */ `
  query StackDrift($name: String!, $after: String, $first: Int) {
    infrastructureStack(name: $name) {
      id
      list: drift(after: $after, first: $first) {
        pageInfo {
          hasNextPage
          endCursor
        }
        edges {
          node {
            id
            address
            type
            provider
            action
            leftOut
            runId
            runNumber
            firstSeenAt
            lastSeenAt
            fields {
              path
              before
              after
              sensitive
              cut
            }
          }
        }
      }
    }
  }
`);

type Edge = NonNullable<NonNullable<NonNullable<NonNullable<StackDriftQuery['infrastructureStack']>['list']>['edges']>[number]>;
export type DriftRow = NonNullable<Edge['node']>;
export type DriftField = NonNullable<NonNullable<DriftRow['fields']>[number]>;

/** Resources of a stack that drifted, a page at a time. */
export function driftQuery(name: string, first = PAGE) {
  return infiniteQueryOptions({
    queryKey: ['stack', 'drift', name, first],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      (await ask(Drift, { name, after: pageParam ?? null, first }, signal)).infrastructureStack?.list,
    getNextPageParam: (page) => (page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): DriftRow[] => pages.flatMap((page) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}
