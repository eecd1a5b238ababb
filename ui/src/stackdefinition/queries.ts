import { graphql } from '../generated';
import { listQuery } from '../lib/list';

export const StackDefinitions = graphql(/* GraphQL */ `
  query StackDefinitions($after: String, $q: String) {
    list: stackDefinitions(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          configuration {
            image
            version
            tag
          }
          steps {
            cmd
          }
          deleteSteps {
            cmd
          }
          updatedAt
        }
      }
    }
  }
`);

export const definitionsQuery = listQuery('stack-definitions', StackDefinitions);
