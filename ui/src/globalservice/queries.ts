import { graphql } from '../generated';
import { listQuery } from '../lib/list';

export const Globals = graphql(/* GraphQL */ `
  query GlobalServices($after: String, $q: String) {
    list: globalServices(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          error
          spread
          deletedAt
          updatedAt
          distro
          tags {
            name
            value
          }
          project {
            name
          }
          instanceCounts {
            all
            healthy
            newest
            leaving
          }
          rollout {
            state
            cohort
          }
        }
      }
    }
  }
`);

/** All of them, as lists and the home page show them. */
export const globalsQuery = listQuery('global services', Globals);
