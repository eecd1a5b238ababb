import { queryOptions } from '@tanstack/react-query';

import { isGone } from '../lib/client';
import type { KubeList, KubeObject } from './objects';
import { clusterPath, kubeJson, kubePath, type Kind, type Target } from './request';

/** Only what all objects have: no specs, no secrets. */
export const METADATA = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json';

/** Namespaces that are read at a time, and at most: who looks for one of more types its name. */
const PAGE = 2000;
const MOST_NAMESPACES = 20_000;

/** Names of namespaces; none for who may not list them. */
export function namespacesQuery(cluster: string) {
  return queryOptions({
    queryKey: ['kubernetes', cluster, 'namespaces'],
    staleTime: 30_000,
    retry: false,
    queryFn: async ({ signal }) => {
      const names: string[] = [];
      let next: string | undefined;
      do {
        const path = clusterPath(cluster, 'api/v1/namespaces', { limit: String(PAGE), continue: next });
        const { items, metadata } = await kubeJson<KubeList>(path, { accept: METADATA, signal });
        names.push(...items.map((one) => one.metadata.name));
        next = metadata.continue === '' ? undefined : metadata.continue;
      } while (next !== undefined && names.length < MOST_NAMESPACES);
      return names;
    },
  });
}

/** Objects of a kind, at most so many: for what stands beside an object. */
export function someQuery(cluster: string, kind: Kind | undefined, target: Target, isMetadata = false, limit = 500) {
  return queryOptions({
    queryKey: ['kubernetes', cluster, 'some', kind?.id, target, isMetadata, limit],
    enabled: kind !== undefined,
    staleTime: 5000,
    // What is refused stays so for a while.
    refetchInterval: ({ state }: { state: { error: Error | null } }) =>
      state.error !== null && isGone(state.error) ? 120_000 : 15_000,
    queryFn: async ({ signal }): Promise<KubeObject[]> => {
      if (kind === undefined) return [];
      const path = kubePath(cluster, kind, { ...target, query: { limit: String(limit), ...target.query } });
      const wanted = { verb: 'list', kind, namespace: target.namespace };
      const { items } = await kubeJson<KubeList>(path, { signal, wanted, ...(isMetadata && { accept: METADATA }) });
      return items;
    },
  });
}
