import type { InfiniteData, QueryClient } from '@tanstack/react-query';
import { createClient, type Client } from 'graphql-ws';

import { graphql } from '../generated';
import { signIn } from './client';
import { setLive } from './connection';

const ServiceChanges = graphql(/* GraphQL */ `
  subscription ServiceChanges($after: String) {
    serviceDeploymentDelta(after: $after) {
      changed
      deleted
      readAgain
      cursor
    }
  }
`);

const ClusterChanges = graphql(/* GraphQL */ `
  subscription ClusterChanges($after: String) {
    clusterDelta(after: $after) {
      changed
      deleted
      readAgain
      cursor
    }
  }
`);

interface Delta {
  changed: string[];
  deleted: string[];
  readAgain: boolean;
  cursor: string;
}

/** A long list is not read again at each change: the reader scrolls in it. */
const PAGES_READ_AGAIN = 3;

/** Listens for changes, and has the pages read again what changed. Returns how to end. */
export function listen(queries: QueryClient): () => void {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  const client = createClient({
    url: `${scheme}://${window.location.host}/gql`,
    lazy: false,
    retryAttempts: Infinity,
    shouldRetry: (event) => !(event instanceof CloseEvent && event.code === 4401),
    on: {
      connected: () => setLive(true),
      closed: (event) => {
        setLive(false);
        if (event instanceof CloseEvent && event.code === 4401) signIn();
      },
    },
    onNonLazyError: () => setLive(false),
  });
  const ends = [
    follow(client, ServiceChanges.toString(), 'serviceDeploymentDelta', (delta) => changed(queries, 'service', delta)),
    follow(client, ClusterChanges.toString(), 'clusterDelta', (delta) => changed(queries, 'cluster', delta)),
  ];
  return () => {
    for (const end of ends) end();
    void client.dispose();
  };
}

/** One subscription that goes on after a lost connection where it was. */
function follow(client: Client, query: string, field: string, tell: (delta: Delta) => void): () => void {
  let after: string | undefined;
  let isEnded = false;
  let end: () => void = () => undefined;
  const start = () => {
    end = client.subscribe<Record<string, Delta>>(
      {
        query,
        // Read anew at each reconnection.
        get variables() {
          return { after };
        },
      },
      {
        next: ({ data }) => {
          const delta = data?.[field];
          if (!delta) return;
          after = delta.cursor;
          tell(delta);
        },
        error: () => {
          // A cursor that is too old, or a socket that will not come: begin anew after a while.
          after = undefined;
          if (!isEnded) window.setTimeout(() => !isEnded && start(), 10_000);
        },
        complete: () => undefined,
      },
    );
  };
  start();
  return () => {
    isEnded = true;
    end();
  };
}

function changed(queries: QueryClient, noun: 'service' | 'cluster', delta: Delta): void {
  const ids = new Set([...delta.changed, ...delta.deleted]);
  if (ids.size === 0 && !delta.readAgain) return;
  void queries.invalidateQueries({
    predicate: ({ queryKey, state }) => {
      if (queryKey[0] !== noun) return false;
      if (queryKey[1] === 'one') {
        const id = (state.data as { id?: string } | null | undefined)?.id;
        return delta.readAgain || id === undefined || ids.has(id);
      }
      const pages = (state.data as InfiniteData<unknown> | undefined)?.pages;
      return !Array.isArray(pages) || pages.length <= PAGES_READ_AGAIN;
    },
  });
}
