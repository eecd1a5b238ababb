import { SimpleGrid, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

import { counted, short } from '../lib/text';
import { paths } from '../paths';
import { behind } from '../cluster/fleet';
import { clusterFacetsQuery } from '../cluster/queries';
import { globalsQuery } from '../globalservice/queries';
import { rollouts } from '../globalservice/states';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Shown, Stale } from '../parts/shown';
import { componentStates, serviceStatuses, State, statusOrder } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { ClusterGrid } from './grid';
import { Failures } from '../service/health';
import { ON_HOME, recentQuery, servicesQuery, statusesQuery, type ServiceRow } from '../service/queries';
import { failingColumns, serviceColumns } from '../service/table';
import { Summary } from '../stack/summary';
import { waitingQuery } from '../stack/waiting';
import classes from './page.module.css';

/** The whole fleet at a glance: what is broken comes first, with its reason. */
export function HomePage() {
  // Without clusters, connecting one is what there is to do.
  const isNew = held(useQuery(clusterFacetsQuery({})))?.states?.every(({ count }) => count === 0) === true;
  return (
    <Page title="Fleet">
      {isNew && <ClusterGrid />}
      <Counts />
      <Attention status="FAILED" title="Failing services" none="No service fails" columns={failingColumns}>
        A service that cannot be applied, or whose objects are not healthy, appears here with the reason.
      </Attention>
      <Attention status="PAUSED" title="Services that need approval" none="No service needs approval" columns={serviceColumns}>
        A change that deletes more objects than a service’s limit waits here until somebody approves it.
      </Attention>
      <Plans />
      <Rollouts />
      <OutOfDate />
      <Failures />
      <Lately />
      {!isNew && <ClusterGrid />}
    </Page>
  );
}

function Counts() {
  const counts = useQuery(statusesQuery({}));
  return (
    <Shown query={counts} what="the counts of services">
      <SimpleGrid cols={{ base: 2, sm: 5 }} spacing="sm" data-tour="counts">
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

function Attention({
  status,
  title,
  none,
  columns,
  children,
}: {
  status: 'FAILED' | 'PAUSED';
  title: string;
  none: string;
  columns: Columns<ServiceRow>;
  /** What would be here, where there is none. */
  children: ReactNode;
}) {
  const list = useInfiniteQuery(servicesQuery({ status }, ON_HOME));
  const count = held(useQuery(statusesQuery({})))?.get(status) ?? 0;
  const rows = list.data ?? [];
  return (
    <Panel
      title={title}
      {...(status === 'FAILED' && { tour: 'failing' })}
      aside={
        rows.length > 0 && (
          <Text size="sm" component="span">
            <RouteLink to={paths.services()} search={{ status }}>
              {count > rows.length ? `All ${count.toLocaleString('en')}` : 'All of them'}
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
          columns={columns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          empty={<Empty title={none}>{children}</Empty>}
        />
      </Shown>
    </Panel>
  );
}

/** Plans of stacks that wait for somebody's word. */
function Plans() {
  const list = useInfiniteQuery(waitingQuery(ON_HOME));
  const rows = held(list) ?? [];
  if (list.isError && rows.length === 0)
    return <Fault error={list.error} what="plans that wait for approval" retry={() => void list.refetch()} />;
  if (rows.length === 0) return null;
  return (
    <Panel
      title="Stacks whose plan needs approval"
      aside={
        <Text size="sm" component="span">
          <RouteLink to={paths.approvals()}>All of them</RouteLink>
        </Text>
      }
    >
      <Stale query={list} what="plans that wait for approval" />
      <Facts
        facts={rows.map((run) => [
          run.stack?.name ?? '',
          <div key={run.id} className={classes['plan']}>
            <span>
              <RouteLink to={paths.stackRun(run.stack?.name ?? '', run.id)}>Run #{run.number}</RouteLink>{' '}
              {run.plan && <Summary plan={run.plan} />}
            </span>
            <Text size="xs" c="dimmed" component="span">
              <Ago at={run.plan?.at ?? run.createdAt} />
            </Text>
          </div>,
          'wide',
        ])}
      />
    </Panel>
  );
}

/** The last things that changed what a service should be, and whether they became healthy. */
function Lately() {
  const query = useQuery(recentQuery(15));
  const rows = held(query) ?? [];
  return (
    <Panel title="Latest changes">
      {query.isPending && <Waiting lines={3} />}
      <Shown query={query} what="the latest changes">
        {query.data?.length === 0 && (
          <Empty title="Nothing changed yet">
            Each commit, version or value that a service takes up appears here, with who changed it and whether it became healthy.
          </Empty>
        )}
        <ul className={classes['changes']} hidden={rows.length === 0}>
          {rows.map(({ id, sha, message, by, insertedAt, healthyAt, service }) => (
            <li key={id}>
              <Text size="xs" c="dimmed" component="span">
                <Ago at={insertedAt} />
              </Text>
              <span>
                {service?.cluster ? (
                  <RouteLink to={paths.service(service.cluster.handle ?? '', service.name)} strong>
                    <Name of={`${service.cluster.handle ?? ''}/${service.name}`} />
                  </RouteLink>
                ) : (
                  service && <Name of={service.name} />
                )}{' '}
                {sha != null && (
                  <Text component="span" ff="monospace" size="xs" c="dimmed">
                    {short(sha)}
                  </Text>
                )}{' '}
                {message != null && <Name of={message} />}
                {by != null && (
                  <Text component="span" size="xs" c="dimmed">
                    {' '}
                    by <Name of={by} />
                  </Text>
                )}
              </span>
              <Text size="xs" component="span">
                {healthyAt != null ? (
                  <>
                    healthy <Ago at={healthyAt} />
                  </>
                ) : service?.revision?.id === id ? (
                  'not healthy yet'
                ) : (
                  'was not healthy'
                )}
              </Text>
            </li>
          ))}
        </ul>
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
            <State
              look={
                one.rollout && one.error == null ? rollouts[one.rollout.state] : { ...componentStates.FAILED, word: 'Failed' }
              }
            />{' '}
            {one.rollout?.cohort != null && (
              <>
                in cohort <Name of={one.rollout.cohort} />,{' '}
              </>
            )}
            <RouteLink to={paths.setting('global-services', one.name)}>
              {one.instanceCounts?.newest ?? 0} of {counted(one.instanceCounts?.all ?? 0, 'cluster')}
            </RouteLink>{' '}
            up to date
            {one.error != null && (
              <>
                : <Name of={one.error} />
              </>
            )}
          </span>,
        ])}
      />
    </Panel>
  );
}

/** What is behind: agents of earlier builds, Kubernetes that is two minor versions behind the newest here. */
function OutOfDate() {
  const facets = held(useQuery(clusterFacetsQuery({})));
  const agents = facets?.states?.find(({ state }) => state === 'OUTDATED')?.count ?? 0;
  const versions = new Map(
    facets?.versions?.flatMap(({ version, count }) => (version == null ? [] : [[version, count] as const])),
  );
  const late = behind([...versions.keys()]);
  const old = late?.old ?? [];
  if (agents === 0 && old.length === 0) return null;
  return (
    <Panel title="Out of date">
      <Facts
        facts={[
          [
            'Agents',
            agents > 0 && (
              <RouteLink to={paths.clusters()} search={{ state: 'OUTDATED' }}>
                {counted(agents, 'agent')} of an earlier build than this console
              </RouteLink>
            ),
          ],
          [
            'Kubernetes',
            old.length > 0 && (
              <>
                Two minor versions or more behind {late?.newest}, the newest here:{' '}
                {old.map((version, at) => (
                  <span key={version}>
                    {at > 0 && ', '}
                    <RouteLink to={paths.clusters()} search={{ version: `v${version}` }}>
                      {counted(versions.get(version) ?? 0, 'cluster')} with {version}
                    </RouteLink>
                  </span>
                ))}
              </>
            ),
          ],
        ]}
      />
    </Panel>
  );
}
