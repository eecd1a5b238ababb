import { infiniteQueryOptions, type InfiniteData } from '@tanstack/react-query';
import { useMemo } from 'react';

import type { TypedDocumentString } from '../generated/graphql';
import { ask } from './client';

/** Whether a list is filtered at all. */
export function isFilter(values: Record<string, unknown>): boolean {
  return Object.values(values).some((value) => value !== undefined);
}

/** The items of a list as the API types them: it may be absent, and so may each of them. */
export const listed = <Item>(items: readonly (Item | null | undefined)[] | null | undefined): Item[] =>
  (items ?? []).flatMap((item) => item ?? []);

/** What a query of a list answers: its field is named `list` in each of them. */
export interface Lists<Row> {
  list?: {
    pageInfo: { hasNextPage?: boolean; endCursor?: string | null; hasPreviousPage?: boolean; startCursor?: string | null };
    edges?: ({ node?: Row | null } | null)[] | null;
  } | null;
}
type RowIn<Data> = Data extends Lists<infer Row> ? Row : never;
export type RowOf<Document> = Document extends TypedDocumentString<Lists<infer Row>, never> ? Row : never;

/** A list a page at a time, searched at the server. The API tells lists oldest first: `isNewestFirst` has it read from its end, by a
 * document that takes `before`. */
export function listQuery<Data extends Lists<unknown>, Variables>(
  noun: string,
  document: TypedDocumentString<Data, Variables>,
  variables: Record<string, unknown> = {},
  isNewestFirst = false,
) {
  return infiniteQueryOptions({
    queryKey: [noun, 'list', variables],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      ask(document, { ...variables, [isNewestFirst ? 'before' : 'after']: pageParam ?? null } as Variables, signal),
    getNextPageParam: ({ list: page }) => {
      if (isNewestFirst) return page?.pageInfo.hasPreviousPage === true ? (page.pageInfo.startCursor ?? undefined) : undefined;
      return page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined;
    },
    select: ({ pages }): RowIn<Data>[] =>
      pages.flatMap(({ list: page }) => {
        const rows = (page?.edges ?? []).flatMap((edge) => (edge?.node == null ? [] : [edge.node as RowIn<Data>]));
        return isNewestFirst ? rows.reverse() : rows;
      }),
  });
}

/** Rows of a page of a list. */
export const PAGE = 100;

/** A list of more pages is not read again by itself: a reader who scrolled far would ask for all of them each time. */
export const PAGES_READ_AGAIN = 3;

/** Whether so much of a list was read that only its reader has it read again. */
export function isLong({ state }: { state: { data: unknown } }): boolean {
  const pages = (state.data as Partial<InfiniteData<unknown>> | null | undefined)?.pages;
  return Array.isArray(pages) && pages.length > PAGES_READ_AGAIN;
}

/** Whether a list has its answer, rows or an error. Counts beside it are asked for afterwards: they are a look at all rows, which the
 * first rows would wait for. */
export function isAnswered({ isPending, isPlaceholderData }: { isPending: boolean; isPlaceholderData: boolean }): boolean {
  return !isPending && !isPlaceholderData;
}

/** How a list goes on below its last row. */
export interface Next {
  /** Reads the next page; absent at the end, and after one that failed. */
  more?: () => void;
  /** The next page could not be read: nobody asks for it again but the reader. */
  failed?: { error: Error; retry: () => void; isAsking: boolean };
  /** Reads all of it again. */
  again: () => void;
}

interface Paged {
  hasNextPage: boolean;
  isError: boolean;
  error: Error | null;
  isFetchNextPageError: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
  refetch: () => Promise<unknown>;
}

/** The next page of a list for its table. A page that failed is not asked for again by itself: it would be at the speed of the network. */
export function useNext(list: Paged): Next {
  const { hasNextPage, isError, error, isFetchNextPageError, isFetchingNextPage, fetchNextPage, refetch } = list;
  return useMemo(() => {
    const ask = () => {
      if (!isFetchingNextPage) void fetchNextPage();
    };
    return {
      again: () => void refetch(),
      ...(hasNextPage && !isError && { more: ask }),
      ...(isFetchNextPageError && error && { failed: { error, retry: ask, isAsking: isFetchingNextPage } }),
    };
  }, [hasNextPage, isError, error, isFetchNextPageError, isFetchingNextPage, fetchNextPage, refetch]);
}
