import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { StackGraphQuery } from '../generated/graphql';
import { ask } from '../lib/client';

/* Which stacks depend on which, as far as one may see them; those that others depend on first. */

const Graph = graphql(/* GraphQL */ `
  query StackGraph {
    stackGraph {
      stacks {
        id
        name
        status
        deletedAt
        dependencies {
          stackId
          outputs {
            output
            variable
          }
        }
      }
      edges {
        stackId
        upstreamId
      }
    }
  }
`);

type Answer = NonNullable<StackGraphQuery['stackGraph']>;
export type GraphStack = NonNullable<NonNullable<Answer['stacks']>[number]>;
export type GraphEdge = NonNullable<NonNullable<Answer['edges']>[number]>;

export interface StackGraph {
  stacks: GraphStack[];
  edges: GraphEdge[];
}

export const stackGraphQuery = queryOptions({
  queryKey: ['stack-graph'],
  queryFn: ({ signal }) => ask(Graph, {}, signal),
  select: (data): StackGraph => ({
    stacks: (data.stackGraph?.stacks ?? []).flatMap((stack) => stack ?? []),
    edges: (data.stackGraph?.edges ?? []).flatMap((edge) => edge ?? []),
  }),
});
