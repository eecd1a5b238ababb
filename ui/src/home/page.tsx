import { Group, SimpleGrid, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { visible } from '../lib/text';
import { paths } from '../paths';
import { clustersQuery } from '../cluster/queries';
import { Empty, Fault, Page, Panel, Waiting } from '../parts/page';
import { clusterState, serviceStatuses, State, statusOrder } from '../parts/state';
import { Table } from '../parts/table';
import { RouteLink } from '../parts/text';
import { servicesQuery, statusesQuery } from '../service/queries';
import { serviceColumns } from '../service/table';
import classes from './page.module.css';

/** How many clusters the grid shows: a page of the API. */
const SHOWN = 500;

/** The whole fleet at a glance: what is broken comes first, with its reason. */
export function HomePage() {
  return (
    <Page title="Fleet">
      <Counts />
      <Attention status="FAILED" title="Failing services" none="No service fails" />
      <Attention status="PAUSED" title="Waiting for a person" none="Nothing waits for a person" />
      <ClusterGrid />
    </Page>
  );
}

function Counts() {
  const counts = useQuery(statusesQuery({}));
  if (counts.isError) return <Fault error={counts.error} what="the counts of services" retry={() => void counts.refetch()} />;
  return (
    <SimpleGrid cols={{ base: 2, sm: 5 }} spacing="sm">
      {statusOrder.map((status) => (
        <Link key={status} to={paths.services()} search={{ status }} className={classes['count'] ?? ''}>
          <State look={serviceStatuses[status]} />
          <Text size="xl" fw={600} component="span">
            {counts.data?.get(status)?.toLocaleString('en') ?? '–'}
          </Text>
        </Link>
      ))}
    </SimpleGrid>
  );
}

function Attention({ status, title, none }: { status: 'FAILED' | 'PAUSED'; title: string; none: string }) {
  const list = useInfiniteQuery(servicesQuery({ status }, 20));
  const rows = list.data ?? [];
  return (
    <Panel
      title={title}
      aside={
        rows.length > 0 && (
          <Text size="sm" component="span">
            <RouteLink to={paths.services()} search={{ status }}>
              All of them
            </RouteLink>
          </Text>
        )
      }
    >
      {list.isError ? (
        <Fault error={list.error} what="these services" retry={() => void list.refetch()} />
      ) : (
        <Table
          isShort
          label={title}
          rows={rows}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          empty={<Empty title={none} />}
        />
      )}
    </Panel>
  );
}

function ClusterGrid() {
  const list = useInfiniteQuery(clustersQuery({}, SHOWN));
  const clusters = list.data ?? [];
  const states = new Map<string, typeof clusters>();
  for (const cluster of clusters) {
    const { word } = clusterState(cluster);
    states.set(word, [...(states.get(word) ?? []), cluster]);
  }
  const order = ['bad', 'warn', 'none', 'busy', 'good'];
  const groups = [...states.values()].sort((a, b) => rank(a) - rank(b));
  function rank([first]: typeof clusters) {
    return first ? order.indexOf(clusterState(first).tone) : 9;
  }
  return (
    <Panel
      title="Clusters by state"
      aside={
        <Text size="sm" c="dimmed">
          {list.hasNextPage ? `the first ${SHOWN.toLocaleString('en')}; ` : ''}
          <RouteLink to={paths.clusters()}>All clusters</RouteLink>
        </Text>
      }
    >
      {list.isPending && <Waiting lines={3} />}
      {list.isError && <Fault error={list.error} what="clusters" retry={() => void list.refetch()} />}
      {list.isSuccess && clusters.length === 0 && (
        <Empty title="No clusters yet">
          <RouteLink to={paths.clusters()}>How to connect one</RouteLink>
        </Empty>
      )}
      {groups.map((group) => {
        const [first] = group;
        if (!first) return null;
        const look = clusterState(first);
        return (
          <div key={look.word} className={classes['group']}>
            <Group gap="sm">
              <State look={look} />
              <Text size="sm" c="dimmed">
                {group.length.toLocaleString('en')}
              </Text>
            </Group>
            <ul className={classes['grid']}>
              {group.map((cluster) => (
                <li key={cluster.id}>
                  <Link
                    to={paths.cluster(cluster.handle ?? '')}
                    className={classes['cell'] ?? ''}
                    data-tone={look.tone}
                    title={`${visible(cluster.handle ?? '')}, ${look.word}, Kubernetes ${cluster.currentVersion ?? 'unknown'}`}
                  >
                    <bdi>{visible(cluster.handle ?? '')}</bdi>
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </Panel>
  );
}
