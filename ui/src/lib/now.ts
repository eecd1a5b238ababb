import { useSyncExternalStore } from 'react';

let now = Date.now();
const listeners = new Set<() => void>();
window.setInterval(() => {
  now = Date.now();
  for (const listen of listeners) listen();
}, 5000);

function subscribe(listen: () => void): () => void {
  listeners.add(listen);
  return () => listeners.delete(listen);
}

/** The time, every five seconds: one clock for all ages on a page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
