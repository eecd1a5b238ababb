import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { FleetQuery } from '../generated/graphql';
import { ask } from '../lib/client';

const Fleet = graphql(/* GraphQL */ `
  query Fleet($after: String) {
    clusters(first: 500, after: $after) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          handle
          distro
          currentVersion
          agentVersion
          agentOutdated
          connected
          pingedAt
          deletedAt
          tags {
            name
            value
          }
          project {
            name
          }
        }
      }
    }
  }
`);

type Edge = NonNullable<NonNullable<NonNullable<FleetQuery['clusters']>['edges']>[number]>;
export type FleetCluster = NonNullable<Edge['node']>;

/** More are not drawn: their list has them all. */
export const MOST = 10_000;

/** Every cluster that one may see, a few fields of each. Pages are read one after the other. */
export const fleetQuery = queryOptions({
  queryKey: ['cluster', 'fleet'],
  queryFn: async ({ signal }) => {
    const all: FleetCluster[] = [];
    let after: string | null = null;
    for (;;) {
      const { clusters: page }: FleetQuery = await ask(Fleet, { after }, signal);
      all.push(...(page?.edges ?? []).flatMap((edge) => edge?.node ?? []));
      after = page?.pageInfo.endCursor ?? null;
      if (page?.pageInfo.hasNextPage !== true || after === null || all.length >= MOST)
        return { clusters: all, isWhole: page?.pageInfo.hasNextPage !== true };
    }
  },
  staleTime: 30_000,
});

/** `1.33` of `v1.33.4`. */
export function minor(version: string | null | undefined): string | undefined {
  return /^v?(\d+\.\d+)/.exec(version ?? '')?.[1];
}

/** Versions in order, the newest first. */
export function byVersion(a: string, b: string): number {
  const [x = 0, y = 0] = a.split('.').map(Number);
  const [p = 0, q = 0] = b.split('.').map(Number);
  return p - x || q - y;
}
