import { Alert, Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconAlertTriangle, IconInfoCircle, IconTrash } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { counted, quoted, short } from '../lib/text';
import { paths, serviceTabs, type ServiceTab } from '../paths';
import { Action, Copy } from '../parts/action';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Stale } from '../parts/shown';
import { serviceStatuses, State } from '../parts/state';
import { Ago, Name, Outside, RouteLink } from '../parts/text';
import { ServiceActions } from './actions';
import { Changes } from './changes';
import { Components } from './components';
import { Configuration } from './configuration';
import { Imports } from './imports';
import { HealthTimeline } from './health';
import { Events, Revisions } from './history';
import { ApprovePrune } from './mutations';
import { serviceQuery, windowsQuery, type Service } from './queries';
import { ServiceSettings } from './settings';
import { Timeline } from './timeline';

const route = getRouteApi('/services/$cluster/$name');

const tabNames: Record<ServiceTab, string> = {
  components: 'Components',
  revisions: 'Revisions',
  changes: 'Changes',
  timeline: 'Timeline',
  configuration: 'Configuration',
  dependencies: 'Dependencies',
  events: 'Who did what',
  settings: 'Settings',
};

/** One service: how it fares and why, what it is made of, what it was. */
export function ServicePage() {
  const { cluster, name } = route.useParams();
  const { tab = 'components' } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(serviceQuery(cluster, name));
  const service = held(query);
  const within = [
    { name: 'Clusters', to: paths.clusters() },
    { name: cluster, to: paths.cluster(cluster) },
  ];
  if (service == null) {
    return (
      <Page title={name} within={within}>
        {query.isError && <Fault error={query.error} what={`service ${cluster}/${name}`} retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={10} />}
        {query.isSuccess && (
          <Empty title="There is no such service">
            It is gone, or you may not see it. <RouteLink to={paths.services()}>All services</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  return (
    <Page
      title={service.name}
      within={within}
      state={<State look={serviceStatuses[service.status]} />}
      actions={<ServiceActions service={service} handle={cluster} />}
    >
      <Stale query={query} what={`service ${cluster}/${name}`} />
      <Why service={service} handle={cluster} />
      <Timeline service={service} cluster={cluster} />
      <Summary service={service} />
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) => void navigate({ search: (old) => ({ ...old, tab: next as ServiceTab }), replace: true })}
      >
        <Tabs.List mb="md" data-tour="tabs">
          {serviceTabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {tabNames[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="components">
          <Components service={service} cluster={cluster} />
        </Tabs.Panel>
        <Tabs.Panel value="revisions">
          <Revisions service={service} handle={cluster} />
        </Tabs.Panel>
        <Tabs.Panel value="changes">
          <Changes cluster={cluster} name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="timeline">
          <HealthTimeline cluster={cluster} name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="configuration">
          <Stack gap="md">
            <Configuration service={service} cluster={cluster} />
            <Imports service={service} cluster={cluster} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="dependencies">
          <Dependencies service={service} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Events cluster={cluster} name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <ServiceSettings service={service} cluster={cluster} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** Why it is not as it should be: the reason first, then each error, then what waits. */
function Why({ service, handle }: { service: Service; handle: string }) {
  const { reason, pendingApproval: pending } = service;
  const errors = (service.errors ?? []).flatMap((error) => error ?? []);
  const others = errors.filter(({ message }) => reason?.message.includes(message) !== true);
  const waiting = service.sync?.waitingFor ?? [];
  if (!reason && others.length === 0 && !pending) return null;
  const isBad = service.status === 'FAILED';
  return (
    <Alert
      variant="outline"
      data-tour="why"
      icon={isBad ? <IconAlertTriangle /> : <IconInfoCircle />}
      color={isBad ? 'red' : 'blue'}
      title={isBad ? 'Why it fails' : 'Why it is not as it should be'}
      styles={{
        root: {
          borderColor: isBad ? 'var(--tone-bad)' : 'var(--tone-busy)',
          background: 'var(--panel)',
          color: 'var(--mantine-color-text)',
        },
        icon: { color: isBad ? 'var(--tone-bad)' : 'var(--tone-busy)' },
        title: { color: 'var(--mantine-color-text)' },
        message: { color: 'var(--mantine-color-text)' },
      }}
    >
      {reason && (
        <Text size="sm">
          <Name of={reason.message} />
          {reason.terminal && '. It stays so until somebody changes something.'}
          {reason.until != null && <> Until {new Date(reason.until).toLocaleString()}.</>}
        </Text>
      )}
      {others.map((error, at) => (
        <Text size="sm" key={at} mt={4}>
          {error.warning === true ? 'Warning' : 'Error'} in <Name of={error.source} />: <Name of={error.message} />
          {error.location != null && (
            <Text component="span" c="dimmed">
              {' '}
              at <Name of={error.location} />
            </Text>
          )}
        </Text>
      ))}
      {pending && (
        <div style={{ marginTop: 8 }}>
          <Text size="sm" mb={4}>
            {counted(pending.count, 'object')} {pending.count === 1 ? 'waits' : 'wait'} to be deleted:{' '}
            <Name of={pending.reason} />
          </Text>
          <Action
            noun="service"
            isDangerous
            label="Approve the deletion"
            icon={IconTrash}
            right={{ verb: 'approve-prune', thing: `service/${handle}/${service.name}` }}
            explains={
              <>
                Exactly these are deleted from the cluster. If others wait by then, nothing is approved.
                <ul style={{ maxHeight: 200, overflow: 'auto' }} tabIndex={0} aria-label="What is deleted">
                  {(pending.objects ?? []).map(
                    (object, at) =>
                      object && (
                        <li key={at}>
                          {object.kind}{' '}
                          <Name of={object.namespace == null ? object.name : `${object.namespace}/${object.name}`} />
                        </li>
                      ),
                  )}
                </ul>
              </>
            }
            command={`plural cd services approve-prune ${quoted(`${handle}/${service.name}`)} --digest ${pending.digest}`}
            run={() => ask(ApprovePrune, { id: service.id, digest: pending.digest })}
            done="Approved the deletion"
          />
        </div>
      )}
      {waiting.map(
        (wait, at) =>
          wait && (
            <Text size="sm" key={at} mt={4}>
              Waits for {wait.object.kind} <Name of={wait.object.name} />: <Name of={wait.why} />
            </Text>
          ),
      )}
    </Alert>
  );
}

function Summary({ service }: { service: Service }) {
  const windows = useQuery(windowsQuery(service.id));
  const { git, helm, sync } = service;
  const policy = service.syncConfig?.policy;
  return (
    <Panel title="Desired state">
      <Facts
        facts={[
          [
            'Commit',
            service.sha != null && (
              <>
                <code>{short(service.sha)}</code> <Copy text={service.sha} label="Copy the commit" />{' '}
                {service.message != null && <Name of={service.message} />}
                {service.author != null && (
                  <Text component="span" size="sm" c="dimmed">
                    {' '}
                    by <Name of={service.author} />
                  </Text>
                )}
              </>
            ),
          ],
          [
            'Repository',
            service.repository && (
              <>
                <Outside address={service.repository.url} />
                {service.repository.error != null && (
                  <div role="alert">
                    Cannot be fetched: <Name of={service.repository.error} />
                  </div>
                )}
              </>
            ),
          ],
          [
            'Folder',
            git &&
              (service.folderUrl == null ? (
                <Name of={`${git.folder} at ${git.ref}`} />
              ) : (
                <Outside address={service.folderUrl}>
                  <Name of={`${git.folder} at ${git.ref}`} />
                </Outside>
              )),
          ],
          ['Chart', helm && <Name of={[helm.chart, helm.version].filter((part) => part != null).join(' ')} />],
          ['Namespace', <Name key="ns" of={service.namespace} />],
          [
            'Images',
            (service.metadata?.images ?? []).length > 0 && (
              <Many key="images" all={(service.metadata?.images ?? []).flatMap((one) => one ?? [])} />
            ),
          ],
          [
            'Host names',
            (service.metadata?.fqdns ?? []).length > 0 && (
              <Many key="hosts" all={(service.metadata?.fqdns ?? []).flatMap((one) => one ?? [])} />
            ),
          ],
          ['Ready', service.componentStatus],
          ['Changed', <Ago key="at" at={service.updatedAt} />],
          [
            'Sync',
            [
              service.paused === true ? 'paused' : policy?.manual === true ? 'manual' : 'automatic',
              policy?.prune === false && 'keeps what left git',
              policy?.selfHeal === false && 'leaves drift',
              service.dryRun === true && 'dry run only',
              sync?.waves != null && sync.waves > 1 && `wave ${sync.wavesDone ?? 0} of ${sync.waves}`,
            ]
              .filter((part) => typeof part === 'string')
              .join(', '),
          ],
          [
            'Pinned',
            service.pin && (
              <>
                by <Name of={service.pin.by} />, <Ago at={service.pin.insertedAt} />
              </>
            ),
          ],
          [
            'Sync windows',
            windows.data !== undefined &&
              windows.data.length > 0 &&
              windows.data.map(
                (window) =>
                  window && (
                    <div key={window.id}>
                      {window.name != null && window.name !== '' && (
                        <>
                          <Name of={window.name} />:{' '}
                        </>
                      )}
                      {window.kind === 'ALLOW' ? 'lets syncs through' : 'holds syncs back'} from <code>{window.schedule}</code> (
                      {window.timeZone}), for {Math.round(window.duration / 60)} min
                    </div>
                  ),
              ),
            'wide',
          ],
          [
            'Deprecated APIs',
            (service.apiDeprecations ?? []).length > 0 &&
              (service.apiDeprecations ?? []).map(
                (api, at) =>
                  api && (
                    <div key={at}>
                      {api.component?.kind} <Name of={api.component?.name ?? ''} />: gone in {api.removedIn ?? 'a later version'}
                      {api.replacement != null && <>, use {api.replacement}</>}
                    </div>
                  ),
              ),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}

/** The first few, and the others on demand. */
function Many({ all }: { all: string[] }) {
  const shown = (some: string[]) =>
    some.map((one) => (
      <div key={one}>
        <Name of={one} />
      </div>
    ));
  if (all.length <= 3) return <>{shown(all)}</>;
  return (
    <>
      {shown(all.slice(0, 2))}
      <details>
        <summary>{all.length - 2} more</summary>
        {shown(all.slice(2))}
      </details>
    </>
  );
}

function Dependencies({ service }: { service: Service }) {
  const needs = (service.dependencies ?? []).flatMap((one) => one ?? []);
  const needed = (service.dependents ?? []).flatMap((one) => one ?? []);
  return (
    <>
      <Panel title="Needs">
        {needs.length === 0 ? (
          <Empty title="It needs no other service">A new revision of it waits for nothing else.</Empty>
        ) : (
          <Facts
            facts={needs.map((need) => [
              need.name,
              <span key={need.id}>
                <State look={serviceStatuses[need.status ?? 'STALE']} />{' '}
                <RouteLink to={paths.service(need.cluster ?? service.cluster?.handle ?? '', need.name)}>
                  <Name of={`${need.cluster ?? service.cluster?.handle ?? ''}/${need.name}`} />
                </RouteLink>{' '}
                {need.message != null && <Name of={need.message} />}
              </span>,
            ])}
          />
        )}
      </Panel>
      <div style={{ height: 12 }} />
      <Panel title="Is needed by">
        {needed.length === 0 ? (
          <Empty title="No service waits for it" />
        ) : (
          <Facts
            facts={needed.map((one) => [
              one.name,
              <span key={one.id}>
                <State look={serviceStatuses[one.status]} />{' '}
                <RouteLink to={paths.service(one.cluster?.handle ?? '', one.name)}>
                  <Name of={`${one.cluster?.handle ?? ''}/${one.name}`} />
                </RouteLink>
              </span>,
            ])}
          />
        )}
      </Panel>
    </>
  );
}
