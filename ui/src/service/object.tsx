import { Drawer, Group, Select, Stack, Tabs, Text } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';

import { eventsOf, eventTime, liveObject, logsOf, type KubeRef } from '../lib/kubernetes';
import { visible } from '../lib/text';
import { document } from '../lib/yaml';
import { Command, Copy } from '../parts/action';
import { Empty, Facts, Fault, Waiting } from '../parts/page';
import { componentStates, State, unknown } from '../parts/state';
import { Ago, Name } from '../parts/text';
import { Fields } from './changes';
import classes from './components.module.css';
import { changesQuery } from './history-queries';
import { previewQuery } from './queries';
import type { Item } from './tree';

const Yaml = lazy(async () => ({ default: (await import('../parts/code')).Yaml }));
const Diff = lazy(async () => ({ default: (await import('../parts/code')).Diff }));

const route = getRouteApi('/services/$cluster/$name');

function liveQuery(cluster: string, ref: KubeRef) {
  return queryOptions({
    queryKey: ['object', 'live', cluster, ref],
    queryFn: ({ signal }) => liveObject(cluster, ref, signal),
    gcTime: 0,
    refetchInterval: 15_000,
  });
}

/** One object beside the page: why it is as it is, what it should be and what it is, its events and its logs. */
export default function ObjectPanel(props: { item: Item; cluster: string; service: string; close: () => void }) {
  const { item, cluster, service, close } = props;
  const { show = 'state' } = route.useSearch();
  const navigate = route.useNavigate();
  const ref: KubeRef = {
    group: item.group,
    version: item.version,
    kind: item.kind,
    namespace: item.namespace === '' ? undefined : item.namespace,
    name: item.name,
  };
  const isOwn = item.depth === 0;
  const where = item.namespace === '' ? '' : `-n ${item.namespace} `;
  return (
    <Drawer
      opened
      onClose={close}
      position="right"
      size="xl"
      title={
        <Group gap="md">
          <Text fw={600}>
            {item.kind} <Name of={item.name} />
          </Text>
          <State look={item.state === undefined ? unknown : componentStates[item.state]} />
        </Group>
      }
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Tabs
        value={show}
        keepMounted={false}
        onChange={(next) =>
          void navigate({
            search: (old) => ({ ...old, show: next === 'state' ? undefined : (next as typeof show) }),
            replace: true,
          })
        }
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="state">State</Tabs.Tab>
          <Tabs.Tab value="live">Live</Tabs.Tab>
          {isOwn && <Tabs.Tab value="rendered">Rendered</Tabs.Tab>}
          {isOwn && <Tabs.Tab value="diff">Rendered and live</Tabs.Tab>}
          <Tabs.Tab value="events">Events</Tabs.Tab>
          {item.kind === 'Pod' && <Tabs.Tab value="logs">Logs</Tabs.Tab>}
        </Tabs.List>
        <Suspense fallback={<Waiting lines={10} />}>
          <Tabs.Panel value="state">
            <Stack gap="md">
              {item.message !== '' && (
                <Text size="sm" role={item.state === 'FAILED' ? 'alert' : undefined}>
                  <Name of={item.message} />
                </Text>
              )}
              <Facts
                facts={[
                  ['Namespace', item.namespace === '' ? 'of the whole cluster' : <Name key="ns" of={item.namespace} />],
                  ['API', item.group === '' ? item.version : `${item.group}/${item.version}`],
                  ['Applied', item.synced === undefined ? undefined : item.synced ? 'as the revision says' : 'not yet'],
                ]}
              />
              {isOwn && <Differences item={item} cluster={cluster} service={service} />}
              <Command
                line={`kubectl --context plural-${cluster} ${where}describe ${item.kind.toLowerCase()}${item.group === '' ? '' : `.${item.group}`} ${item.name}`}
              />
            </Stack>
          </Tabs.Panel>
          <Tabs.Panel value="live">
            <Live cluster={cluster} item={ref} />
          </Tabs.Panel>
          <Tabs.Panel value="rendered">
            <Rendered cluster={cluster} service={service} item={item} />
          </Tabs.Panel>
          <Tabs.Panel value="diff">
            <Compared cluster={cluster} service={service} item={item} live={ref} />
          </Tabs.Panel>
          <Tabs.Panel value="events">
            <Events cluster={cluster} item={ref} />
          </Tabs.Panel>
          <Tabs.Panel value="logs">
            <Logs cluster={cluster} item={ref} />
          </Tabs.Panel>
        </Suspense>
      </Tabs>
    </Drawer>
  );
}

/** What the last plan and foreign changes say about it, field by field. */
function Differences({ item, cluster, service }: { item: Item; cluster: string; service: string }) {
  const query = useQuery(changesQuery(cluster, service));
  if (!query.data) return null;
  const isIt = (object: { kind: string; name: string; namespace?: string | null }) =>
    object.kind === item.kind && object.name === item.name && (object.namespace ?? '') === item.namespace;
  const drift = (query.data.drift?.edges ?? []).flatMap((edge) => edge?.node ?? []).filter(({ object }) => isIt(object));
  const plans = (query.data.plans?.edges ?? []).flatMap((edge) => edge?.node ?? []);
  const [planned] = plans
    .reverse()
    .flatMap((plan) => (plan.objects ?? []).flatMap((one) => (one && isIt(one.object) ? [{ plan, one }] : [])));
  const last = drift.at(-1);
  return (
    <>
      {last && (
        <div>
          <Text size="sm" fw={600}>
            Changed by others <Ago at={last.updatedAt} />
          </Text>
          <Fields fields={last.fields} />
        </div>
      )}
      {planned && (
        <div>
          <Text size="sm" fw={600}>
            What the last sync or plan changed <Ago at={planned.plan.insertedAt} />
          </Text>
          <Fields fields={planned.one.fields} />
        </div>
      )}
    </>
  );
}

function Live({ cluster, item }: { cluster: string; item: KubeRef }) {
  const query = useQuery(liveQuery(cluster, item));
  if (query.isPending) return <Waiting lines={10} />;
  if (query.isError) return <Fault error={query.error} what="the live object" retry={() => void query.refetch()} />;
  const text = document(query.data);
  return (
    <>
      <Told at={query.dataUpdatedAt} text={text} />
      <Yaml text={text} label="The live object" />
    </>
  );
}

function Told({ at, text }: { at: number; text: string }) {
  return (
    <Group justify="space-between" pb="xs">
      <Text size="xs" c="dimmed">
        As of <Ago at={new Date(at).toISOString()} />, asked with your own rights. Values of Secrets and field managers are left
        out.
      </Text>
      <Copy text={text} label="Copy the YAML" />
    </Group>
  );
}

function useRendered(cluster: string, service: string, item: Item) {
  const query = useQuery(previewQuery(cluster, service));
  const found = (query.data?.objects ?? []).find(
    (object) =>
      object?.kind === item.kind &&
      object.name === item.name &&
      (object.namespace == null || item.namespace === '' || object.namespace === item.namespace),
  );
  return { query, found };
}

function Rendered({ cluster, service, item }: { cluster: string; service: string; item: Item }) {
  const { query, found } = useRendered(cluster, service, item);
  if (query.isPending) return <Waiting lines={10} />;
  if (query.isError) return <Fault error={query.error} what="what is rendered" retry={() => void query.refetch()} />;
  if (!found) return <NotRendered errors={query.data?.errors} />;
  const text = document(found.content);
  return (
    <>
      <Group justify="space-between" pb="xs">
        <Text size="xs" c="dimmed">
          Written at <Name of={found.source} />. Values of Secrets are masked.
        </Text>
        <Copy text={text} label="Copy the YAML" />
      </Group>
      <Yaml text={text} label="The rendered object" />
    </>
  );
}

function NotRendered({ errors }: { errors: readonly ({ message: string } | null)[] | null | undefined }) {
  return (
    <Empty title="The current revision does not render it">
      {(errors ?? []).map((error, at) => error && <Name key={at} of={error.message} />)}
      {(errors ?? []).length === 0 && 'It is of an earlier revision and waits to be deleted, or only its agent can render it.'}
    </Empty>
  );
}

/** Leaves of `live` that `wanted` names too: what the cluster adds by itself is no difference. */
function alike(live: unknown, wanted: unknown): unknown {
  if (Array.isArray(wanted) && Array.isArray(live))
    return live.map((one: unknown, at) => (at < wanted.length ? alike(one, wanted[at]) : one));
  if (typeof wanted === 'object' && wanted !== null && typeof live === 'object' && live !== null) {
    const have = live as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries(wanted).flatMap(([key, one]) => (key in have ? [[key, alike(have[key], one)]] : [])),
    );
  }
  return live;
}

function Compared(props: { cluster: string; service: string; item: Item; live: KubeRef }) {
  const { cluster, service, item } = props;
  const { query, found } = useRendered(cluster, service, item);
  const live = useQuery(liveQuery(cluster, props.live));
  if (query.isPending || live.isPending) return <Waiting lines={10} />;
  if (query.isError) return <Fault error={query.error} what="what is rendered" retry={() => void query.refetch()} />;
  if (live.isError) return <Fault error={live.error} what="the live object" retry={() => void live.refetch()} />;
  if (!found) return <NotRendered errors={query.data?.errors} />;
  const before = document(found.content);
  const after = document(alike(live.data, found.content));
  return (
    <>
      <Text size="sm" pb="xs">
        {item.kind === 'Secret'
          ? 'Values of Secrets are hidden on both sides, so a difference in them does not show.'
          : before === after
            ? 'All that the revision says is so in the cluster.'
            : 'Fields that the revision names. What the cluster adds by itself is left out; the tab Live has it.'}
      </Text>
      {before === after ? (
        <Yaml text={after} label="Rendered and live" />
      ) : (
        <Diff before={before} after={after} names={['Rendered', 'Live']} />
      )}
    </>
  );
}

function Events({ cluster, item }: { cluster: string; item: KubeRef }) {
  const query = useQuery({
    queryKey: ['object', 'events', cluster, item],
    queryFn: ({ signal }) => eventsOf(cluster, item, signal),
    gcTime: 0,
    refetchInterval: 15_000,
  });
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="its events" retry={() => void query.refetch()} />;
  if (query.data.length === 0)
    return <Empty title="The cluster tells no events about it">Kubernetes keeps events for an hour.</Empty>;
  return (
    <Facts
      facts={query.data.map((event) => [
        event.reason ?? event.type ?? 'Event',
        <span key={event.metadata.name}>
          {event.type === 'Warning' && <strong>Warning: </strong>}
          <Name of={event.message ?? ''} />{' '}
          <Text component="span" size="xs" c="dimmed">
            <Ago at={eventTime(event)} />
            {event.count !== undefined && event.count > 1 && `, ${event.count} times`}
          </Text>
        </span>,
        'wide',
      ])}
    />
  );
}

interface PodSpec {
  spec?: { containers?: { name: string }[]; initContainers?: { name: string }[] };
}

function Logs({ cluster, item }: { cluster: string; item: KubeRef }) {
  const pod = useQuery(liveQuery(cluster, item));
  const { spec } = (pod.data ?? {}) as PodSpec;
  const names = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].map(({ name }) => name);
  const [chosen, setChosen] = useState<string | null>(null);
  const container = chosen ?? names[0];
  const logs = useQuery({
    queryKey: ['object', 'logs', cluster, item, container],
    queryFn: ({ signal }) => logsOf(cluster, item, container ?? '', signal),
    enabled: container !== undefined,
    gcTime: 0,
    refetchInterval: 5000,
  });
  if (pod.isError) return <Fault error={pod.error} what="the pod" retry={() => void pod.refetch()} />;
  if (logs.isError) return <Fault error={logs.error} what="its logs" retry={() => void logs.refetch()} />;
  if (logs.data === undefined) return <Waiting />;
  return (
    <>
      <Group justify="space-between" pb="xs">
        <Select aria-label="Container" data={names} value={container ?? null} onChange={setChosen} allowDeselect={false} />
        <Text size="xs" c="dimmed">
          The last 500 lines, read again every 5 seconds
        </Text>
      </Group>
      {logs.data === '' ? (
        <Empty title="It wrote nothing yet" />
      ) : (
        <pre className={classes['log']} tabIndex={0} aria-label="Logs">
          {visible(logs.data)}
        </pre>
      )}
    </>
  );
}
