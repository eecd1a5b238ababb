import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';

import type { ClusterDistro, ClusterState, ComponentState, PrRole, ServiceDeploymentStatus } from './generated/graphql';
import { clustersQuery } from './cluster/queries';
import { begin, queries } from './lib/cache';
import { PAGE } from './lib/list';
import { clusterSorts, serviceSorts, sortWord, type SortWord } from './lib/sort';
import { Empty, Fault, Page } from './parts/page';
import { RouteLink } from './parts/text';
import { clusterTabs, paths, serviceTabs, stackTabs, type ClusterTab, type ServiceTab, type StackTab } from './paths';
import { ON_HOME, servicesQuery, statusesQuery } from './service/queries';
import { Shell } from './shell/shell';

const words = (value: unknown): string | undefined => {
  if (typeof value === 'string') return value === '' ? undefined : value;
  return typeof value === 'number' ? String(value) : undefined;
};
const oneOf = <Value extends string>(values: readonly Value[], value: unknown): Value | undefined =>
  values.find((one) => one === value);
/** Leaves out what is not set: an address shows what was chosen and nothing else. What the router has of an address and no page can read is unset. */
const given = <Search extends object>(raw: Record<string, unknown>, search: Search): Search =>
  Object.fromEntries(Object.entries(search).filter(([name, value]) => value !== undefined || Object.hasOwn(raw, name))) as Search;

/** Scripts of the pages that one goes to most: they are read while nothing else is, so that a click waits for its rows alone. */
const pages = {
  home: () => import('./home/page'),
  services: () => import('./service/list'),
  service: () => import('./service/page'),
  clusters: () => import('./cluster/list'),
  cluster: () => import('./cluster/page'),
  settings: () => import('./settings/page'),
};

/** Reads the scripts of the pages that one may go to next, one after another. One that cannot be read is asked for when it is needed. */
async function readAhead(): Promise<void> {
  for (const read of [...Object.values(pages), () => import('./parts/ask')]) await read().catch(() => undefined);
}

/** Rows are asked for together with the script of their page; those of another search on the same page before it is drawn with that. `stay` is
 * another look at the same rows. */
const enters = (cause: 'preload' | 'enter' | 'stay') => cause !== 'stay';

const root = createRootRoute({
  component: () => <Shell readAhead={readAhead} />,
  errorComponent: ({ error }) => <Fault error={error} what="this page" />,
  notFoundComponent: () => (
    <Page title="There is no such page">
      <Empty title="The address names no page of this console">
        It may be cut or mistyped. Ctrl K finds a cluster, a service or a page by its name.{' '}
        <RouteLink to={paths.home()}>To the fleet</RouteLink>
      </Empty>
    </Page>
  ),
});

const groupings = ['state', 'version', 'distribution', 'project', 'tag'] as const;
const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  validateSearch: (search: Record<string, unknown>): { by?: (typeof groupings)[number] | undefined } =>
    given(search, { by: oneOf(groupings, search['by']) }),
  beforeLoad: ({ cause }) => {
    if (!enters(cause)) return;
    const counts = statusesQuery({});
    begin(counts, () => queries.query(counts));
    for (const status of ['FAILED', 'PAUSED'] as const) {
      const rows = servicesQuery({ status }, ON_HOME);
      begin(rows, () => queries.infiniteQuery(rows));
    }
  },
  component: lazyRouteComponent(pages.home, 'HomePage'),
});

const services = createRoute({
  getParentRoute: () => root,
  path: '/services',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    q?: string | undefined;
    status?: ServiceDeploymentStatus | undefined;
    cluster?: string | undefined;
    project?: string | undefined;
    sort?: SortWord | undefined;
  } =>
    given(search, {
      q: words(search['q']),
      // Also one that there is none of: the page shows it as a filter, and the server says that it knows none.
      status: words(search['status']) as ServiceDeploymentStatus | undefined,
      cluster: words(search['cluster']),
      project: words(search['project']),
      sort: sortWord(serviceSorts, search['sort']),
    }),
  beforeLoad: ({ search: { sort, ...filter } }) => {
    const rows = servicesQuery(filter, PAGE, sort);
    begin(rows, () => queries.infiniteQuery(rows));
  },
  component: lazyRouteComponent(pages.services, 'ServicesPage'),
});

const states = ['FAILED', 'PAUSED', 'PENDING', 'RUNNING'] as const satisfies ComponentState[];
const objectTabs = ['state', 'live', 'rendered', 'diff', 'events', 'logs'] as const;
const service = createRoute({
  getParentRoute: () => root,
  path: '/services/$cluster/$name',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    tab?: ServiceTab | undefined;
    state?: ComponentState | undefined;
    object?: string | undefined;
    view?: 'list' | undefined;
    at?: string | undefined;
    show?: (typeof objectTabs)[number] | undefined;
    from?: string | undefined;
    to?: string | undefined;
  } =>
    given(search, {
      tab: oneOf(serviceTabs, search['tab']),
      state: oneOf(states, search['state']),
      object: words(search['object']),
      view: oneOf(['list'] as const, search['view']),
      at: words(search['at']),
      show: oneOf(objectTabs, search['show']),
      from: words(search['from']),
      to: words(search['to']),
    }),
  component: lazyRouteComponent(pages.service, 'ServicePage'),
});

const clusters = createRoute({
  getParentRoute: () => root,
  path: '/clusters',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    q?: string | undefined;
    tag?: string | undefined;
    project?: string | undefined;
    state?: ClusterState | undefined;
    version?: string | undefined;
    distro?: ClusterDistro | undefined;
    sort?: SortWord | undefined;
  } =>
    given(search, {
      q: words(search['q']),
      tag: words(search['tag']),
      project: words(search['project']),
      state: words(search['state']) as ClusterState | undefined,
      version: words(search['version']),
      distro: words(search['distro']) as ClusterDistro | undefined,
      sort: sortWord(clusterSorts, search['sort']),
    }),
  beforeLoad: ({ search }) => {
    const rows = clustersQuery(search, PAGE, search.sort);
    begin(rows, () => queries.infiniteQuery(rows));
  },
  component: lazyRouteComponent(pages.clusters, 'ClustersPage'),
});

const cluster = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle',
  validateSearch: (search: Record<string, unknown>): { tab?: ClusterTab | undefined } =>
    given(search, { tab: oneOf(clusterTabs, search['tab']) }),
  component: lazyRouteComponent(pages.cluster, 'ClusterPage'),
});

interface ObjectsSearch {
  kind?: string | undefined;
  ns?: string | undefined;
  q?: string | undefined;
  l?: string | undefined;
  sort?: string | undefined;
  wide?: boolean | undefined;
}
const kubernetes = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle/kubernetes',
  validateSearch: (search: Record<string, unknown>): ObjectsSearch =>
    given(search, {
      kind: words(search['kind']),
      ns: words(search['ns']),
      q: words(search['q']),
      l: words(search['l']),
      sort: words(search['sort']),
      wide: search['wide'] === true ? true : undefined,
    }),
  component: lazyRouteComponent(() => import('./kubernetes/list'), 'KubernetesPage'),
});

const kubernetesTabs = ['summary', 'yaml', 'events', 'logs', 'terminal'] as const;
interface ObjectSearch {
  kind?: string | undefined;
  ns?: string | undefined;
  name?: string | undefined;
  tab?: (typeof kubernetesTabs)[number] | undefined;
  container?: string | undefined;
}
const kubernetesObject = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle/kubernetes/object',
  validateSearch: (search: Record<string, unknown>): ObjectSearch =>
    given(search, {
      kind: words(search['kind']),
      ns: words(search['ns']),
      name: words(search['name']),
      tab: oneOf(kubernetesTabs, search['tab']),
      container: words(search['container']),
    }),
  component: lazyRouteComponent(() => import('./kubernetes/object'), 'ObjectPage'),
});
const kubernetesLogs = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle/kubernetes/logs',
  validateSearch: (search: Record<string, unknown>): { ns?: string | undefined; l?: string | undefined } =>
    given(search, { ns: words(search['ns']), l: words(search['l']) }),
  component: lazyRouteComponent(() => import('./kubernetes/logs-page'), 'LogsPage'),
});
const kubernetesKinds = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle/kubernetes/kinds',
  validateSearch: (search: Record<string, unknown>): { q?: string | undefined; custom?: 'yes' | undefined } =>
    given(search, { q: words(search['q']), custom: oneOf(['yes'] as const, search['custom']) }),
  component: lazyRouteComponent(() => import('./kubernetes/kinds'), 'KindsPage'),
});
interface AccessSearch {
  tab?: 'who' | undefined;
  ns?: string | undefined;
  verb?: string | undefined;
  what?: string | undefined;
  name?: string | undefined;
}
const kubernetesAccess = createRoute({
  getParentRoute: () => root,
  path: '/clusters/$handle/kubernetes/access',
  validateSearch: (search: Record<string, unknown>): AccessSearch =>
    given(search, {
      tab: oneOf(['who'] as const, search['tab']),
      ns: words(search['ns']),
      verb: words(search['verb']),
      what: words(search['what']),
      name: words(search['name']),
    }),
  component: lazyRouteComponent(() => import('./kubernetes/access'), 'AccessPage'),
});

const connect = createRoute({
  getParentRoute: () => root,
  path: '/connect',
  component: lazyRouteComponent(() => import('./cluster/connect'), 'ConnectPage'),
});

const stacks = createRoute({
  getParentRoute: () => root,
  path: '/stacks',
  validateSearch: (
    search: Record<string, unknown>,
  ): { q?: string | undefined; project?: string | undefined; tag?: string | undefined } =>
    given(search, { q: words(search['q']), project: words(search['project']), tag: words(search['tag']) }),
  component: lazyRouteComponent(() => import('./stack/list'), 'StacksPage'),
});
const newStack = createRoute({
  getParentRoute: () => root,
  path: '/new-stack',
  component: lazyRouteComponent(() => import('./stack/create'), 'NewStackPage'),
});
const stackGraph = createRoute({
  getParentRoute: () => root,
  path: '/stack-graph',
  component: lazyRouteComponent(() => import('./stack/graph-page'), 'StackGraphPage'),
});
const stack = createRoute({
  getParentRoute: () => root,
  path: '/stacks/$name',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    tab?: StackTab | undefined;
    show?: string | undefined;
    view?: 'list' | undefined;
    at?: string | undefined;
    from?: string | undefined;
    to?: string | undefined;
  } =>
    given(search, {
      tab: oneOf(stackTabs, search['tab']),
      show: words(search['show']),
      view: oneOf(['list'] as const, search['view']),
      at: words(search['at']),
      from: words(search['from']),
      to: words(search['to']),
    }),
  component: lazyRouteComponent(() => import('./stack/page'), 'StackPage'),
});
const stackRun = createRoute({
  getParentRoute: () => root,
  path: '/stacks/$name/runs/$run',
  validateSearch: (
    search: Record<string, unknown>,
  ): { tab?: 'plan' | 'steps' | 'made' | undefined; view?: 'text' | undefined; step?: number | undefined } =>
    given(search, {
      tab: oneOf(['plan', 'steps', 'made'] as const, search['tab']),
      view: oneOf(['text'] as const, search['view']),
      step: typeof search['step'] === 'number' ? search['step'] : undefined,
    }),
  component: lazyRouteComponent(() => import('./stack/run'), 'RunPage'),
});
const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  component: lazyRouteComponent(() => import('./stack/approvals'), 'ApprovalsPage'),
});

const selfService = createRoute({
  getParentRoute: () => root,
  path: '/self-service',
  validateSearch: (search: Record<string, unknown>): { q?: string | undefined; role?: PrRole | undefined } =>
    given(search, { q: words(search['q']), role: words(search['role']) as PrRole | undefined }),
  component: lazyRouteComponent(() => import('./prautomation/catalogue'), 'CataloguePage'),
});
const automation = createRoute({
  getParentRoute: () => root,
  path: '/self-service/$name',
  component: lazyRouteComponent(() => import('./prautomation/wizard'), 'WizardPage'),
});
const upgradeAll = createRoute({
  getParentRoute: () => root,
  path: '/self-service/$name/upgrade',
  component: lazyRouteComponent(() => import('./prinstance/upgrade-all'), 'UpgradeAllPage'),
});
const upgrade = createRoute({
  getParentRoute: () => root,
  path: '/upgrades/$id',
  component: lazyRouteComponent(() => import('./prinstance/upgrade'), 'UpgradePage'),
});

const auditFilters = ['actor', 'action', 'target', 'noun', 'request', 'since', 'until'] as const;
const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  validateSearch: (search: Record<string, unknown>): Partial<Record<(typeof auditFilters)[number], string | undefined>> =>
    given(search, Object.fromEntries(auditFilters.map((filter) => [filter, words(search[filter])]))),
  component: lazyRouteComponent(() => import('./audit/page'), 'AuditPage'),
});

interface SettingsSearch {
  q?: string | undefined;
  state?: string | undefined;
  project?: string | undefined;
  role?: string | undefined;
  repository?: string | undefined;
  automation?: string | undefined;
}
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings/$noun',
  validateSearch: (search: Record<string, unknown>): SettingsSearch =>
    given(search, {
      q: words(search['q']),
      state: words(search['state']),
      project: words(search['project']),
      role: words(search['role']),
      repository: words(search['repository']),
      automation: words(search['automation']),
    }),
  component: lazyRouteComponent(pages.settings, 'SettingsPage'),
});
const setting = createRoute({ getParentRoute: () => settings, path: '$id' });

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    services,
    service,
    clusters,
    cluster,
    connect,
    kubernetes,
    kubernetesObject,
    kubernetesLogs,
    kubernetesKinds,
    kubernetesAccess,
    stacks,
    newStack,
    stackGraph,
    stack,
    stackRun,
    approvals,
    selfService,
    automation,
    upgradeAll,
    upgrade,
    audit,
    settings.addChildren([setting]),
  ]),
  defaultPreload: 'intent',
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
