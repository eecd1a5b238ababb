import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './theme.css';

import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { queries } from './lib/cache';
import { followLink, nonce } from './lib/page';
import { router } from './router';
import { theme } from './theme';

const place = document.getElementById('root');
if (place && !followLink()) {
  const draw = () =>
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
  // The frame in the page stays until the first page can be drawn in its place: the router draws nothing before.
  void router.load().then(draw, draw);
}
