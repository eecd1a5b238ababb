import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { useNow } from '../lib/now';
import { short, took } from '../lib/text';
import { paths } from '../paths';
import { Empty, Facts, Panel, Waiting } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { serviceStatuses, State } from '../parts/state';
import { Ago, Name, RouteLink } from '../parts/text';
import { failuresQuery, healthQuery, type Failure, type HealthChange } from './health-queries';
import classes from './health.module.css';

/** What a service's status was, and for how long: the newest first. */
export function HealthTimeline({ cluster, name }: { cluster: string; name: string }) {
  const query = useQuery(healthQuery(cluster, name));
  const service = held(query);
  const changes = (service?.healthChanges?.edges ?? []).flatMap((edge) => edge?.node ?? []);
  return (
    <Panel title="What its status was">
      {query.isPending && <Waiting lines={4} />}
      <Shown query={query} what="what the status was">
        {service != null && (
          <>
            <Facts
              facts={[
                ['Fails since', service.failingSince != null && <Ago at={service.failingSince} />],
                ['Last recovered', service.lastRecoveredAt != null && <Ago at={service.lastRecoveredAt} />],
              ]}
            />
            {changes.length === 0 && (
              <Empty title="Its status did not change lately">A change is kept for 30 days, and the last 100 of a service.</Empty>
            )}
            <ul className={classes['changes']}>
              {changes.map((change, at) => (
                <Change key={change.id} change={change} until={changes[at - 1]?.at} />
              ))}
            </ul>
          </>
        )}
      </Shown>
    </Panel>
  );
}

function Change({ change, until }: { change: HealthChange; until: string | undefined }) {
  const { at, to, sha } = change;
  const now = useNow();
  const lasted = took(at, until ?? new Date(now).toISOString());
  return (
    <Line at={at} to={to}>
      <Reason of={change} />
      <Text component="span" size="xs" c="dimmed">
        {' '}
        {until === undefined ? `for ${lasted} now` : `for ${lasted}`}
        {sha != null && (
          <>
            , at <code>{short(sha)}</code>
          </>
        )}
      </Text>
    </Line>
  );
}

/** When services of the fleet began to fail, and when they were healthy again. */
export function Failures() {
  const query = useQuery(failuresQuery(15));
  const changes = held(query) ?? [];
  return (
    <Panel title="Failures and recoveries">
      {query.isPending && <Waiting lines={3} />}
      <Shown query={query} what="failures and recoveries">
        {query.data?.length === 0 && (
          <Empty title="Nothing failed lately">
            When a service stops being healthy, it appears here with the reason, and again with how long it took when it recovers.
          </Empty>
        )}
        {changes.length > 0 && (
          <ul className={classes['changes']}>
            {changes.map((change) => (
              <FailureLine key={change.id} change={change} />
            ))}
          </ul>
        )}
      </Shown>
    </Panel>
  );
}

function FailureLine({ change }: { change: Failure }) {
  const { at, to, service } = change;
  return (
    <Line at={at} to={to}>
      {service?.cluster ? (
        <RouteLink to={paths.service(service.cluster.handle ?? '', service.name)} strong>
          <Name of={`${service.cluster.handle ?? ''}/${service.name}`} />
        </RouteLink>
      ) : (
        service && <Name of={service.name} />
      )}{' '}
      <Reason of={change} />
    </Line>
  );
}

/** Why a status is as it is; of one that ends a failure, how long that took. */
function Reason({ of: { at, to, reason, failingSince } }: { of: Pick<HealthChange, 'at' | 'to' | 'reason' | 'failingSince'> }) {
  if (to === 'HEALTHY') return failingSince == null ? null : `recovered after ${took(failingSince, at)}`;
  return reason == null ? null : <Name of={reason} />;
}

function Line({ at, to, children }: { at: string; to: HealthChange['to']; children: ReactNode }) {
  return (
    <li>
      <Text size="xs" c="dimmed" component="span">
        <Ago at={at} />
      </Text>
      <State look={serviceStatuses[to]} />
      <span>{children}</span>
    </li>
  );
}
