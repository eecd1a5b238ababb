import { useSyncExternalStore } from 'react';

import { onReachable } from './client';

/** Whether the console answers, and whether it tells of changes by itself. */
export interface Connection {
  isReachable: boolean;
  isLive: boolean;
  /** When it last answered or told something, in milliseconds. */
  heardAt: number;
}

let state: Connection = { isReachable: true, isLive: false, heardAt: Date.now() };
const listeners = new Set<() => void>();

function set(next: Partial<Connection>): void {
  state = { ...state, ...next };
  for (const listen of listeners) listen();
}

onReachable((isReachable) => set(isReachable ? { isReachable, heardAt: Date.now() } : { isReachable }));

/** The changes' socket came or went. */
export function setLive(isLive: boolean): void {
  set(isLive ? { isLive, isReachable: true, heardAt: Date.now() } : { isLive });
}

/** Hears of each change of the connection. Returns how to end. */
export function onConnection(listen: () => void): () => void {
  listeners.add(listen);
  return () => {
    listeners.delete(listen);
  };
}

/** How it is now. */
export function connection(): Connection {
  return state;
}

export function useConnection(): Connection {
  return useSyncExternalStore(onConnection, connection);
}
