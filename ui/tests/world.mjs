// A console that answers GraphQL from a made world, for screenshots and for failures that a real one does not have on demand.
//
//   world.mjs ROWS    serves dist and /gql on a free port, and prints the address
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { buildSchema, graphql } from 'graphql';

import { things } from './gallery/things.mjs';
import { nouns } from './nouns.mjs';
import { stacks } from './stacks.mjs';

const here = import.meta.dirname;
const schema = buildSchema(readFileSync(join(here, '../../docs/reference/schema.graphql'), 'utf8'));
const STATUSES = ['HEALTHY', 'HEALTHY', 'HEALTHY', 'STALE', 'FAILED', 'HEALTHY', 'SYNCED', 'PAUSED', 'HEALTHY', 'HEALTHY'];
const REASONS = {
  FAILED: {
    kind: 'COMPONENT',
    message: 'Deployment web/web: container web waits, ImagePullBackOff: registry.example.com/shop/web:1.9 does not exist',
    terminal: false,
  },
  STALE: { kind: 'PROGRESSING', message: 'wave 2 of 3: waits for StatefulSet db, 1 of 3 ready', terminal: false },
  PAUSED: { kind: 'APPROVAL', message: '12 objects wait to be deleted; the limit is 10', terminal: false },
};
export const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
export const HOSTILE = '<img src=x onerror=alert(1)>\u202egnp.exe';
export const plain = (text) => text.replaceAll(HOSTILE, 'checkout');

/** A world of so many services. */
export function world(rows) {
  const clusters = Array.from({ length: Math.min(rows, Math.ceil(rows / 3)) }, (_, at) => ({
    id: `c${at}`,
    handle: `${['eu', 'us', 'ap'][at % 3]}-${['prod', 'stage'][at % 2]}-${at}`,
    name: `Cluster ${at}`,
    distro: ['EKS', 'GKE', 'K3S'][at % 3],
    currentVersion: ['1.33.4', '1.34.1', '1.32.9'][at % 3],
    agentVersion: '0.9.0',
    agentOutdated: at % 17 === 3,
    state: at % 29 === 11 ? 'WAITING' : at % 13 === 5 ? 'SILENT' : at % 17 === 3 ? 'OUTDATED' : 'CONNECTED',
    connected: at % 29 !== 11 && at % 13 !== 5,
    pingedAt: at % 29 === 11 ? null : ago(at % 13 === 5 ? 9000 : at % 30),
    insertedAt: ago(90 * 86400),
    nodeCount: 3 + (at % 40),
    podCount: 60 + ((at * 37) % 900),
    namespaceCount: 12,
    tags: [{ name: 'tier', value: at % 2 ? 'stage' : 'prod' }],
    project: { id: 'p', name: 'default' },
    status: { conditions: [] },
    apiDeprecations:
      at === 0
        ? [
            {
              removedIn: 'v1.36',
              replacement: 'policy/v1',
              blocking: true,
              component: { id: 'x', kind: 'PodDisruptionBudget', name: 'web', service: { name: 'web' } },
            },
          ]
        : [],
    auditLogs: { edges: [], pageInfo: { hasNextPage: false, hasPreviousPage: false } },
  }));
  const services = Array.from({ length: rows }, (_, at) => {
    const status = STATUSES[(at + 4) % STATUSES.length];
    const cluster = clusters[at % clusters.length];
    return {
      id: `s${at}`,
      name: at === 1 ? HOSTILE : `${['web', 'cart', 'ingress', 'monitoring', 'db'][at % 5]}-${at}`,
      namespace: 'shop',
      version: '1.0.0',
      status,
      reason: REASONS[status] ?? null,
      errors:
        status === 'FAILED'
          ? [
              {
                source: 'render',
                message: 'values.yaml: image.tag is not a string',
                location: 'shop/values.yaml:14',
                terminal: true,
                warning: false,
              },
            ]
          : [],
      componentStatus: status === 'FAILED' ? '3 / 4' : '4 / 4',
      sha: '8f08c05fb0e47cdc472367efb81af8f1db335400',
      message: at === 2 ? HOSTILE : 'Raise the limits of the web front end',
      author: 'Ada',
      updatedAt: ago(30 + at * 7),
      failingSince: status === 'FAILED' ? ago(3600 + at * 70) : null,
      lastRecoveredAt: ago(86400 * 2),
      healthChanges: connection(
        [
          status === 'FAILED'
            ? {
                from: 'HEALTHY',
                to: 'FAILED',
                reason: at === 2 ? HOSTILE : 'Deployment.apps/shop/web: ImagePullBackOff',
                begins: 3600 + at * 70,
              }
            : { from: 'STALE', to: 'HEALTHY', at: 3600 + at * 70 },
          { from: 'HEALTHY', to: 'STALE', reason: 'its agent is applying the newest revision', at: 86400 },
          { from: 'FAILED', to: 'HEALTHY', at: 86400 * 2, begins: 86400 * 2 + 754 },
          { from: 'HEALTHY', to: 'FAILED', reason: 'rendering: values.yaml: image.tag is not a string', begins: 86400 * 2 + 754 },
        ].map(({ begins, at: when = begins, reason = null, ...turn }, place) => ({
          ...turn,
          id: `h${at}-${place}`,
          reason,
          at: ago(when),
          failingSince: begins === undefined ? null : ago(begins),
          sha: '8f08c05fb0e47cdc472367efb81af8f1db335400',
        })),
        {},
      ),
      insertedAt: ago(86400 * 30),
      cluster,
      paused: false,
      dryRun: false,
      git: { ref: 'main', folder: 'shop/web' },
      repository: { id: 'r', url: 'https://git.example.com/shop/deploy.git' },
      syncConfig: { policy: { manual: false, prune: true, selfHeal: true } },
      revision: { id: 'r9' },
      components:
        at === 2
          ? many(1000)
          : [
              { id: 'k1', kind: 'ConfigMap', namespace: 'shop', name: 'web', state: 'RUNNING', synced: true, children: [] },
              {
                id: 'k2',
                group: 'apps',
                version: 'v1',
                kind: 'Deployment',
                namespace: 'shop',
                name: 'web',
                state: status === 'FAILED' ? 'FAILED' : 'RUNNING',
                synced: true,
                message: status === 'FAILED' ? 'ImagePullBackOff' : null,
                children: [
                  {
                    group: 'apps',
                    kind: 'ReplicaSet',
                    namespace: 'shop',
                    name: 'web-7d9',
                    state: 'PENDING',
                    uid: 'u1',
                    version: 'v1',
                  },
                  {
                    kind: 'Pod',
                    namespace: 'shop',
                    name: 'web-7d9-x2',
                    state: status === 'FAILED' ? 'FAILED' : 'RUNNING',
                    uid: 'u2',
                    parentUid: 'u1',
                    message: status === 'FAILED' ? 'container web: ImagePullBackOff' : null,
                    version: 'v1',
                  },
                ],
              },
              { id: 'k3', kind: 'Service', namespace: 'shop', name: 'web', state: 'RUNNING', synced: true, children: [] },
              { id: 'k4', kind: 'Ingress', namespace: 'shop', name: 'web', state: 'RUNNING', synced: false, children: [] },
            ],
      dependencies: [],
      dependents: [],
      apiDeprecations: [],
      revisions: connection(
        [9, 8, 7].reverse().map((n) => ({
          id: `r${n}`,
          sha: `${n}f08c05fb0e47`,
          message: `Change number ${n}`,
          author: 'Ada',
          by: 'git',
          version: '1.0.0',
          insertedAt: ago((10 - n) * 5000),
          healthyAt: n === 9 ? null : ago((10 - n) * 4900),
          restorable: n !== 7,
          plan: {
            id: `rp${n}`,
            revisionId: `r${n}`,
            digest: '',
            omitted: 0,
            objects: [
              {
                action: 'CHANGE',
                phase: 'SYNC',
                object: { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' },
                fields: [{ path: '/spec/replicas', before: String(n - 1), after: String(n) }],
              },
            ],
          },
        })),
        {},
      ),
      events: connection(
        [{ id: 'e1', action: 'service.create', actorName: 'ada@example.com', insertedAt: ago(99999), times: 1 }],
        {},
      ),
      plans: connection(
        [
          {
            id: 'p1',
            insertedAt: ago(400),
            revisionId: 'r9',
            unchanged: 3,
            omitted: 0,
            objects: [
              {
                action: 'CHANGE',
                object: { kind: 'Deployment', name: 'web', namespace: 'shop', group: 'apps' },
                fields: [
                  { path: 'spec.replicas', before: '2', after: '3', manager: 'plural' },
                  { path: 'spec.template.spec.containers[0].env[2].value', hidden: true },
                ],
              },
            ],
          },
        ],
        {},
      ),
      drift: connection(
        [
          {
            id: 'd1',
            kind: 'REPAIRED',
            count: 2,
            insertedAt: ago(900),
            updatedAt: ago(300),
            object: { kind: 'Deployment', name: 'web', namespace: 'shop', group: 'apps' },
            what: 'kubectl edit changed the number of replicas',
            fields: [{ path: 'spec.replicas', before: '3', after: '9', manager: 'kubectl-edit' }],
          },
        ],
        {},
      ),
      configuration: [
        { name: 'DB_PASSWORD', value: 'the secret' },
        { name: 'API_KEY', value: '', valueFrom: { secretKeyRef: { name: 'api', key: 'key' } } },
        { name: 'LEVEL', value: '', valueFrom: { configMapKeyRef: { namespace: 'shop', name: 'web', key: 'level' } } },
        { name: 'DSN', value: '', valueFrom: { vaultKeyRef: { path: 'kv/shop', key: 'dsn' } } },
        { name: 'OTHER_PASSWORD', value: '', valueFrom: { sopsKeyRef: { file: 'secrets.yaml', key: 'db.password' } } },
        { name: 'TLS_KEY', value: '', valueFrom: { ageKeyRef: { file: 'tls.key.age' } } },
      ],
    };
  });
  return { clusters, services };
}

/** What services import of stacks: one whose sensitive outputs they may not read, and one whose they may. */
function imports({ edges }) {
  return edges.map(({ node: stack }, at) => ({ id: `im${at}`, sensitive: at === 1, stack, outputs: stack.output }));
}

export function connection(nodes, { first = 100, after, last, before }) {
  if (last) {
    const end = before ? Number(before) : nodes.length;
    const start = Math.max(0, end - last);
    const edges = nodes.slice(start, end).map((node) => ({ node }));
    return { edges, pageInfo: { hasNextPage: end < nodes.length, hasPreviousPage: start > 0, startCursor: String(start) } };
  }
  const from = after ? Number(after) : 0;
  const page = nodes.slice(from, from + first);
  return {
    edges: page.map((node) => ({ node })),
    pageInfo: { hasNextPage: from + first < nodes.length, hasPreviousPage: from > 0, endCursor: String(from + page.length) },
  };
}

/** Objects of a service that has many: a few are not well. */
export function many(count) {
  return Array.from({ length: count }, (_, at) => ({
    id: `m${at}`,
    group: '',
    kind: ['ConfigMap', 'Service', 'Secret'][at % 3],
    namespace: 'shop',
    name: `thing-${at}`,
    state: at % 97 === 5 ? 'FAILED' : 'RUNNING',
    synced: true,
    message: at % 97 === 5 ? HOSTILE : null,
    version: 'v1',
    children: [],
  }));
}

const STATUS_ORDER = ['FAILED', 'PAUSED', 'STALE', 'SYNCED', 'HEALTHY'];
const STATE_ORDER = ['SILENT', 'REMOVING', 'OUTDATED', 'WAITING', 'CONNECTED'];
const has = (q) => (thing) => !q || thing.name.includes(q) || thing.handle?.includes(q);
const chosen = (args) => (cluster) =>
  has(args.q)(cluster) &&
  (!args.state || cluster.state === args.state) &&
  (!args.version || cluster.currentVersion.startsWith(`${args.version}.`)) &&
  (!args.distro || cluster.distro === args.distro);

/** How many have each value, the most frequent first, or in an order in which each value has a place. */
function tally(things, of, order) {
  const counts = new Map((order ?? []).map((value) => [value, 0]));
  for (const thing of things) counts.set(of(thing), (counts.get(of(thing)) ?? 0) + 1);
  return order ? [...counts] : [...counts].sort(([, a], [, b]) => b - a);
}

function ordered(things, sort) {
  if (!sort) return things;
  const key = {
    NAME: (s) => s.name,
    STATUS: (s) => STATUS_ORDER.indexOf(s.status),
    UPDATED_AT: (s) => s.updatedAt,
    HANDLE: (c) => c.handle,
    STATE: (c) => STATE_ORDER.indexOf(c.state),
    CURRENT_VERSION: (c) => c.currentVersion,
    PINGED_AT: (c) => c.pingedAt ?? '',
  }[sort.by];
  const up = [...things].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
  return sort.descending ? up.reverse() : up;
}

function clusterFacets(clusters) {
  const tags = tally(clusters, ({ tags: [tag] }) => tag.value);
  return {
    states: tally(clusters, (c) => c.state, STATE_ORDER).map(([state, count]) => ({ state, count })),
    versions: tally(clusters, (c) => c.currentVersion.replace(/\.\d+$/, ''))
      .sort(([a], [b]) => b.localeCompare(a))
      .map(([version, count]) => ({ version, count })),
    distros: tally(clusters, (c) => c.distro).map(([distro, count]) => ({ distro, count })),
    projects: clusters.length === 0 ? [] : [{ project: { id: 'p', name: 'default' }, count: clusters.length }],
    tags: tags.map(([value, count]) => ({ tag: { name: 'tier', value }, count })),
  };
}

function root({ clusters, services }, rows) {
  const ofStacks = stacks(clusters, rows);
  const named = (noun, make) => (args) =>
    connection(
      Array.from({ length: rows }, (_, at) => make(at))
        .filter(has(args.q))
        .filter(args.filter ?? (() => true)),
      args,
    );
  return {
    ...things(clusters),
    ...nouns(clusters, rows, named),
    ...ofStacks,
    me: { id: 'u', name: 'Ada', email: 'ada@example.com', roles: { admin: true } },
    clusters: (args) => connection(ordered(clusters.filter(chosen(args)), args.sort), args),
    clusterFacets: (args) => clusterFacets(clusters.filter(chosen(args))),
    cluster: ({ handle, id }) => clusters.find((cluster) => cluster.handle === handle || cluster.id === id),
    serviceDeployments: (args) =>
      connection(
        ordered(
          services
            .filter(has(args.q))
            .filter((s) => (!args.status || s.status === args.status) && (!args.cluster || s.cluster.handle === args.cluster)),
          args.sort,
        ),
        args,
      ),
    revisions: (args) =>
      connection(
        services
          .slice(0, 200)
          .map((service, at) => ({
            id: `r${at}`,
            sha: '4f3a9c1d0e5b7a8f6c2d1e0b9a8f7c6d5e4f3a2b',
            message: at === 3 ? HOSTILE : 'Raise the memory limit',
            author: 'Ada',
            by: 'ada@example.com',
            version: '1.0.0',
            insertedAt: ago((at + 1) * 400),
            healthyAt: service.status === 'HEALTHY' ? ago(at * 400) : null,
            service: { ...service, revision: { id: `r${at}` } },
          }))
          .reverse(),
        args,
      ),
    healthChanges: (args) =>
      connection(
        services.slice(0, 50).map((service, at) => ({
          id: `h${at}`,
          from: 'HEALTHY',
          to: service.status === 'FAILED' ? 'FAILED' : 'HEALTHY',
          reason: service.status !== 'FAILED' ? null : at === 3 ? HOSTILE : 'Deployment.apps/shop/web: ImagePullBackOff',
          at: ago((at + 1) * 300),
          failingSince: ago((at + 1) * 300 + (service.status === 'FAILED' ? 0 : 95)),
          service,
        })),
        args,
      ),
    serviceFacets: (args) => {
      const some = services.filter(has(args.q)).filter((s) => !args.status || s.status === args.status);
      const here = services.filter(has(args.q)).filter((s) => !args.cluster || s.cluster.handle === args.cluster);
      return {
        statuses: tally(here, (s) => s.status, STATUS_ORDER).map(([status, count]) => ({ status, count })),
        clusters: tally(some, (s) => s.cluster)
          .slice(0, 100)
          .map(([cluster, count]) => ({ cluster, count })),
        projects: [{ project: { id: 'p', name: 'default' }, count: some.length }],
      };
    },
    serviceDeployment: ({ cluster, name, id }) => {
      const found = services.find((s) => s.id === id || (s.cluster.handle === cluster && s.name === name));
      return found && { ...found, imports: imports(ofStacks.infrastructureStacks({ first: 2 })) };
    },
    serviceStatuses: ({ q, clusterId }) =>
      STATUS_ORDER.map((status) => ({
        status,
        count: services.filter(has(q)).filter((s) => s.status === status && (!clusterId || s.cluster.id === clusterId)).length,
      })),
    syncWindows: Array.from({ length: Math.min(rows, 3) }, (_, at) => ({
      id: `w${at}`,
      name: `window-${at}`,
      kind: at % 2 ? 'ALLOW' : 'DENY',
      schedule: '0 22 * * 1-5',
      duration: 3600,
      timeZone: 'Europe/Berlin',
      description: at === 1 ? HOSTILE : 'Nights',
      project: { id: 'p', name: 'default' },
    })),
    servicePreview: {
      errors: [],
      objects: [
        {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          namespace: 'shop',
          name: 'web',
          source: 'web.yaml:1',
          content: { kind: 'ConfigMap', data: { a: HOSTILE } },
        },
        {
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          namespace: 'shop',
          name: 'web',
          source: 'deployment.yaml:1',
          content: {
            apiVersion: 'apps/v1',
            kind: 'Deployment',
            metadata: { name: 'web', namespace: 'shop' },
            spec: { replicas: 2, selector: { matchLabels: { app: 'web' } } },
          },
        },
      ],
    },
    serviceDeletion: ({ id }) => ({ hidden: 0, omitted: 0, services: services.filter((service) => service.id === id) }),
  };
}

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-test'; connect-src 'self'; img-src 'self' data:; font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const CAST =
  '{"version":2,"width":80,"height":24,"timestamp":1790000000,"title":"exec in shop/web-0 by ada@example.com","command":"sh"}\n[0.1,"o","$ "]\n[0.5,"o","echo hello\\r\\n"]\n[9.0,"o","hello\\r\\n<img src=x onerror=alert(1)>\\r\\n"]\n[9.5,"';
const TYPES = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/**
 * Serves it on a free port of loopback. `kubernetes` answers in the place of clusters, none of which has an agent else. A plain world
 * has nothing hostile in it: for pictures that people look at.
 */
export async function serve(rows, { kubernetes, isPlain = false } = {}) {
  const told = (text) => (isPlain ? plain(text) : text);
  const values = root(world(rows), rows);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname.startsWith('/ext/v1/recordings/'))
      return response.writeHead(200, { 'content-type': 'application/x-asciicast' }).end(CAST);
    if (pathname.startsWith('/k8s/') && kubernetes) return kubernetes(request, response);
    if (pathname.startsWith('/k8s/'))
      return response.writeHead(503, { 'content-type': 'application/json' }).end('{"message":"the agent is not connected"}');
    if (pathname === '/gql') {
      let body = '';
      request.on('data', (part) => (body += part));
      request.on('end', async () => {
        const { query, variables } = JSON.parse(body || '{}');
        const answer = await graphql({ schema, source: query ?? '', rootValue: values, variableValues: variables });
        response.writeHead(200, { 'content-type': 'application/json' }).end(told(JSON.stringify(answer)));
      });
      return;
    }
    const type = TYPES[pathname.split('.').at(-1)];
    try {
      if (type)
        return response
          .writeHead(200, { 'content-type': type, 'content-security-policy': CSP })
          .end(readFileSync(join(here, '../dist', pathname)));
    } catch {
      return response.writeHead(404).end();
    }
    const page = readFileSync(join(here, '../dist/index.html'), 'utf8').replace('__CSP_NONCE__', 'test');
    response.writeHead(200, { 'content-type': 'text/html', 'content-security-policy': CSP }).end(page);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => (server.close(), server.closeAllConnections()) };
}

if (process.argv[1] === import.meta.filename) console.log((await serve(Number(process.argv[2] ?? 3))).url);
