import { Group, SegmentedControl, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { distribution, minor } from '../cluster/fleet';
import { clusterFacetsQuery, clustersQuery, type ClusterFacets, type ClusterFilter, type ClusterRow } from '../cluster/queries';
import { visible } from '../lib/text';
import { Empty, Panel, Waiting } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { clusterState, clusterStates, State, stateOrder } from '../parts/state';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import classes from './page.module.css';

const route = getRouteApi('/');
const kinds = ['state', 'version', 'distribution', 'project', 'tag'] as const;
type Kind = (typeof kinds)[number];
const words: Record<Kind, string> = {
  state: 'State',
  version: 'Version',
  distribution: 'Distribution',
  project: 'Project',
  tag: 'Tag',
};

/** A fleet of at most so many is drawn cluster by cluster, and read in one page. A larger one is counted, and only clusters that need somebody are drawn. */
const SMALL = 400;
/** So many clusters that need somebody, of each state. */
const DRAWN = 100;

interface Of {
  key: string;
  title: ReactNode;
  count: number;
  /** What of the list of clusters it is; absent where the list cannot be filtered so. */
  filter: ClusterFilter | undefined;
  has: (cluster: ClusterRow) => boolean;
}

function groups(facets: ClusterFacets, by: Kind): Of[] {
  const named = (name: string) => (
    <Text size="sm" component="span">
      <Name of={name} />
    </Text>
  );
  switch (by) {
    case 'state':
      return stateOrder.map((state) => ({
        key: state,
        title: <State look={clusterStates[state]} />,
        count: facets.states?.find((one) => one.state === state)?.count ?? 0,
        filter: { state },
        has: (cluster) => cluster.state === state,
      }));
    case 'version':
      return (facets.versions ?? []).map(({ version, count }) => ({
        key: version ?? '',
        title: named(version == null ? 'not known' : `Kubernetes ${version}`),
        count,
        filter: version == null ? undefined : { version: `v${version}` },
        has: (cluster) => (minor(cluster.currentVersion) ?? null) === (version ?? null),
      }));
    case 'distribution':
      return (facets.distros ?? []).map(({ distro, count }) => ({
        key: distro ?? '',
        title: named(distro == null ? 'not known' : distribution(distro)),
        count,
        filter: distro == null ? undefined : { distro },
        has: (cluster) => (cluster.distro ?? null) === (distro ?? null),
      }));
    case 'project':
      return (facets.projects ?? []).map(({ project, count }, at) => ({
        key: project?.id ?? `${at}`,
        title: named(project?.name ?? 'a project that you may not see'),
        count,
        filter: project ? { project: project.id } : undefined,
        has: (cluster) => project != null && cluster.project?.id === project.id,
      }));
    case 'tag':
      return (facets.tags ?? []).map(({ tag: { name, value }, count }) => ({
        key: `${name}=${value}`,
        title: named(`${name}=${value}`),
        count,
        filter: { tag: `${name}=${value}` },
        has: (cluster) => (cluster.tags ?? []).some((tag) => tag?.name === name && tag.value === value),
      }));
  }
}

const toneOf = ({ filter }: Of, by: Kind) =>
  by === 'state' && filter?.state !== undefined ? clusterStates[filter.state].tone : 'busy';
const needsSomebody = ({ filter }: Of) =>
  filter?.state !== undefined && ['bad', 'warn'].includes(clusterStates[filter.state].tone);

/** All clusters at a glance, by what one asks for. */
export function ClusterGrid() {
  const { by = 'state' } = route.useSearch();
  const navigate = route.useNavigate();
  const isWhole = by === 'project' || by === 'tag';
  const query = useQuery(clusterFacetsQuery({}, isWhole));
  const facets = held(query);
  const total = facets?.states?.reduce((sum, { count }) => sum + count, 0);
  const isSmall = total !== undefined && total <= SMALL;
  const list = useInfiniteQuery({ ...clustersQuery({}, SMALL), enabled: isSmall });
  const rows = isSmall ? held(list) : undefined;
  return (
    <Panel
      title="Clusters"
      tour="clusters"
      aside={
        <Group gap="sm">
          <SegmentedControl
            size="xs"
            aria-label="Grouped by"
            value={by}
            onChange={(next) => void navigate({ search: { by: next === 'state' ? undefined : (next as Kind) }, replace: true })}
            data={kinds.map((value) => ({ value, label: words[value] }))}
          />
          <Text size="sm" c="dimmed">
            <RouteLink to={paths.clusters()}>All clusters</RouteLink>
          </Text>
        </Group>
      }
    >
      {query.isPending && <Waiting lines={3} />}
      <Shown query={query} what="the counts of clusters">
        {total === 0 && (
          <Empty title="No clusters yet">
            A cluster joins when its agent connects to this console: one command.{' '}
            <RouteLink to={paths.connect()}>Connect a cluster</RouteLink>
          </Empty>
        )}
        {total !== undefined &&
          facets &&
          groups(facets, by)
            .filter(({ count }) => count > 0)
            .map((group) => (
              <div key={group.key} className={classes['group']}>
                <Group gap="sm">
                  {group.title}
                  <Text size="sm" c="dimmed">
                    {group.filter ? (
                      <RouteLink to={paths.clusters()} search={{ ...group.filter }}>
                        {group.count.toLocaleString('en')}
                      </RouteLink>
                    ) : (
                      group.count.toLocaleString('en')
                    )}
                  </Text>
                </Group>
                {isSmall ? (
                  <Cells clusters={(rows ?? []).filter((cluster) => group.has(cluster))} />
                ) : (
                  <>
                    <div className={classes['bar']} aria-hidden>
                      <div style={{ width: `${(100 * group.count) / total}%` }} data-tone={toneOf(group, by)} />
                    </div>
                    {by === 'state' && needsSomebody(group) && <Some filter={group.filter ?? {}} />}
                  </>
                )}
              </div>
            ))}
      </Shown>
    </Panel>
  );
}

/** The first of those that need somebody. */
function Some({ filter }: { filter: ClusterFilter }) {
  const list = useInfiniteQuery(clustersQuery(filter, DRAWN, 'handle'));
  return (
    <Shown query={list} what="these clusters">
      <Cells clusters={held(list) ?? []} />
    </Shown>
  );
}

function Cells({ clusters }: { clusters: ClusterRow[] }) {
  return (
    <ul className={classes['grid']}>
      {clusters.map((cluster) => (
        <Cell key={cluster.id} cluster={cluster} />
      ))}
    </ul>
  );
}

function Cell({ cluster }: { cluster: ClusterRow }) {
  const look = clusterState(cluster);
  const name = visible(cluster.handle ?? '');
  return (
    <li>
      <Link
        to={paths.cluster(cluster.handle ?? '')}
        preload={false}
        className={classes['cell'] ?? ''}
        data-tone={look.tone}
        title={`${name}, ${look.word}, Kubernetes ${cluster.currentVersion ?? 'unknown'}`}
      >
        <bdi>{name}</bdi>
      </Link>
    </li>
  );
}
