// Every page of the web console, for its pictures and for the walk that judges them. One that is not here fails both: `missing` compares with
// the router.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const src = join(import.meta.dirname, '../../src');
const service = (search = '') => `/services/eu-prod-0/web-0${search}`;
const kubernetes = (rest = '') => `/clusters/eu-prod-0/kubernetes${rest}`;
const object = (kind, name, rest = '') => kubernetes(`/object?kind=${kind}&ns=shop&name=${name}${rest}`);
const drawer = (show) => service(`?at=apps%2FDeployment%2Fshop%2Fweb&show=${show}`);

/** Looks the same however many rows there are. */
const ONCE = { rows: [3] };
/** Of one thing, which has to be there. */
const SOME = { rows: [3, 3000] };
/** Taken and judged at 390 px too. */
const MAIN = { isMain: true };
/** Made of parts that others are made of as well: judged with no rows, few and many, in light and dark. */
const WALKED = { ...MAIN, isWalked: true };

const settingLists = [
  'managed-namespaces',
  'contexts',
  'sync-windows',
  'helm-repositories',
  'stack-definitions',
  'scm-connections',
  'scm-webhooks',
  'pr-governances',
  'pr-automations',
  'pr-instances',
  'groups',
  'roles',
  'service-accounts',
  'personas',
  'providers',
  'invitations',
  'registration-tokens',
  'jobs',
  'data-keys',
  'recordings',
  'saved-views',
];
const settingThings = {
  'managed-namespace': 'managed-namespaces/team-0',
  context: 'contexts/context-0',
  repository: 'repositories/g0',
  'stack-definition': 'stack-definitions/definition-0',
  'scm-connection': 'scm-connections/scm-0',
  'pr-automation': 'pr-automations/automation-0',
  group: 'groups/group-0',
  role: 'roles/role-0',
  'service-account': 'service-accounts/sa0',
  persona: 'personas/persona-0',
  provider: 'providers/provider-0',
  recording: 'recordings/rec0',
};

/**
 * isOfCluster: a cluster itself answers some of it, as it does all of area `kubernetes`.
 * name: of the picture's file. area: the page of docs/web-console that is about it. rows: with how many rows, of 0, 3 and 3000; all
 * of them where it says nothing. until: what a page says when it has read everything, if it says so and has rows.
 */
export const pages = [
  { name: 'fleet', area: 'fleet', path: '/', ...WALKED },
  { name: 'fleet-by-version', area: 'fleet', path: '/?by=version' },
  { name: 'fleet-by-tag', area: 'fleet', path: '/?by=tag' },
  { name: 'clusters', area: 'clusters', path: '/clusters', ...WALKED },
  { name: 'clusters-silent', area: 'clusters', path: '/clusters?state=SILENT&sort=-handle', rows: [3000] },
  { name: 'connect', area: 'clusters', path: '/connect', ...ONCE, ...MAIN },
  { name: 'cluster', area: 'clusters', path: '/clusters/eu-prod-0', ...WALKED },
  ...['deprecations', 'audit', 'recordings', 'kubectl', 'metadata', 'settings'].map((tab) => ({
    name: `cluster-${tab}`,
    area: 'clusters',
    path: `/clusters/eu-prod-0?tab=${tab}`,
    ...ONCE,
  })),
  { name: 'services', area: 'services', path: '/services', ...WALKED },
  { name: 'services-failed', area: 'services', path: '/services?status=FAILED&sort=name' },
  { name: 'service', area: 'services', path: service(), ...WALKED },
  { name: 'service-list', area: 'services', path: service('?view=list'), ...ONCE },
  { name: 'service-of-many', area: 'services', path: '/services/ap-prod-2/ingress-2', rows: [3000] },
  ...['state', 'live', 'rendered', 'diff', 'events'].map((show) => ({
    name: `service-object-${show}`,
    area: 'services',
    path: drawer(show),
    isOfCluster: ['live', 'diff', 'events'].includes(show),
    ...ONCE,
  })),
  { name: 'service-revisions', area: 'services', path: service('?tab=revisions'), ...WALKED },
  { name: 'service-changes', area: 'services', path: service('?tab=changes'), ...WALKED },
  { name: 'service-configuration', area: 'services', path: service('?tab=configuration'), ...MAIN },
  ...['timeline', 'dependencies', 'events', 'settings'].map((tab) => ({
    name: `service-${tab}`,
    area: 'services',
    path: service(`?tab=${tab}`),
    ...ONCE,
    isMain: ['timeline', 'settings'].includes(tab),
  })),
  { name: 'global-services', area: 'services', path: '/settings/global-services', ...MAIN },
  { name: 'global-service', area: 'services', path: '/settings/global-services/monitoring-0', ...MAIN },
  { name: 'stacks', area: 'stacks', path: '/stacks', ...WALKED },
  { name: 'new-stack', area: 'stacks', path: '/new-stack', ...ONCE, ...MAIN },
  { name: 'stack', area: 'stacks', path: '/stacks/network-0', ...SOME, ...MAIN },
  { name: 'stack-drift', area: 'stacks', path: '/stacks/network-0?tab=drift', ...SOME, ...MAIN },
  { name: 'stack-graph', area: 'stacks', path: '/stack-graph', ...WALKED },
  { name: 'stack-failed', area: 'stacks', path: '/stacks/database-1', ...ONCE },
  { name: 'stack-state', area: 'stacks', path: '/stacks/network-0?tab=state', ...SOME, ...MAIN },
  { name: 'stack-state-list', area: 'stacks', path: '/stacks/network-0?tab=state&view=list', ...SOME },
  { name: 'stack-state-chosen', area: 'stacks', path: '/stacks/network-0?tab=state&at=aws_vpc.main', ...SOME },
  { name: 'stack-state-of-nothing', area: 'stacks', path: '/stacks/database-1?tab=state', ...ONCE },
  ...['runs', 'outputs', 'commands', 'settings'].map((tab) => ({
    name: `stack-${tab}`,
    area: 'stacks',
    path: `/stacks/network-0?tab=${tab}`,
    ...ONCE,
  })),
  { name: 'stack-of-commands', area: 'stacks', path: '/stacks/cluster-3?tab=settings', rows: [3000] },
  { name: 'run', area: 'stacks', path: '/stacks/network-0/runs/st0-r12', ...SOME, ...MAIN },
  { name: 'run-plan-text', area: 'stacks', path: '/stacks/network-0/runs/st0-r12?tab=plan&view=text', ...ONCE },
  { name: 'run-steps', area: 'stacks', path: '/stacks/database-1/runs/st1-r12?tab=steps', ...SOME, ...MAIN },
  { name: 'run-going', area: 'stacks', path: '/stacks/dns-2/runs/st2-r12', ...ONCE },
  { name: 'run-made', area: 'stacks', path: '/stacks/network-0/runs/st0-r12?tab=made', ...ONCE },
  { name: 'approvals', area: 'stacks', path: '/approvals', ...WALKED },
  { name: 'self-service', area: 'self-service', path: '/self-service', ...WALKED },
  { name: 'wizard', area: 'self-service', path: '/self-service/automation-0', ...ONCE, ...MAIN },
  { name: 'pull-requests', area: 'self-service', path: '/settings/pull-requests', ...MAIN },
  { name: 'pull-request', area: 'self-service', path: '/settings/pull-requests/pr0', ...ONCE },
  { name: 'pull-request-waiting', area: 'self-service', path: '/settings/pull-requests/pr15', ...ONCE },
  { name: 'pull-request-pending', area: 'self-service', path: '/settings/pull-requests/pr3', ...ONCE },
  { name: 'pull-request-failed', area: 'self-service', path: '/settings/pull-requests/pr4', ...ONCE },
  { name: 'pr-instances-outdated', area: 'self-service', path: '/settings/pr-instances?state=OUTDATED', ...MAIN },
  { name: 'pr-instance', area: 'self-service', path: '/settings/pr-instances/pi0', ...SOME, ...MAIN },
  { name: 'upgrade', area: 'self-service', path: '/upgrades/pi0', ...ONCE, ...MAIN },
  { name: 'upgrade-all', area: 'self-service', path: '/self-service/automation-0/upgrade', ...MAIN },
  { name: 'pods', area: 'kubernetes', path: kubernetes(), until: 'watched, as of', ...MAIN },
  { name: 'deployments', area: 'kubernetes', path: kubernetes('?kind=deployments.apps&ns=shop&wide=true'), ...ONCE },
  { name: 'deployment', area: 'kubernetes', path: object('deployments.apps', 'web'), ...ONCE, ...MAIN },
  { name: 'deployment-yaml', area: 'kubernetes', path: object('deployments.apps', 'web', '&tab=yaml'), ...ONCE },
  { name: 'deployment-events', area: 'kubernetes', path: object('deployments.apps', 'web', '&tab=events'), ...ONCE },
  { name: 'pod', area: 'kubernetes', path: object('pods', 'web-0'), ...ONCE },
  { name: 'pod-logs', area: 'kubernetes', path: object('pods', 'web-0', '&tab=logs'), ...ONCE, ...MAIN },
  { name: 'pod-terminal', area: 'kubernetes', path: object('pods', 'web-0', '&tab=terminal'), ...ONCE },
  { name: 'node', area: 'kubernetes', path: kubernetes('/object?kind=nodes&name=node-0'), ...ONCE },
  { name: 'secret', area: 'kubernetes', path: object('secrets', 'web-0'), ...ONCE },
  { name: 'logs-of-many', area: 'kubernetes', path: kubernetes('/logs?ns=shop'), ...ONCE },
  { name: 'kinds', area: 'kubernetes', path: kubernetes('/kinds'), ...ONCE },
  { name: 'access', area: 'kubernetes', path: kubernetes('/access'), ...ONCE },
  {
    name: 'who-can',
    area: 'kubernetes',
    path: kubernetes('/access?tab=who&ns=shop&verb=delete&what=pods'),
    ...ONCE,
  },
  { name: 'projects', area: 'access', path: '/settings/projects', ...MAIN },
  { name: 'project', area: 'access', path: '/settings/projects/default', ...ONCE, ...MAIN },
  { name: 'users', area: 'access', path: '/settings/users', ...MAIN },
  { name: 'user', area: 'access', path: '/settings/users/ada@example.com', ...ONCE },
  { name: 'tokens', area: 'access', path: '/settings/tokens', ...MAIN },
  { name: 'security', area: 'access', path: '/settings/security', ...ONCE },
  { name: 'stack-defaults', area: 'settings', path: '/settings/stack-settings', ...ONCE },
  { name: 'audit', area: 'audit', path: '/audit', ...WALKED },
  { name: 'audit-filtered', area: 'audit', path: '/audit?action=service.*&noun=service', ...ONCE },
  { name: 'repositories', area: 'settings', path: '/settings/repositories', ...WALKED },
  ...settingLists.map((noun) => ({ name: noun, area: 'settings', path: `/settings/${noun}` })),
  ...Object.entries(settingThings).map(([name, path]) => ({ name, area: 'settings', path: `/settings/${path}`, ...ONCE })),
  ...['empty', 'full'].map((much) => ({
    name: `pr-automation-${much}`,
    area: 'settings',
    path: `/settings/pr-automations/automation-${much}`,
    ...ONCE,
  })),
  { name: 'no-such-page', area: 'settings', path: '/nowhere', isAbsent: true, ...ONCE },
];

/** Pages whose cluster need not answer: kubernetes.mjs judges the others with one that does. */
const answered = pages.filter(({ area, isOfCluster = false }) => area !== 'kubernetes' && !isOfCluster);
/** What the walk judges: some with all numbers of rows, all others once with a few, and some on a phone. */
export const walked = {
  each: answered.filter(({ isWalked = false }) => isWalked).map(({ path }) => path),
  once: answered
    .filter(({ isWalked = false, rows = [3], area }) => !isWalked && rows.includes(3) && area !== 'stacks')
    .map(({ path }) => path),
  narrow: answered
    .filter(({ isMain = false, isWalked = false, area }) => isMain && (isWalked || area !== 'stacks'))
    .map(({ path }) => path),
};

/** Routes, and nouns below Settings, of which there is no page above. */
export function missing() {
  const router = readFileSync(join(src, 'router.tsx'), 'utf8');
  const paths = readFileSync(join(src, 'paths.ts'), 'utf8');
  const routes = [...router.matchAll(/^\s+path: '(\/[^']*)'/gm)].map(([, route]) => route);
  const [, groups] = /settingGroups = \{([\s\S]*?)\} as const/.exec(paths);
  const settings = [...groups.matchAll(/'([^']+)'/g)].map(([, noun]) => `/settings/${noun}`);
  const has = pages.map(({ path }) => path.split('?')[0]);
  return [...routes, ...settings].filter((route) => {
    const pattern = new RegExp(`^${route.replaceAll(/\$\w+/g, '[^/]+')}$`);
    return !has.some((path) => pattern.test(path));
  });
}
