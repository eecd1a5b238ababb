import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './theme.css';

import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { isPassing } from './lib/client';
import { isLong } from './lib/list';
import { followLink, nonce } from './lib/page';
import { router } from './router';
import { theme } from './theme';

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      retry: (count, error) => count < 2 && isPassing(error),
      networkMode: 'always',
      // The socket tells of changes to services and clusters; this is for all else, and for when it is lost.
      refetchInterval: (query) => !isLong(query) && 60_000,
      refetchOnWindowFocus: (query) => !isLong(query),
      refetchOnMount: (query) => !isLong(query),
    },
    mutations: { networkMode: 'always' },
  },
});

const place = document.getElementById('root');
if (place && !followLink()) {
  createRoot(place).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
          <Notifications position="bottom-right" />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
