import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { counted } from '../lib/text';
import { Name } from '../parts/text';
import type { Subject } from './actions';
import { kindsQuery } from './discovery';
import { at, textAt, type KubeList } from './objects';
import { METADATA } from './queries';
import { kubeJson, kubePath, type Kind } from './request';

/** What is counted of a namespace: what people miss first. */
const COUNTED = ['pods', 'deployments.apps', 'statefulsets.apps', 'services', 'persistentvolumeclaims', 'configmaps', 'secrets'];

interface Counted {
  kind: Kind;
  count: number;
}

/** What goes with an object that holds others, before it is deleted: the objects of a namespace, or of a definition's kind. */
export function Goes({ subject: { cluster, kind, object } }: { subject: Subject }) {
  const { name } = object.metadata;
  const kinds = useQuery(kindsQuery(cluster)).data;
  const isNamespace = kind.id === 'namespaces';
  const isDefinition = kind.id === 'customresourcedefinitions.apiextensions.k8s.io';
  const which = (kinds ?? []).filter(({ id }) => (isNamespace ? COUNTED.includes(id) : isDefinition && id === name));
  const counts = useQuery({
    queryKey: ['kubernetes', cluster, 'goes', kind.id, name, which.map(({ id }) => id)],
    enabled: which.length > 0,
    staleTime: 0,
    retry: false,
    queryFn: ({ signal }) => Promise.all(which.map((one) => countOf(cluster, one, isNamespace ? name : undefined, signal))),
  });
  const volume = kind.id === 'persistentvolumeclaims' ? textAt(object, 'spec', 'volumeName') : undefined;
  if (volume !== undefined) {
    return (
      <Text size="sm" role="status">
        Its volume <Name of={volume} /> and the data on it go, too, unless its reclaim policy is Retain.
      </Text>
    );
  }
  if (which.length === 0) return null;
  if (counts.isPending) return <Text size="sm">Counting what goes with it.</Text>;
  const known = (counts.data ?? []).filter((one) => one !== undefined);
  const there = known.filter(({ count }) => count > 0);
  const isWhole = known.length === which.length;
  return (
    <Text size="sm" fw={600} role="status">
      {there.length > 0 && 'Now there: '}
      {there.map(({ kind: { id, resource }, count }, index) => (
        <span key={id}>
          {index > 0 && ', '}
          {count.toLocaleString('en')} <Name of={resource} />
        </span>
      ))}
      {there.length > 0 && '. '}
      {there.length === 0 &&
        isWhole &&
        (isNamespace ? 'It has no workloads, data or Secrets.' : 'There is no object of its kind.')}
      {!isWhole && `${counted(which.length - known.length, 'kind')} could not be counted; perhaps you may not list them.`}
    </Text>
  );
}

/** How many there are, by the server's own count; nothing where it could not be asked. */
async function countOf(
  cluster: string,
  kind: Kind,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<Counted | undefined> {
  try {
    const path = kubePath(cluster, kind, { namespace, query: { limit: '1' } });
    const list = await kubeJson<KubeList>(path, { accept: METADATA, signal, wanted: { verb: 'list', kind, namespace } });
    return { kind, count: list.items.length + (Number(at(list, 'metadata', 'remainingItemCount')) || 0) };
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined;
  }
}
