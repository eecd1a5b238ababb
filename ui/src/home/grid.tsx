import { Group, SegmentedControl, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useMemo } from 'react';

import { byVersion, fleetQuery, minor, MOST, type FleetCluster } from '../cluster/fleet';
import { visible } from '../lib/text';
import { Empty, Panel, Waiting } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { clusterState, State } from '../parts/state';
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

/** With more clusters than this, names do not fit: each is a square, and its name is told when one points at it. */
const NAMED = 400;
const order = ['bad', 'warn', 'none', 'busy', 'good'];

function groups(clusters: FleetCluster[], by: Kind): [name: string, clusters: FleetCluster[]][] {
  const all = new Map<string, FleetCluster[]>();
  const add = (name: string, cluster: FleetCluster) => {
    const known = all.get(name);
    if (known) known.push(cluster);
    else all.set(name, [cluster]);
  };
  for (const cluster of clusters) {
    if (by === 'state') add(clusterState(cluster).word, cluster);
    else if (by === 'version') add(minor(cluster.currentVersion) ?? 'not known', cluster);
    else if (by === 'distribution') add(cluster.distro?.toLowerCase() ?? 'not known', cluster);
    else if (by === 'project') add(cluster.project?.name ?? 'not known', cluster);
    else {
      const tags = (cluster.tags ?? []).flatMap((tag) => (tag ? [`${tag.name}=${tag.value}`] : []));
      for (const tag of tags.length === 0 ? ['no tag'] : tags) add(tag, cluster);
    }
  }
  const rank = ([first]: FleetCluster[]) => (first ? order.indexOf(clusterState(first).tone) : 9);
  return [...all].sort(([a, x], [b, y]) =>
    by === 'state' ? rank(x) - rank(y) : by === 'version' ? byVersion(a, b) : y.length - x.length || a.localeCompare(b),
  );
}

/** All clusters at a glance, by what one asks for. */
export function ClusterGrid() {
  const { by = 'state' } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(fleetQuery);
  const clusters = held(query)?.clusters;
  const shown = useMemo(() => groups(clusters ?? [], by), [clusters, by]);
  const isSmall = (clusters?.length ?? 0) > NAMED;
  return (
    <Panel
      title="Clusters"
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
            {query.data?.isWhole === false && `the first ${MOST.toLocaleString('en')}; `}
            <RouteLink to={paths.clusters()}>All clusters</RouteLink>
          </Text>
        </Group>
      }
    >
      {query.isPending && <Waiting lines={3} />}
      <Shown query={query} what="clusters">
        {clusters?.length === 0 && (
          <Empty title="No clusters yet">
            A cluster joins when its agent connects to this console: one command.{' '}
            <RouteLink to={paths.connect()}>Connect a cluster</RouteLink>
          </Empty>
        )}
        {shown.map(([name, members]) => {
          const [first] = members;
          if (!first) return null;
          return (
            <div key={name} className={classes['group']}>
              <Group gap="sm">
                {by === 'state' ? (
                  <State look={clusterState(first)} />
                ) : by === 'tag' && name !== 'no tag' ? (
                  <Text size="sm">
                    <RouteLink to={paths.clusters()} search={{ tag: name }}>
                      <Name of={name} />
                    </RouteLink>
                  </Text>
                ) : (
                  <Text size="sm">
                    {by === 'version' && 'Kubernetes '}
                    <Name of={name} />
                  </Text>
                )}
                <Text size="sm" c="dimmed">
                  {members.length.toLocaleString('en')}
                </Text>
              </Group>
              <ul className={isSmall ? classes['squares'] : classes['grid']}>
                {members.map((cluster) => (
                  <Cell key={cluster.id} cluster={cluster} isSmall={isSmall} />
                ))}
              </ul>
            </div>
          );
        })}
      </Shown>
    </Panel>
  );
}

function Cell({ cluster, isSmall }: { cluster: FleetCluster; isSmall: boolean }) {
  const look = clusterState(cluster);
  const name = visible(cluster.handle ?? '');
  const told = `${name}, ${look.word}, Kubernetes ${cluster.currentVersion ?? 'unknown'}`;
  return (
    <li>
      <Link
        to={paths.cluster(cluster.handle ?? '')}
        preload={false}
        className={(isSmall ? classes['square'] : classes['cell']) ?? ''}
        data-tone={look.tone}
        title={told}
        {...(isSmall && { 'aria-label': told })}
      >
        {!isSmall && <bdi>{name}</bdi>}
      </Link>
    </li>
  );
}
