import { graphql } from '../generated';
import type { PrRole } from '../generated/graphql';
import { listQuery, PAGE } from '../lib/list';

export const Catalogue = graphql(/* GraphQL */ `
  query Catalogue($after: String, $first: Int, $role: PrRole, $q: String) {
    list: prAutomations(first: $first, after: $after, role: $role, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          role
          addon
          identifier
          documentation
          project {
            name
          }
        }
      }
    }
  }
`);

/** Automations that one may see, by what they are for and by their name. */
export const catalogueQuery = ({ role, q }: { role?: PrRole | undefined; q?: string | undefined }, first = PAGE) =>
  listQuery('automations', Catalogue, { role: role ?? null, q: q ?? null, first });
