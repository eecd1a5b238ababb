import type { ReactNode } from 'react';

import { isGone, isLost } from '../lib/client';
import { Fault } from './page';

/** What a query of any kind tells about its last answer. */
interface Answered<Data> {
  data: Data | undefined;
  isError: boolean;
  error: Error | null;
  dataUpdatedAt: number;
  /** A list: the rows that are there stay, and its table says below them that the next ones failed. */
  isFetchNextPageError?: boolean;
  refetch: () => Promise<unknown>;
}

/** What it answered last, as long as that may be shown: nothing of what is gone, or of what one may not see any more. */
export function held<Data>({ data, isError, error }: Answered<Data>): Data | undefined {
  return isError && isGone(error) ? undefined : data;
}

/** That it could not be read again, above what was read before. Without a network the bar above all pages says so. */
export function Stale({ query, what }: { query: Answered<unknown>; what: string }) {
  if (!query.isError || held(query) === undefined || query.isFetchNextPageError === true || isLost(query.error)) return null;
  return <Fault error={query.error} what={what} retry={() => void query.refetch()} asOf={query.dataUpdatedAt} />;
}

/** What a query answered: with a fault above it when it could not be read again, a fault alone when there is nothing to show. */
export function Shown({ query, what, children }: { query: Answered<unknown>; what: string; children: ReactNode }) {
  if (query.isError && held(query) === undefined)
    return <Fault error={query.error} what={what} retry={() => void query.refetch()} />;
  return (
    <>
      <Stale query={query} what={what} />
      {children}
    </>
  );
}
