import type { Query, QueryClient } from '@tanstack/react-query';
import { createClient, type Client } from 'graphql-ws';

import { graphql } from '../generated';
import { signIn } from './client';
import { setLive } from './connection';
import { isLong } from './list';

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

/** The longest wait between two tries to connect. */
const MOST_WAIT = 30_000;
/** Lists and counts are read again at most this often: in a large fleet something changes each second. */
const CALM = 10_000;
/** Pages that were opened together do not ask together. */
const JITTER = 2000;

/** Listens for changes, and has the pages read again what changed. Returns how to end. */
export function listen(queries: QueryClient): () => void {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  const client = createClient({
    url: `${scheme}://${window.location.host}/gql`,
    lazy: false,
    retryAttempts: Infinity,
    retryWait,
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
  const services = reader(queries, 'service');
  const clusters = reader(queries, 'cluster');
  const ends = [
    follow(client, ServiceChanges.toString(), 'serviceDeploymentDelta', services.read),
    follow(client, ClusterChanges.toString(), 'clusterDelta', clusters.read),
    services.end,
    clusters.end,
  ];
  return () => {
    for (const end of ends) end();
    void client.dispose();
  };
}

/** Longer from try to try, never longer than half a minute; no longer at all once the network is back or somebody looks. */
function retryWait(retries: number): Promise<void> {
  return new Promise((resolve) => {
    const longest = Math.min(MOST_WAIT, 1000 * 2 ** retries);
    const done = () => {
      window.clearTimeout(timer);
      window.removeEventListener('online', done);
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    const look = () => {
      if (document.visibilityState === 'visible') done();
    };
    const timer = window.setTimeout(done, longest / 2 + (Math.random() * longest) / 2);
    window.addEventListener('online', done);
    document.addEventListener('visibilitychange', look);
  });
}

/** One subscription that goes on after a lost connection where it was. */
function follow(client: Client, query: string, field: string, tell: (delta: Delta) => void): () => void {
  let after: string | undefined;
  // It begins anew without a cursor: nobody tells what changed in between.
  let isGap = false;
  let isEnded = false;
  let end: () => void = () => undefined;
  const hear = client.on('closed', () => {
    isGap ||= after === undefined;
  });
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
          tell(isGap ? { ...delta, readAgain: true } : delta);
          isGap = false;
        },
        error: () => {
          // A cursor that is too old, or a socket that will not come: begin anew after a while.
          after = undefined;
          isGap = true;
          if (!isEnded) window.setTimeout(() => !isEnded && start(), 10_000);
        },
        complete: () => undefined,
      },
    );
  };
  start();
  return () => {
    isEnded = true;
    hear();
    end();
  };
}

/** When a query of a noun is read again: at once for the thing that changed, by and by for lists and counts, or by nobody but its reader. */
type Pace = 'now' | 'soon' | 'never';

function pace({ queryKey, state }: Query, noun: string, ids: ReadonlySet<string>): Pace {
  const [first, kind] = queryKey;
  if (first !== noun || typeof kind !== 'string') return 'never';
  switch (kind) {
    // Secrets are opened for the one, objects rendered for the other: they are read when somebody asks for them.
    case 'configuration':
    case 'preview':
      return 'never';
    // Counts of all rows, and the newest changes of all: they are read again once a minute.
    case 'facets':
    case 'recent':
    case 'failures':
      return 'never';
    case 'windows':
    case 'deletion':
      return typeof queryKey[2] === 'string' && ids.has(queryKey[2]) ? 'now' : 'never';
    case 'one':
    case 'history':
    case 'health':
    case 'changes':
    case 'audit': {
      const id = (state.data as { id?: string } | null | undefined)?.id;
      // Not there, or not yet: perhaps it came.
      if (id === undefined) return 'soon';
      return ids.has(id) ? 'now' : 'never';
    }
    default:
      return 'soon';
  }
}

/** Has read again what a delta names at once, and lists and counts at most every ten seconds. */
function reader(queries: QueryClient, noun: 'service' | 'cluster'): { read: (delta: Delta) => void; end: () => void } {
  let timer: number | undefined;
  let readAt = -Infinity;
  let isAll = false;
  const soon = () => {
    timer = undefined;
    readAt = Date.now();
    const all = isAll;
    isAll = false;
    void queries.invalidateQueries({
      predicate: (query) => {
        if (isLong(query)) return false;
        const { queryKey } = query;
        if (all) return queryKey[0] === noun && queryKey[1] !== 'configuration' && queryKey[1] !== 'preview';
        return pace(query, noun, new Set()) === 'soon';
      },
    });
  };
  return {
    read: (delta) => {
      const ids = new Set([...delta.changed, ...delta.deleted]);
      if (ids.size === 0 && !delta.readAgain) return;
      if (ids.size > 0) void queries.invalidateQueries({ predicate: (query) => pace(query, noun, ids) === 'now' });
      isAll ||= delta.readAgain;
      timer ??= window.setTimeout(soon, Math.max(0, readAt + CALM - Date.now()) + Math.random() * JITTER);
    },
    end: () => window.clearTimeout(timer),
  };
}
