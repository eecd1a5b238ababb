import { queryOptions } from '@tanstack/react-query';

import { isGone } from '../lib/client';
import type { KubeList, KubeObject } from './objects';
import { clusterPath, kubeJson, kubePath, type Kind, type Target } from './request';

/** Only what all objects have: no specs, no secrets. */
export const METADATA = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json';

/** Names of namespaces; none for who may not list them. */
export function namespacesQuery(cluster: string) {
  return queryOptions({
    queryKey: ['kubernetes', cluster, 'namespaces'],
    staleTime: 30_000,
    retry: false,
    queryFn: async ({ signal }) => {
      const path = clusterPath(cluster, 'api/v1/namespaces', { limit: '5000' });
      const { items } = await kubeJson<KubeList>(path, { accept: METADATA, signal });
      return items.map(({ metadata }) => metadata.name);
    },
  });
}

/** Objects of a kind, at most so many: for what stands beside an object. */
export function someQuery(cluster: string, kind: Kind | undefined, target: Target, isMetadata = false, limit = 500) {
  return queryOptions({
    queryKey: ['kubernetes', cluster, 'some', kind?.id, target, isMetadata],
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
