import { infiniteQueryOptions } from '@tanstack/react-query';

import type { TypedDocumentString } from '../generated/graphql';
import { ask } from './client';

/** What a query of a list answers: its field is named `list` in each of them. */
export interface Lists<Row> {
  list?: {
    pageInfo: { hasNextPage: boolean; endCursor?: string | null };
    edges?: ({ node?: Row | null } | null)[] | null;
  } | null;
}
type RowIn<Data> = Data extends Lists<infer Row> ? Row : never;
export type RowOf<Document> = Document extends TypedDocumentString<Lists<infer Row>, never> ? Row : never;

/** A list a page at a time, searched at the server. */
export function listQuery<Data extends Lists<unknown>, Variables>(
  noun: string,
  document: TypedDocumentString<Data, Variables>,
  variables: Record<string, unknown> = {},
) {
  return infiniteQueryOptions({
    queryKey: [noun, 'list', variables],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => ask(document, { ...variables, after: pageParam ?? null } as Variables, signal),
    getNextPageParam: ({ list: page }) =>
      page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined,
    select: ({ pages }): RowIn<Data>[] =>
      pages.flatMap(({ list: page }) =>
        (page?.edges ?? []).flatMap((edge) => (edge?.node == null ? [] : [edge.node as RowIn<Data>])),
      ),
  });
}
