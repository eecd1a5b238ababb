import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import { ask } from './client';

const Me = graphql(/* GraphQL */ `
  query Me {
    me {
      id
      name
      email
      roles {
        admin
      }
    }
  }
`);

/** Who is signed in. Another one comes with another page. */
export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => ask(Me, {}, signal),
  staleTime: Infinity,
});
