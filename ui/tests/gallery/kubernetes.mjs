// An API server that has as many pods as it is told, for pictures: what the console's pages ask for, and nothing changes in it.
import { ago, HOSTILE, plain } from '../world.mjs';

const READ = ['get', 'list', 'watch'];
const ALL = ['create', 'delete', 'deletecollection', ...READ, 'patch', 'update'];
const RBAC = 'rbac.authorization.k8s.io';
/** Group and version, resource, kind, whether it has namespaces; subresources. */
const KINDS = [
  ['v1', 'namespaces', 'Namespace', false],
  ['v1', 'nodes', 'Node', false],
  ['v1', 'pods', 'Pod', true, 'log', 'exec', 'eviction'],
  ['v1', 'services', 'Service', true],
  ['v1', 'configmaps', 'ConfigMap', true],
  ['v1', 'secrets', 'Secret', true],
  ['v1', 'serviceaccounts', 'ServiceAccount', true],
  ['v1', 'events', 'Event', true],
  ['v1', 'persistentvolumeclaims', 'PersistentVolumeClaim', true],
  ['apps/v1', 'deployments', 'Deployment', true, 'scale'],
  ['apps/v1', 'statefulsets', 'StatefulSet', true, 'scale'],
  ['apps/v1', 'daemonsets', 'DaemonSet', true],
  ['apps/v1', 'replicasets', 'ReplicaSet', true, 'scale'],
  ['batch/v1', 'jobs', 'Job', true],
  ['batch/v1', 'cronjobs', 'CronJob', true],
  ['networking.k8s.io/v1', 'ingresses', 'Ingress', true],
  [`${RBAC}/v1`, 'roles', 'Role', true],
  [`${RBAC}/v1`, 'rolebindings', 'RoleBinding', true],
  [`${RBAC}/v1`, 'clusterroles', 'ClusterRole', false],
  [`${RBAC}/v1`, 'clusterrolebindings', 'ClusterRoleBinding', false],
  ['apiextensions.k8s.io/v1', 'customresourcedefinitions', 'CustomResourceDefinition', false],
  ['shop.example.com/v1', 'vouchers', 'Voucher', true],
].map(([version, resource, kind, isNamespaced, ...below]) => ({ version, resource, kind, isNamespaced, below }));

const group = (version) => (version.includes('/') ? version.split('/')[0] : '');
const labels = { app: 'web', team: 'shop' };

/** What a kind has beside its metadata. */
const FIELDS = {
  Namespace: () => ({ status: { phase: 'Active' } }),
  Node: () => ({
    spec: { podCIDR: '10.1.0.0/24' },
    status: {
      capacity: { cpu: '8', memory: '32Gi', pods: '110' },
      allocatable: { cpu: '7800m', memory: '30Gi', pods: '110' },
      conditions: [
        condition('Ready', 'True', 'KubeletReady'),
        condition('MemoryPressure', 'False', 'KubeletHasSufficientMemory'),
      ],
      nodeInfo: {
        kubeletVersion: 'v1.33.4',
        osImage: 'Debian 13',
        architecture: 'amd64',
        containerRuntimeVersion: 'containerd://2.1',
      },
      addresses: [{ type: 'InternalIP', address: '192.0.2.10' }],
    },
  }),
  Pod: (at) => ({
    spec: {
      nodeName: 'node-0',
      containers: [{ name: 'web', image: 'registry.example.com/shop/web:1.9', ports: [{ containerPort: 80 }] }],
    },
    status: {
      phase: at % 9 === 1 ? 'Pending' : 'Running',
      podIP: '10.1.0.7',
      conditions: [condition('Ready', at % 9 === 1 ? 'False' : 'True')],
      containerStatuses: [
        {
          name: 'web',
          ready: at % 9 !== 1,
          restartCount: at % 9 === 1 ? 4 : 0,
          state:
            at % 9 === 1 ? { waiting: { reason: 'ImagePullBackOff', message: HOSTILE } } : { running: { startedAt: ago(900) } },
        },
      ],
    },
  }),
  Service: () => ({
    spec: { type: 'ClusterIP', clusterIP: '10.2.0.9', selector: { app: 'web' }, ports: [{ port: 80, targetPort: 80 }] },
  }),
  ConfigMap: () => ({ data: { 'app.yaml': 'level: info\nregion: eu-1\n', note: HOSTILE } }),
  Secret: () => ({ type: 'Opaque', data: { password: 'bm90IHNob3du' } }),
  Deployment: () => ({
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'registry.example.com/shop/web:1.9' }] } },
    },
    status: {
      replicas: 3,
      readyReplicas: 2,
      updatedReplicas: 3,
      conditions: [condition('Available', 'True', 'MinimumReplicasAvailable')],
    },
  }),
  ClusterRole: () => ({ rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] }),
  ClusterRoleBinding: () => ({
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'admin-0' },
    subjects: [{ apiGroup: RBAC, kind: 'Group', name: 'plural:admins' }],
  }),
};
const condition = (type, status, reason) => ({ type, status, ...(reason && { reason }), lastTransitionTime: ago(600) });

/** The columns that kubectl prints, and what stands in them. */
const PRINTED = {
  Pod: [
    ['Ready', (pod) => (pod.status.containerStatuses[0].ready ? '1/1' : '0/1')],
    ['Status', (pod) => pod.status.containerStatuses[0].state.waiting?.reason ?? pod.status.phase],
    ['Restarts', (pod) => pod.status.containerStatuses[0].restartCount],
  ],
  Deployment: [
    ['Ready', () => '2/3'],
    ['Up-to-date', () => 3],
    ['Available', () => 2],
  ],
  Node: [
    ['Status', () => 'Ready'],
    ['Version', () => 'v1.33.4'],
  ],
};

function made({ version, kind, isNamespaced }, name, namespace, at = 0) {
  return {
    apiVersion: version,
    kind,
    metadata: {
      name,
      ...(isNamespaced && { namespace: namespace ?? 'shop' }),
      uid: `${kind}-${name}`,
      resourceVersion: '100',
      creationTimestamp: ago(3600 + at),
      labels,
      annotations: { note: HOSTILE },
    },
    ...FIELDS[kind]?.(at),
  };
}

function event(at) {
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `web.${at}`, namespace: 'shop', uid: `event-${at}`, creationTimestamp: ago(60 * at) },
    involvedObject: { kind: 'Deployment', name: 'web', namespace: 'shop', uid: 'Deployment-web' },
    type: at % 2 ? 'Warning' : 'Normal',
    reason: at % 2 ? 'BackOff' : 'ScalingReplicaSet',
    message: at % 2 ? HOSTILE : 'Scaled up replica set web-7d9 from 2 to 3',
    count: 3,
    firstTimestamp: ago(900),
    lastTimestamp: ago(60 * at),
  };
}

/** Of every kind so many objects, of some kinds at most so many as there are in a cluster. */
function listOf(kind, rows, namespace) {
  const most = { Pod: rows, ConfigMap: rows, Event: 12 }[kind.kind] ?? 40;
  const names = { Namespace: ['default', 'kube-system', 'shop'], CustomResourceDefinition: ['vouchers.shop.example.com'] }[
    kind.kind
  ];
  const count = Math.min(rows, names?.length ?? most);
  const word = kind.kind === 'ClusterRole' ? 'admin' : kind.kind === 'Node' ? 'node' : 'web';
  return Array.from({ length: count }, (_, at) =>
    kind.kind === 'Event' ? event(at) : made(kind, names?.[at] ?? `${word}-${at}`, namespace, at),
  );
}

function table(kind, items, metadata) {
  const printed = PRINTED[kind.kind] ?? [];
  const columns = ['Name', ...printed.map(([name]) => name), 'Age'];
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: columns.map((name) => ({
      name,
      type: 'string',
      format: name === 'Name' ? 'name' : '',
      description: '',
      priority: 0,
    })),
    rows: items.map((object) => ({
      cells: [object.metadata.name, ...printed.map(([, cell]) => cell(object)), '1h'],
      object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata },
    })),
  };
}

function discovery(isCore) {
  const versions = [...new Set(KINDS.map(({ version }) => version))].filter((version) => (group(version) === '') === isCore);
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    metadata: {},
    items: versions.map((version) => ({
      metadata: { name: group(version) },
      versions: [
        {
          version: version.split('/').at(-1),
          resources: KINDS.filter((kind) => kind.version === version).map(({ resource, kind, isNamespaced, below }) => ({
            resource,
            scope: isNamespaced ? 'Namespaced' : 'Cluster',
            verbs: ALL,
            shortNames: [],
            responseKind: { kind },
            subresources: below.map((subresource) => ({ subresource, verbs: ['get', 'create', 'update'] })),
          })),
        },
      ],
    })),
  };
}

const RULES = {
  resourceRules: [
    { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
    { verbs: READ, apiGroups: [''], resources: ['pods', 'pods/log'] },
  ],
  nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/healthz', '/version'] }],
  incomplete: false,
};
const REVIEWS = {
  selfsubjectreviews: { userInfo: { username: 'ada@example.com', groups: ['plural:admins', 'system:authenticated'] } },
  selfsubjectrulesreviews: RULES,
  selfsubjectaccessreviews: { allowed: true },
};

function log() {
  const words = [
    'ready to serve',
    'GET /cart 200 12 ms',
    `GET /${HOSTILE} 404 1 ms`,
    'WARN retries: 2',
    'ERROR cannot reach db:5432',
  ];
  return Array.from({ length: 200 }, (_, at) => `${ago(400 - 2 * at)} ${words[at % words.length]}`).join('\n') + '\n';
}

/** Answers `/k8s/CLUSTER/…` for a cluster with so many pods. */
export function kubernetes(rows, { isPlain = false } = {}) {
  const told = (text) => (isPlain ? plain(text) : text);
  return (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    const send = (body, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(told(JSON.stringify(body)));
    const path = pathname.split('/').slice(3).map(decodeURIComponent);
    const [root, ...rest] = path;
    if (rest.length === 0) return send(discovery(root === 'api'));
    const version = root === 'api' ? rest.shift() : `${rest.shift()}/${rest.shift()}`;
    if (rest.length === 0) {
      const resources = KINDS.filter((kind) => kind.version === version);
      return send({
        resources: resources.map(({ resource, kind, isNamespaced }) => ({ name: resource, kind, namespaced: isNamespaced })),
      });
    }
    if (REVIEWS[rest[0]]) return send({ status: REVIEWS[rest[0]] }, 201);
    const namespace = rest[0] === 'namespaces' && rest.length > 2 ? rest.splice(0, 2)[1] : undefined;
    const [resource, name, below] = rest;
    const kind = KINDS.find((one) => one.version === version && one.resource === resource);
    if (!kind) return send({ kind: 'Status', code: 404, reason: 'NotFound', message: 'the server could not find it' }, 404);
    if (below === 'log') {
      response.writeHead(200, { 'content-type': 'text/plain' });
      // Who follows waits for more, as at a container that says no more.
      return searchParams.has('follow') ? response.write(told(log())) : response.end(told(log()));
    }
    if (name !== undefined) return send(made(kind, name, namespace));
    if (searchParams.get('watch') === 'true')
      return response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    const from = Number(searchParams.get('continue') ?? 0);
    const one = /^metadata\.name=(.+)$/.exec(searchParams.get('fieldSelector') ?? '')?.[1];
    // A workload has a few pods, however many there are.
    const few = searchParams.has('labelSelector') ? Math.min(rows, 3) : rows;
    const all = one === undefined ? listOf(kind, few, namespace) : [made(kind, one, namespace)];
    const items = all.slice(from, from + Number(searchParams.get('limit') ?? all.length));
    const left = all.length - from - items.length;
    const metadata = {
      resourceVersion: '100',
      ...(left > 0 && { continue: String(from + items.length), remainingItemCount: left }),
    };
    if (request.headers.accept?.includes('as=Table')) return send(table(kind, items, metadata));
    return send({ kind: `${kind.kind}List`, apiVersion: version, metadata, items });
  };
}
