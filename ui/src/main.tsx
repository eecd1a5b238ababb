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

/** The styles that `first.js` has read are there. One that cannot be read is told by it. */
function styled(): Promise<unknown> {
  const links = [...document.querySelectorAll<HTMLLinkElement>('link[data-first]')].filter(({ sheet }) => sheet === null);
  return Promise.all(links.map((link) => new Promise((done) => link.addEventListener('load', done))));
}

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
  // The frame in the page stays until the first page can be drawn in its place, with its styles: the router draws nothing before.
  void Promise.allSettled([router.load(), styled()]).then(draw);
}
