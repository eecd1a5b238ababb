import { graphql } from '../generated';
import { listQuery } from '../lib/list';

export const Repositories = graphql(/* GraphQL */ `
  query Repositories($after: String, $q: String) {
    list: gitRepositories(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          url
          health
          error
          authMethod
          pulledAt
          project {
            name
          }
        }
      }
    }
  }
`);

/** The first hundred, to choose from. */
export const repositoriesQuery = listQuery('repositories', Repositories);
