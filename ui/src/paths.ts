type Search = Record<string, string | undefined>;

const kubernetes = (handle: string) => `/clusters/${encodeURIComponent(handle)}/kubernetes`;
/** The router reads `1e3` and `true` as what they are in JSON: names are quoted, as it does itself. */
const safe = (value: string) => {
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
};
const asked = (search: Search) => {
  const given = Object.entries(search).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, safe(value)])).toString()}`;
};

/** Every address of the web console. Links and redirects come from here, so that a page moves in one place. */
export const paths = {
  home: () => '/',
  clusters: () => '/clusters',
  connect: () => '/connect',
  cluster: (handle: string) => `/clusters/${encodeURIComponent(handle)}`,
  kubernetes: (handle: string, search: Search = {}) => `${kubernetes(handle)}${asked(search)}`,
  kubernetesObject: (handle: string, search: Search) => `${kubernetes(handle)}/object${asked(search)}`,
  kubernetesLogs: (handle: string, search: Search) => `${kubernetes(handle)}/logs${asked(search)}`,
  kubernetesKinds: (handle: string) => `${kubernetes(handle)}/kinds`,
  kubernetesAccess: (handle: string) => `${kubernetes(handle)}/access`,
  services: () => '/services',
  service: (cluster: string, name: string) => `/services/${encodeURIComponent(cluster)}/${encodeURIComponent(name)}`,
  stacks: () => '/stacks',
  newStack: () => '/new-stack',
  stackGraph: () => '/stack-graph',
  stack: (name: string) => `/stacks/${encodeURIComponent(name)}`,
  stackRun: (name: string, run: string) => `/stacks/${encodeURIComponent(name)}/runs/${encodeURIComponent(run)}`,
  approvals: () => '/approvals',
  selfService: () => '/self-service',
  automation: (name: string) => `/self-service/${encodeURIComponent(name)}`,
  upgradeAll: (automation: string) => `/self-service/${encodeURIComponent(automation)}/upgrade`,
  upgrade: (instance: string) => `/upgrades/${encodeURIComponent(instance)}`,
  audit: () => '/audit',
  settings: (noun: Setting = 'repositories') => `/settings/${noun}`,
  setting: (noun: Setting, id: string) => `/settings/${noun}/${encodeURIComponent(id)}`,
  signIn: (then: string) => `/auth/sign-in?then=${encodeURIComponent(then)}`,
} as const;

/** Nouns below Settings, in groups. */
export const settingGroups = {
  Delivery: [
    'global-services',
    'managed-namespaces',
    'contexts',
    'sync-windows',
    'repositories',
    'helm-repositories',
    'scm-connections',
    'scm-webhooks',
    'pr-governances',
    'pr-automations',
    'pull-requests',
    'pr-instances',
    'stack-definitions',
    'stack-settings',
  ],
  Access: [
    'projects',
    'users',
    'groups',
    'roles',
    'service-accounts',
    'personas',
    'providers',
    'invitations',
    'registration-tokens',
  ],
  Operations: ['jobs', 'data-keys', 'recordings'],
  You: ['tokens', 'security', 'saved-views'],
} as const;

export type Setting = (typeof settingGroups)[keyof typeof settingGroups][number];
export const settings: readonly Setting[] = Object.values(settingGroups).flat();

/** What a service's page can show below its state. */
export const serviceTabs = [
  'components',
  'revisions',
  'changes',
  'timeline',
  'configuration',
  'dependencies',
  'events',
  'settings',
] as const;
export type ServiceTab = (typeof serviceTabs)[number];

/** What a cluster's page can show below its facts. */
export const clusterTabs = ['services', 'deprecations', 'audit', 'recordings', 'kubectl', 'metadata', 'settings'] as const;
export type ClusterTab = (typeof clusterTabs)[number];

/** What a stack's page can show. */
export const stackTabs = ['overview', 'runs', 'commands', 'drift', 'state', 'outputs', 'settings'] as const;
export type StackTab = (typeof stackTabs)[number];
