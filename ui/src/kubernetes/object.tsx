import { Tabs } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useRef } from 'react';

import { paths } from '../paths';
import { Empty, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Name } from '../parts/text';
import { Actions } from './actions';
import { kindsQuery } from './discovery';
import { Events } from './events';
import { Frame, Trouble } from './frame';
import { Go } from './go';
import { useListing, type Listed } from './listing';
import classes from './object.module.css';
import { listAt, mapAt, selectorText, textAt, type KubeObject } from './objects';
import { kubeJson, KubeError, kubePath, type Kind } from './request';
import { Summary } from './summary';
import { toneOf, Word } from './word';

const Yaml = lazy(() => import('./yaml'));
const Logs = lazy(() => import('./logs'));
const Terminal = lazy(() => import('./terminal'));

const route = getRouteApi('/clusters/$handle/kubernetes/object');

/** The object is read again at most once in so many milliseconds. */
const CALM = 1000;

const objectTabs = ['summary', 'yaml', 'events', 'logs', 'terminal'] as const;
type ObjectTab = (typeof objectTabs)[number];

const tabNames: Record<ObjectTab, string> = {
  summary: 'Summary',
  yaml: 'YAML',
  events: 'Events',
  logs: 'Logs',
  terminal: 'Terminal',
};

/** One object of a cluster: what it is, what belongs to it, what happened to it, and what may be done. */
export function ObjectPage() {
  const { handle } = route.useParams();
  const { kind: wanted, ns, name } = route.useSearch();
  const kinds = useQuery(kindsQuery(handle));
  const kind = kinds.data?.find(({ id }) => id === wanted);
  if (kind === undefined || name === undefined) {
    return (
      <Frame handle={handle} title={name ?? 'Object'}>
        {kinds.isPending && <Waiting lines={10} />}
        {kinds.isError && <Trouble handle={handle} error={kinds.error} what="what the cluster serves" />}
        {kinds.isSuccess && (
          <Empty title="The cluster serves no such kind">
            <Name of={wanted ?? ''} /> is not among what its API server serves. <Go to={paths.kubernetes(handle)}>All kinds</Go>
          </Empty>
        )}
      </Frame>
    );
  }
  const scope = { handle, kind, namespace: kind.isNamespaced ? ns : undefined, name };
  return <Shown key={`${handle} ${kind.id} ${ns ?? ''} ${name}`} {...scope} />;
}

interface Scope {
  handle: string;
  kind: Kind;
  namespace: string | undefined;
  name: string;
}

export function objectKey(cluster: string, kind: Kind, namespace: string | undefined, name: string) {
  return ['kubernetes', cluster, 'object', kind.id, namespace, name];
}

function Shown({ handle, kind, namespace, name }: Scope) {
  const { tab = 'summary', container } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const wanted = { verb: 'get', kind, namespace, name };
  const query = useQuery({
    queryKey: objectKey(handle, kind, namespace, name),
    refetchInterval: 30_000,
    queryFn: ({ signal }) => kubeJson<KubeObject>(kubePath(handle, kind, { namespace, name }), { signal, wanted }),
  });
  // The row says when to read the object again; its cells are what the server thinks is worth a look.
  const listing = useListing({ cluster: handle, kind, namespace, fieldSelector: `metadata.name=${name}` });
  const { rows } = listing;
  const readAt = useRef(0);
  useEffect(() => {
    // Some objects change many times a second.
    const timer = window.setTimeout(
      () => {
        readAt.current = Date.now();
        void queries.invalidateQueries({ queryKey: objectKey(handle, kind, namespace, name) });
      },
      Math.max(0, readAt.current + CALM - Date.now()),
    );
    return () => window.clearTimeout(timer);
  }, [rows, queries, handle, kind, namespace, name]);
  const isGone = query.error instanceof KubeError && query.error.status === 404;
  // What is gone is shown as it was; what one may not see any more is not.
  const object = isGone ? query.data : held(query);
  const within = [
    { name: kind.kind, to: paths.kubernetes(handle, { kind: kind.id, ns: namespace }) },
    ...(namespace === undefined ? [] : [{ name: namespace, to: paths.kubernetes(handle, { kind: kind.id, ns: namespace }) }]),
  ];
  if (object === undefined) {
    return (
      <Frame handle={handle} title={name}>
        {query.isError ? (
          <Trouble handle={handle} error={query.error} what={name} retry={() => void query.refetch()} />
        ) : (
          <Waiting lines={12} />
        )}
      </Frame>
    );
  }
  const selector = selectorOf(kind, object);
  const tabs = objectTabs.filter((one) => {
    if (one === 'terminal') return kind.id === 'pods';
    return one !== 'logs' || kind.id === 'pods' || selector !== undefined;
  });
  const shown = tabs.includes(tab) ? tab : 'summary';
  const logsOf = kind.id === 'pods' ? { pod: name } : { labels: selector ?? '' };
  return (
    <Frame
      handle={handle}
      title={name}
      within={within}
      state={<Status listing={listing} object={object} />}
      actions={isGone ? null : <Actions subject={{ cluster: handle, kind, object }} />}
    >
      {isGone && (
        <div role="alert" className={classes['gone']}>
          It is gone from the cluster. What you see is how it was last.
        </div>
      )}
      {!isGone && query.isError && <Trouble handle={handle} error={query.error} what="what is new of it" />}
      <Tabs
        value={shown}
        keepMounted={false}
        onChange={(next) => void navigate({ search: (old) => ({ ...old, tab: next as ObjectTab }), replace: true })}
      >
        <Tabs.List mb="md">
          {tabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {tabNames[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Suspense fallback={<Waiting lines={8} />}>
          <Tabs.Panel value="summary">
            <Summary handle={handle} kind={kind} object={object} listing={listing} />
          </Tabs.Panel>
          <Tabs.Panel value="yaml">
            <Yaml handle={handle} kind={kind} object={object} />
          </Tabs.Panel>
          <Tabs.Panel value="events">
            <Events handle={handle} object={object} />
          </Tabs.Panel>
          <Tabs.Panel value="logs">
            <Logs handle={handle} namespace={namespace ?? ''} container={container} {...logsOf} />
          </Tabs.Panel>
          <Tabs.Panel value="terminal">
            <Terminal handle={handle} pod={object} container={container} />
          </Tabs.Panel>
        </Suspense>
      </Tabs>
    </Frame>
  );
}

function Status({ listing, object }: { listing: Listed; object: KubeObject }) {
  if (object.metadata.deletionTimestamp !== undefined) return <Word column="Status" text="Terminating" />;
  const index = listing.columns.findIndex(({ name }) => name === 'Status' || name === 'Phase');
  const cell = listing.rows[0]?.cells[index];
  if (typeof cell === 'string' && toneOf(cell) !== undefined) return <Word column="Status" text={cell} />;
  const bad = listAt(object, 'status', 'conditions').find(
    (one) => ['Ready', 'Available'].includes(textAt(one, 'type') ?? '') && textAt(one, 'status') !== 'True',
  );
  return bad === undefined ? null : <Word column="Status" text={`NotReady: ${textAt(bad, 'reason') ?? ''}`} />;
}

/** Which pods belong to it, as a label selector. */
export function selectorOf(kind: Kind, object: KubeObject): string | undefined {
  if (kind.id === 'services') {
    const labels = Object.entries(mapAt(object, 'spec', 'selector') ?? {});
    return labels.length === 0 ? undefined : labels.map(([key, value]) => `${key}=${value}`).join(',');
  }
  const has = [
    'deployments.apps',
    'statefulsets.apps',
    'daemonsets.apps',
    'replicasets.apps',
    'jobs.batch',
    'poddisruptionbudgets.policy',
  ];
  if (!has.includes(kind.id)) return undefined;
  const text = selectorText((object['spec'] as { selector?: unknown } | undefined)?.selector);
  return text === '' ? undefined : text;
}
