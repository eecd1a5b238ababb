import { QueryClient, type QueryKey } from '@tanstack/react-query';

import { isPassing } from './client';
import { isLong } from './list';
import { again, onLook } from './poll';

/** What was read of the console, for all pages. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      retry: (count, error) => count < 2 && isPassing(error),
      networkMode: 'always',
      refetchInterval: again,
      refetchOnWindowFocus: onLook,
      refetchOnMount: (query) => !isLong(query),
    },
    mutations: { networkMode: 'always' },
  },
});

/** Asks for what a page shows first while its script is on its way. What was read before is for the page to read again; so is what
 * cannot be read. */
export function begin({ queryKey }: { queryKey: QueryKey }, ask: () => Promise<unknown>): void {
  if (queries.getQueryState(queryKey) === undefined) void ask().catch(() => undefined);
}
