import { Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import type { TypedDocumentString } from '../generated/graphql';
import { isFilter, listQuery, useNext, type Lists } from '../lib/list';
import { Search } from './filter';
import { Empty, Page } from './page';
import { Shown } from './shown';
import { Table, type Columns } from './table';

const route = getRouteApi('/settings/$noun');

interface ListingProps<Row, Data, Variables> {
  title: string;
  /** Several of them in words: `users`. Also the first word of the keys of its queries. */
  noun: string;
  document: TypedDocumentString<Data, Variables>;
  /** What the list is filtered by besides the search. */
  variables?: Record<string, unknown>;
  columns: Columns<Row>;
  /** What it is good for, where there is none yet. */
  teaches: ReactNode;
  /** How to make one by command line. */
  how?: string;
  isSearched?: boolean;
  /** Its document takes `before`. */
  isNewestFirst?: boolean;
  actions?: ReactNode;
  filters?: ReactNode;
}

/** All of a noun: searched at the server, a page at a time, only what is in sight is drawn. */
export function Listing<Row extends { id?: string | null }, Data extends Lists<Row>, Variables>(
  props: ListingProps<Row, Data, Variables>,
) {
  const {
    title,
    noun,
    document,
    variables = {},
    columns,
    teaches,
    how,
    isSearched = true,
    isNewestFirst = false,
    actions,
    filters,
  } = props;
  const { q } = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({
    ...listQuery<Data, Variables>(noun, document, { ...variables, ...(isSearched && { q: q ?? null }) }, isNewestFirst),
    placeholderData: keepPreviousData,
  });
  const next = useNext(list);
  const chosen = Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, value ?? undefined]));
  return (
    <Page title={title} isFull actions={actions}>
      {(isSearched || filters !== undefined) && (
        <Group gap="sm">
          {isSearched && (
            <Search
              label={`Search in ${noun}`}
              value={q ?? ''}
              onChange={(typed) =>
                void navigate({ search: (old) => ({ ...old, q: typed === '' ? undefined : typed }), replace: true })
              }
            />
          )}
          {filters}
        </Group>
      )}
      <Shown query={list} what={noun}>
        <Table
          label={title}
          rows={list.data ?? []}
          columns={columns}
          id={(row) => row.id ?? ''}
          isWaiting={list.isPending}
          next={next}
          empty={
            q === undefined && !isFilter(chosen) ? (
              <Empty title={`No ${noun} yet`}>
                {teaches}
                {how !== undefined && (
                  <>
                    {' '}
                    By command line: <code>{how}</code>
                  </>
                )}
              </Empty>
            ) : (
              <Empty title={`No ${noun} match`}>Nothing fits the search and the filters, as far as you may see.</Empty>
            )
          }
        />
      </Shown>
    </Page>
  );
}
