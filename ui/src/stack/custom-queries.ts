import { infiniteQueryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { CustomRunsQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { PAGE } from '../lib/list';

const CustomRuns = graphql(/* GraphQL */ `
  query CustomRuns($stackId: ID!, $after: String, $first: Int) {
    list: customStackRuns(stackId: $stackId, after: $after, first: $first) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          documentation
          updatedAt
          stack {
            id
          }
          project {
            name
          }
          commands {
            cmd
            args
            dir
            approve
          }
          configuration {
            type
            name
            default
            documentation
            longform
            page
            displayName
            placeholder
            optional
            values
            condition {
              operation
              field
              value
            }
            validation {
              regex
              json
              uniqBy {
                scope
              }
            }
          }
        }
      }
    }
  }
`);

export const CreateCustomRun = graphql(/* GraphQL */ `
  mutation CreateCustomRun($attributes: CustomStackRunAttributes!) {
    createCustomStackRun(attributes: $attributes) {
      id
    }
  }
`);
export const UpdateCustomRun = graphql(/* GraphQL */ `
  mutation UpdateCustomRun($id: ID!, $attributes: CustomStackRunAttributes!) {
    updateCustomStackRun(id: $id, attributes: $attributes) {
      id
    }
  }
`);
export const DeleteCustomRun = graphql(/* GraphQL */ `
  mutation DeleteCustomRun($id: ID!) {
    deleteCustomStackRun(id: $id) {
      id
    }
  }
`);
export const StartCustomRun = graphql(/* GraphQL */ `
  mutation StartCustomRun($id: ID!, $stackId: ID!, $answers: Map) {
    startCustomStackRun(id: $id, stackId: $stackId, answers: $answers) {
      id
    }
  }
`);

type Edge = NonNullable<NonNullable<NonNullable<CustomRunsQuery['list']>['edges']>[number]>;
export type CustomRun = NonNullable<Edge['node']>;
export type Question = NonNullable<NonNullable<CustomRun['configuration']>[number]>;

/** Commands under a name that can be started for a stack: its own, and those of all stacks of its project. */
export function customRunsQuery(stackId: string, first = PAGE) {
  return infiniteQueryOptions({
    queryKey: ['stack', 'commands', stackId, first],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) => (await ask(CustomRuns, { stackId, after: pageParam ?? null, first }, signal)).list,
    getNextPageParam: (page) => (page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): CustomRun[] => pages.flatMap((page) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}
