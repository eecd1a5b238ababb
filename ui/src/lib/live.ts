import type { Query, QueryClient } from '@tanstack/react-query';
import { createClient, type Client } from 'graphql-ws';

import { graphql } from '../generated';
import { signIn } from './client';
import { setLive } from './connection';
import { isLong } from './list';
import { followConnection, isAsked, pace, type Noun } from './poll';

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

const StackChanges = graphql(/* GraphQL */ `
  subscription StackChanges($after: String) {
    infrastructureStackDelta(after: $after) {
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
/** Lists are read again at most this often: in a large fleet something changes each second. */
const CALM = 10_000;
/** And what costs more: counts of all rows. */
const CALM_COUNTS = 60_000;
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
  const pages = followConnection(queries);
  const services = reader(queries, 'service');
  const clusters = reader(queries, 'cluster');
  const stacks = reader(queries, 'stack');
  const ends = [
    follow(client, ServiceChanges.toString(), 'serviceDeploymentDelta', services.read),
    follow(client, ClusterChanges.toString(), 'clusterDelta', clusters.read),
    follow(client, StackChanges.toString(), 'infrastructureStackDelta', stacks.read),
    services.end,
    clusters.end,
    stacks.end,
    pages,
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

/** Has read again what a delta names at once, lists at most every ten seconds, and counts of all rows at most once a minute. */
function reader(queries: QueryClient, noun: Noun): { read: (delta: Delta) => void; end: () => void } {
  let isAll = false;
  const none: ReadonlySet<string> = new Set();
  const again = (wanted: (query: Query) => boolean) =>
    void queries.invalidateQueries({
      predicate: (query) => !isLong(query) && wanted(query),
      // A page that nobody sees reads when somebody looks.
      refetchType: document.visibilityState === 'hidden' ? 'none' : 'active',
    });
  const soon = calm(CALM, () => {
    const all = isAll;
    isAll = false;
    again((query) => {
      const { queryKey } = query;
      if (all && queryKey[0] === noun) return !isAsked(noun, queryKey[1]);
      return pace(query, noun, none) === 'soon';
    });
  });
  const later = calm(CALM_COUNTS, () => again((query) => pace(query, noun, none) === 'later'));
  return {
    read: (delta) => {
      const ids = new Set([...delta.changed, ...delta.deleted]);
      if (noun === 'stack') for (const name of stackNames(queries, ids)) ids.add(name);
      if (ids.size === 0 && !delta.readAgain) return;
      if (ids.size > 0) again((query) => pace(query, noun, ids) === 'now');
      isAll ||= delta.readAgain;
      soon.ask();
      later.ask();
    },
    end: () => {
      soon.end();
      later.end();
    },
  };
}

/** The names of those of these stacks that are open: what is read of a stack beside it is read by its name. */
function stackNames(queries: QueryClient, ids: ReadonlySet<string>): string[] {
  return queries
    .getQueryCache()
    .findAll({ queryKey: ['stack', 'one'] })
    .flatMap(({ queryKey, state }) => {
      const id = (state.data as { id?: string } | null | undefined)?.id;
      return id !== undefined && ids.has(id) && typeof queryKey[2] === 'string' ? [queryKey[2]] : [];
    });
}

/** Does something soon after it was asked for, and no more often than every so many milliseconds. */
function calm(every: number, act: () => void): { ask: () => void; end: () => void } {
  let timer: number | undefined;
  let last = -Infinity;
  const done = () => {
    timer = undefined;
    last = Date.now();
    act();
  };
  return {
    ask: () => {
      timer ??= window.setTimeout(done, Math.max(0, last + every - Date.now()) + Math.random() * JITTER);
    },
    end: () => window.clearTimeout(timer),
  };
}
