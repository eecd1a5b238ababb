import type { Query, QueryClient } from '@tanstack/react-query';

import { connection, onConnection } from './connection';
import { isLong } from './list';

/*
 * When an open page reads something again that nobody asked it for: this file decides for all queries, but for those few that say
 * for themselves that somebody waits for them. A page that nobody sees reads nothing (the query cache skips it), and a list that
 * its reader scrolled far into is read again by its reader only.
 */

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Milliseconds between two reads where nobody tells of changes: without the socket. */
const ALONE = MINUTE;
/** Counts of what the socket tells of, in case that it missed something. */
const TOLD = 30 * MINUTE;
/** Rows of it. Nobody tells that an agent is silent, which it is after as long, or that an identity provider took somebody's group. */
const ROWS = 5 * MINUTE;
/** Of what changes with something that the socket tells of, or by somebody's hand. */
const BESIDE = 10 * MINUTE;

/** Pages that were opened together do not ask together. */
const spread = 0.85 + Math.random() * 0.3;

/** What was read when the socket first told of changes, or before, may have changed unheard: it is read once more as if alone. */
let toldFrom = Infinity;
/** For so long after it is connected, the console may still be about to listen, and earlier answers under way. */
const BEGINS = 10 * SECOND;

/** How the socket's changes have a query read again. */
export type Pace =
  /** At once, when it is one of the changed things. */
  | 'now'
  /** Of whatever changes, soon. */
  | 'soon'
  /** Of whatever changes, within a minute: most of it costs the console a look at all rows. */
  | 'later'
  /** By nobody but its reader. */
  | 'never';

/** What the socket tells of. */
export type Noun = 'service' | 'cluster' | 'stack';

/** Whether something of a noun is read when somebody asks for it, and never by a change: it is opened, rendered, or stays as it is. */
export function isAsked(noun: Noun, kind: unknown): boolean {
  if (noun !== 'stack') return kind === 'configuration' || kind === 'preview';
  return ['plan', 'plan text', 'resources', 'state diff', 'inputs', 'open outputs'].includes(String(kind));
}

/** How a change of some services, clusters or stacks concerns a query; without ids, a change of whatever it may be. */
export function pace({ queryKey, state }: Query, noun: Noun, ids: ReadonlySet<string>): Pace {
  const [first, kind] = queryKey;
  // Instances are services: a rollout goes on as they do.
  if (first === 'global services' && noun === 'service') return kind === 'list' ? 'later' : 'never';
  if (noun === 'stack') return paceOfStack(queryKey, state.data, ids);
  if (first !== noun || typeof kind !== 'string') return 'never';
  switch (kind) {
    // Secrets are opened for the one, objects rendered for the other: they are read when somebody asks for them.
    case 'configuration':
    case 'preview':
      return 'never';
    case 'facets':
    case 'recent':
    case 'failures':
      return 'later';
    case 'windows':
    case 'deletion':
      return typeof queryKey[2] === 'string' && ids.has(queryKey[2]) ? 'now' : 'never';
    case 'one':
    case 'history':
    case 'health':
    case 'compared':
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

/** The same of stacks: a change of a run is its stack's. `ids` has the names of stacks besides, where they are open. */
function paceOfStack([first, kind, of]: readonly unknown[], data: unknown, ids: ReadonlySet<string>): Pace {
  if (first === 'stack waiting') return 'soon';
  if (first === 'stack-graph') return 'later';
  if (first !== 'stack' || isAsked('stack', kind)) return 'never';
  const hears = (id: string | undefined): Pace => (id === undefined ? 'soon' : ids.has(id) ? 'now' : 'never');
  switch (kind) {
    case 'one':
      return hears((data as { id?: string } | null | undefined)?.id);
    case 'run':
      return hears((data as { stack?: { id?: string } | null } | null | undefined)?.stack?.id);
    case 'runs':
    case 'states':
    case 'drift':
    case 'pulls':
    case 'bindings':
    case 'output names':
    case 'commands':
      return hears(typeof of === 'string' ? of : undefined);
    default:
      return 'soon';
  }
}

/** Milliseconds between two reads while the socket tells of changes. */
function whileLive([first, kind]: readonly unknown[]): number {
  switch (first) {
    case 'service':
      if (kind === 'facets' || kind === 'statuses' || kind === 'recent' || kind === 'failures') return TOLD;
      // Windows open and close with the time.
      return kind === 'windows' ? MINUTE : ROWS;
    case 'cluster':
      // One cluster shows when it was heard last, and what people did in it.
      return kind === 'list' || kind === 'facets' ? ROWS : MINUTE;
    case 'global services':
      return kind === 'list' ? BESIDE : MINUTE;
    case 'me':
      return BESIDE;
    // Commands under a name are told of with no stack.
    case 'stack':
      return kind === 'commands' || kind === 'bindings' ? MINUTE : ROWS;
    // Stands beside every page; the inbox itself is read more often, by whoever looks at it.
    case 'stack waiting':
      return ROWS;
    default:
      return MINUTE;
  }
}

/** Milliseconds until a query is read again by itself; `false`: never. */
export function again(query: Query): number | false {
  if (isLong(query)) return false;
  const isTold = connection().isLive && query.state.dataUpdatedAt > toldFrom;
  return Math.round((isTold ? whileLive(query.queryKey) : ALONE) * spread);
}

/** Whether a query is read again because somebody looks at the page again: unless the socket would have told of a change. */
export function onLook(query: Query): boolean {
  if (isLong(query)) return false;
  const isTold = connection().isLive && whileLive(query.queryKey) > MINUTE;
  return !isTold || query.state.isInvalidated || Date.now() - query.state.dataUpdatedAt > MINUTE;
}

/** What is open is read again as fast as the connection wants it. Returns how to end. */
export function followConnection(queries: QueryClient): () => void {
  let wasLive = connection().isLive;
  return onConnection(() => {
    const { isLive } = connection();
    if (isLive === wasLive) return;
    wasLive = isLive;
    // A later connection goes on where the one before was.
    if (isLive) toldFrom = Math.min(toldFrom, Date.now() + BEGINS);
    // An observer asks for its interval anew when it is given its options.
    for (const query of queries.getQueryCache().getAll())
      for (const observer of query.observers) observer.setOptions(observer.options);
  });
}

/** Milliseconds between two looks at one that is being opened: somebody waits for it. */
export const SOON = 700;
