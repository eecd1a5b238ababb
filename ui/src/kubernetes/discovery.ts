import { queryOptions } from '@tanstack/react-query';

import { clusterPath, kubeJson, type Kind } from './request';

interface Discovered {
  resource?: string;
  scope?: string;
  shortNames?: string[];
  verbs?: string[];
  responseKind?: { kind?: string };
  subresources?: { subresource?: string; verbs?: string[] }[];
}

interface Groups {
  kind?: string;
  items?: { metadata?: { name?: string }; versions?: { version?: string; resources?: Discovered[] }[] }[];
}

interface Resources {
  resources?: { name?: string; kind?: string; namespaced?: boolean; verbs?: string[]; shortNames?: string[] }[];
}

const AGGREGATED = ['v2', 'v2beta1'].map((v) => `application/json;g=apidiscovery.k8s.io;v=${v};as=APIGroupDiscoveryList`);
const ACCEPT = [...AGGREGATED, 'application/json'].join(',');

/** What a cluster serves: each kind once, in the version that the server prefers. */
export function kindsQuery(cluster: string) {
  return queryOptions({
    queryKey: ['kubernetes', cluster, 'kinds'],
    staleTime: 60_000,
    queryFn: async ({ signal }): Promise<Kind[]> => {
      const found = await Promise.all(['api', 'apis'].map((root) => read(cluster, root, signal)));
      return found.flat();
    },
  });
}

async function read(cluster: string, root: string, signal: AbortSignal): Promise<Kind[]> {
  const answer = await kubeJson<Groups>(clusterPath(cluster, root), { accept: ACCEPT, signal });
  if (answer.kind === 'APIGroupDiscoveryList') return aggregated(answer);
  return oneByOne(cluster, root, answer, signal);
}

function aggregated(answer: Groups): Kind[] {
  return (answer.items ?? []).flatMap(({ metadata, versions = [] }) => {
    const group = metadata?.name ?? '';
    const seen = new Set<string>();
    return versions.flatMap(({ version = '', resources = [] }) =>
      resources.flatMap((one) => {
        const { resource = '', scope, shortNames = [], verbs = [], responseKind, subresources = [] } = one;
        if (resource === '' || seen.has(resource)) return [];
        seen.add(resource);
        return {
          ...named(group, resource),
          version,
          kind: responseKind?.kind ?? resource,
          isNamespaced: scope === 'Namespaced',
          verbs,
          shortNames,
          subresources: subresources.map(({ subresource = '', verbs: may = [] }) => ({ name: subresource, verbs: may })),
        };
      }),
    );
  });
}

/** For servers before 1.26: each version by its own request. */
async function oneByOne(cluster: string, root: string, answer: unknown, signal: AbortSignal): Promise<Kind[]> {
  const groups =
    root === 'api'
      ? [{ name: '', versions: [...((answer as { versions?: string[] }).versions ?? [])] }]
      : (
          (answer as { groups?: { name: string; versions: { version: string }[]; preferredVersion?: { version: string } }[] })
            .groups ?? []
        ).map(({ name, versions, preferredVersion }) => {
          const all = versions.map(({ version }) => version);
          const first = preferredVersion?.version;
          return { name, versions: first === undefined ? all : [first, ...all.filter((version) => version !== first)] };
        });
  const found = await Promise.all(
    groups.map(async ({ name, versions }) => {
      const seen = new Set<string>();
      const kinds: Kind[] = [];
      for (const version of versions) {
        const path =
          name === '' ? `api/${encodeURIComponent(version)}` : `apis/${encodeURIComponent(name)}/${encodeURIComponent(version)}`;
        // An aggregated API that does not answer hides its own kinds and no others.
        const { resources = [] } = await kubeJson<Resources>(clusterPath(cluster, path), { signal }).catch((): Resources => ({}));
        const fresh = resources.filter(({ name: one = '' }) => one !== '' && !one.includes('/') && !seen.has(one));
        for (const { name: one = '', kind = one, namespaced = false, verbs = [], shortNames = [] } of fresh) {
          seen.add(one);
          const below = resources.filter((other) => other.name?.startsWith(`${one}/`) === true);
          const subresources = below.map((other) => ({
            name: (other.name ?? '').slice(one.length + 1),
            verbs: other.verbs ?? [],
          }));
          kinds.push({ ...named(name, one), version, kind, isNamespaced: namespaced, verbs, shortNames, subresources });
        }
      }
      return kinds;
    }),
  );
  return found.flat();
}

function named(group: string, resource: string) {
  return { id: group === '' ? resource : `${resource}.${group}`, group, resource };
}

/** The kind that an object says it is of. */
export function kindOf(kinds: Kind[] | undefined, apiVersion: string | undefined, kind: string | undefined): Kind | undefined {
  const [first = '', second] = (apiVersion ?? '').split('/');
  const group = second === undefined ? '' : first;
  const same = (kinds ?? []).filter((one) => one.group === group && one.kind === kind);
  return same.find((one) => one.verbs.includes('get')) ?? same[0];
}

/** Kinds of which there are lists. */
export function listed(kinds: Kind[]): Kind[] {
  return kinds.filter(({ verbs }) => verbs.includes('list'));
}

const SECTIONS: [title: string, ids: string[]][] = [
  [
    'Workloads',
    ['pods', 'deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'replicasets.apps', 'jobs.batch', 'cronjobs.batch'],
  ],
  [
    'Network',
    [
      'services',
      'ingresses.networking.k8s.io',
      'ingressclasses.networking.k8s.io',
      'networkpolicies.networking.k8s.io',
      'endpointslices.discovery.k8s.io',
      'endpoints',
    ],
  ],
  [
    'Configuration',
    [
      'configmaps',
      'secrets',
      'horizontalpodautoscalers.autoscaling',
      'poddisruptionbudgets.policy',
      'resourcequotas',
      'limitranges',
      'priorityclasses.scheduling.k8s.io',
    ],
  ],
  ['Storage', ['persistentvolumeclaims', 'persistentvolumes', 'storageclasses.storage.k8s.io']],
  [
    'Access',
    [
      'serviceaccounts',
      'roles.rbac.authorization.k8s.io',
      'rolebindings.rbac.authorization.k8s.io',
      'clusterroles.rbac.authorization.k8s.io',
      'clusterrolebindings.rbac.authorization.k8s.io',
    ],
  ],
  ['Cluster', ['nodes', 'namespaces', 'events', 'customresourcedefinitions.apiextensions.k8s.io']],
];

/** Kinds in groups: what people look for first, then the rest of Kubernetes, then custom resources by their API group. */
export function sections(kinds: Kind[]): [title: string, kinds: Kind[]][] {
  const by = new Map(kinds.map((kind) => [kind.id, kind]));
  const known = SECTIONS.map(([title, ids]): [string, Kind[]] => [title, ids.flatMap((id) => by.get(id) ?? [])]);
  const placed = new Set(known.flatMap(([, ones]) => ones.map(({ id }) => id)));
  const rest = new Map<string, Kind[]>();
  for (const kind of kinds) {
    if (placed.has(kind.id)) continue;
    const title = isCustom(kind) ? kind.group : 'More of Kubernetes';
    rest.set(title, [...(rest.get(title) ?? []), kind]);
  }
  const others = [...rest].sort(
    ([a], [b]) => Number(a !== 'More of Kubernetes') - Number(b !== 'More of Kubernetes') || (a < b ? -1 : 1),
  );
  return [...known, ...others].filter(([, ones]) => ones.length > 0);
}

/** Of no group of Kubernetes' own. */
export function isCustom({ group }: Kind): boolean {
  return group.includes('.') && !group.endsWith('.k8s.io');
}
