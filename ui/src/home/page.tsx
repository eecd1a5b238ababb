import { SimpleGrid, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { counted } from '../lib/text';
import { paths } from '../paths';
import { byVersion, fleetQuery, minor } from '../cluster/fleet';
import { globalsQuery } from '../globalservice/queries';
import { Empty, Facts, Fault, Page, Panel } from '../parts/page';
import { held, Shown, Stale } from '../parts/shown';
import { serviceStatuses, State, statusOrder } from '../parts/state';
import { Table } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { ClusterGrid } from './grid';
import { servicesQuery, statusesQuery } from '../service/queries';
import { serviceColumns } from '../service/table';
import classes from './page.module.css';

/** The whole fleet at a glance: what is broken comes first, with its reason. */
export function HomePage() {
  return (
    <Page title="Fleet">
      <Counts />
      <Attention status="FAILED" title="Failing services" none="No service fails" />
      <Attention status="PAUSED" title="Services that need approval" none="No service needs approval" />
      <Rollouts />
      <OutOfDate />
      <ClusterGrid />
    </Page>
  );
}

function Counts() {
  const counts = useQuery(statusesQuery({}));
  return (
    <Shown query={counts} what="the counts of services">
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
    </Shown>
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
      <Shown query={list} what="these services">
        <Table
          isShort
          hasHead={rows.length > 0}
          label={title}
          rows={rows}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          empty={<Empty title={none} />}
        />
      </Shown>
    </Panel>
  );
}

/** Rollouts that halted or are under way. */
function Rollouts() {
  const list = useInfiniteQuery(globalsQuery);
  const rows = (held(list) ?? []).filter(({ rollout, error }) => error != null || (rollout && rollout.state !== 'COMPLETE'));
  if (list.isError && rows.length === 0) return <Fault error={list.error} what="rollouts" retry={() => void list.refetch()} />;
  if (rows.length === 0) return null;
  return (
    <Panel title="Rollouts that are not complete">
      <Stale query={list} what="rollouts" />
      <Facts
        facts={rows.map((one) => [
          one.name,
          <span key={one.id}>
            <RouteLink to={paths.setting('global-services', one.name)}>
              {one.rollout
                ? `${one.rollout.state.toLowerCase()}, cohort ${one.rollout.cohort ?? 'the last'}`
                : 'cannot be spread'}
            </RouteLink>
            : {one.instanceCounts?.newest ?? 0} of {one.instanceCounts?.all ?? 0} clusters have the newest.{' '}
            {one.error != null && <Name of={one.error} />}
          </span>,
        ])}
      />
    </Panel>
  );
}

/** What is behind: agents of earlier builds, Kubernetes that is two minor versions behind the newest here, repositories that fail. */
function OutOfDate() {
  const fleet = useQuery(fleetQuery);
  const clusters = held(fleet)?.clusters ?? [];
  const minors = [...new Set(clusters.flatMap(({ currentVersion }) => minor(currentVersion) ?? []))].sort(byVersion);
  const [newest] = minors;
  const old = minors.filter((version) => {
    const [major = 0, small = 0] = version.split('.').map(Number);
    const [top = 0, high = 0] = (newest ?? '').split('.').map(Number);
    return major < top || high - small >= 2;
  });
  const agents = clusters.filter(({ agentOutdated }) => agentOutdated === true);
  const behind = clusters.filter(({ currentVersion }) => old.includes(minor(currentVersion) ?? ''));
  if (agents.length === 0 && behind.length === 0) return null;
  const names = (some: typeof clusters) =>
    some.slice(0, 8).map((cluster, at) => (
      <span key={cluster.id}>
        {at > 0 && ', '}
        <RouteLink to={paths.cluster(cluster.handle ?? '')}>
          <Name of={cluster.handle ?? ''} />
        </RouteLink>
      </span>
    ));
  return (
    <Panel title="Out of date">
      <Facts
        facts={[
          [
            'Agents',
            agents.length > 0 && (
              <>
                {counted(agents.length, 'agent')} of an earlier build than this console: {names(agents)}
                {agents.length > 8 && ' and others'}
              </>
            ),
          ],
          [
            'Kubernetes',
            behind.length > 0 && (
              <>
                {counted(behind.length, 'cluster')} two minor versions or more behind {newest}, the newest here: {names(behind)}
                {behind.length > 8 && (
                  <>
                    {' '}
                    and{' '}
                    <RouteLink to={paths.home()} search={{ by: 'version' }}>
                      others
                    </RouteLink>
                  </>
                )}
              </>
            ),
          ],
        ]}
      />
    </Panel>
  );
}
