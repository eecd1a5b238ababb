import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { RunsWaitingQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { PAGE } from '../lib/list';

/*
 * Runs that wait for approval: a number beside every page, a few on the first page, all of them in the inbox. Apart from the other
 * queries of stacks, so that the first page reads no more than this.
 */

const Count = graphql(/* GraphQL */ `
  query RunsWaitingCount($first: Int) {
    list: stackRunsWaiting(first: $first) {
      pageInfo {
        hasNextPage
      }
      edges {
        node {
          id
        }
      }
    }
  }
`);

const Waiting = graphql(/* GraphQL */ `
  query RunsWaiting($after: String, $first: Int) {
    list: stackRunsWaiting(after: $after, first: $first) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          number
          kind
          trigger
          status
          sha
          message
          createdAt
          plan {
            add
            change
            destroy
            other
            at
            digest
          }
          requiredApprovals
          approvals {
            digest
          }
          stack {
            id
            name
            project {
              name
            }
          }
        }
      }
    }
  }
`);

/** More than so many are not counted for the number beside every page. */
const MOST = 50;

/** How many runs wait, as the navigation writes it: nothing for none. */
export const waitingCountQuery = queryOptions({
  queryKey: ['stack waiting', 'count'],
  queryFn: ({ signal }) => ask(Count, { first: MOST }, signal),
  select: ({ list }): string => {
    const count = list?.edges?.length ?? 0;
    if (count === 0) return '';
    return list?.pageInfo.hasNextPage === true ? `${count}+` : String(count);
  },
});

type Edge = NonNullable<NonNullable<NonNullable<RunsWaitingQuery['list']>['edges']>[number]>;
export type WaitingRun = NonNullable<Edge['node']>;

export function waitingQuery(first = PAGE) {
  return infiniteQueryOptions({
    queryKey: ['stack waiting', 'list', first],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => ask(Waiting, { after: pageParam ?? null, first }, signal),
    getNextPageParam: ({ list }) => (list?.pageInfo.hasNextPage === true ? (list.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): WaitingRun[] => pages.flatMap(({ list }) => (list?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}
