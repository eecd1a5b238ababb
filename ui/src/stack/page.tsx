import { Alert, Stack, Tabs, Text } from '@mantine/core';
import { useQuery, type Query } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconAlertTriangle, IconPlayerPause } from '@tabler/icons-react';

import { again } from '../lib/poll';
import { counted } from '../lib/text';
import { paths, stackTabs, type StackTab } from '../paths';
import { Empty, Fault, Page, Waiting } from '../parts/page';
import { held, Stale } from '../parts/shown';
import { State } from '../parts/state';
import { Ago, Name, RouteLink } from '../parts/text';
import { PauseAction, StackActions } from './actions';
import { CustomRuns } from './custom-runs';
import { Drift } from './drift';
import { Outputs } from './outputs';
import { Overview, runsOf } from './overview';
import { PullRequests } from './pulls';
import { busy, isBusy, stackQuery, type StackOne } from './queries';
import { Runs } from './runs';
import { StackSettings } from './settings';
import { StateTab } from './state';
import { noRun, runStatuses } from './states';
import { Summary } from './summary';

const route = getRouteApi('/stacks/$name');

const tabNames: Record<StackTab, string> = {
  overview: 'Overview',
  runs: 'Runs',
  commands: 'Commands',
  drift: 'Drift',
  state: 'State',
  outputs: 'Outputs',
  settings: 'Settings',
};

/** One stack: how it stands, what it did, what it knows. */
export function StackPage() {
  const { name } = route.useParams();
  const { tab = 'overview' } = route.useSearch();
  const navigate = route.useNavigate();
  const base = stackQuery(name);
  const query = useQuery({
    ...base,
    // While a run goes on, somebody may wait for it here; else as every page.
    refetchInterval: (asked) => (isBusy(asked.state.data) ? busy() : again(asked as unknown as Query)),
  });
  const stack = held(query);
  const within = [{ name: 'Stacks', to: paths.stacks() }];
  if (stack == null) {
    return (
      <Page title={name} within={within}>
        {query.isError && <Fault error={query.error} what={`stack ${name}`} retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={10} />}
        {query.isSuccess && (
          <Empty title="There is no such stack">
            It is gone, or you may not see it. <RouteLink to={paths.stacks()}>All stacks</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  return (
    <Page
      title={stack.name}
      within={within}
      state={<State look={stack.status == null ? noRun : runStatuses[stack.status]} />}
      actions={
        <>
          <StackActions stack={stack} />
          {stack.git != null && <PauseAction stack={stack} />}
        </>
      }
    >
      <Stale query={query} what={`stack ${name}`} />
      <Waits stack={stack} />
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) => void navigate({ search: () => ({ tab: next as StackTab }), replace: true })}
      >
        <Tabs.List mb="md">
          {stackTabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {tabNames[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview">
          <Overview stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="runs">
          <PullRequests stack={stack} />
          <Runs stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="commands">
          <CustomRuns stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="drift">
          <Drift stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="state">
          <StateTab stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="outputs">
          <Outputs stack={stack} />
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <StackSettings stack={stack} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** What needs a person: code that cannot be read, plans that wait, drift, a deletion, a last run that failed. */
function Waits({ stack }: { stack: StackOne }) {
  const runs = runsOf(stack);
  const waiting = runs.filter(({ status }) => status === 'PENDING_APPROVAL');
  const [newest] = runs;
  const failed = newest?.status === 'FAILED' ? newest : undefined;
  const error = stack.sourceError;
  const hasDrifted = stack.driftStatus === 'DRIFTED';
  if (waiting.length === 0 && !failed && error == null && stack.deletedAt == null && !hasDrifted) return null;
  const isBad = failed !== undefined || error != null;
  return (
    <Alert
      variant="outline"
      icon={isBad ? <IconAlertTriangle /> : <IconPlayerPause />}
      color={isBad ? 'red' : 'orange'}
      title={isBad ? 'What is wrong' : 'What waits'}
      styles={{
        root: {
          borderColor: isBad ? 'var(--tone-bad)' : 'var(--tone-warn)',
          background: 'var(--panel)',
          color: 'var(--mantine-color-text)',
        },
        icon: { color: isBad ? 'var(--tone-bad)' : 'var(--tone-warn)' },
        title: { color: 'var(--mantine-color-text)' },
        message: { color: 'var(--mantine-color-text)' },
      }}
    >
      <Stack gap={4}>
        {error != null && (
          <Text size="sm">
            Its code cannot be read: <Name of={error} />
          </Text>
        )}
        {failed && (
          <Text size="sm">
            <RouteLink to={paths.stackRun(stack.name, failed.id)}>Run #{failed.number}</RouteLink> failed
            {failed.error != null && (
              <>
                : <Name of={failed.error} />
              </>
            )}
          </Text>
        )}
        {waiting.map((run) => (
          <Text size="sm" key={run.id} component="div">
            <RouteLink to={paths.stackRun(stack.name, run.id)}>Run #{run.number}</RouteLink> waits for approval:{' '}
            {run.plan && <Summary plan={run.plan} />}
          </Text>
        ))}
        {hasDrifted && (
          <Text size="sm">
            <RouteLink to={paths.stack(stack.name)} search={{ tab: 'drift' }}>
              {counted(stack.driftCheck?.count ?? 0, 'resource')}
            </RouteLink>{' '}
            drifted: something other than its tool changed what there is.
          </Text>
        )}
        {stack.deletedAt != null && (
          <Text size="sm">
            It is to be destroyed and deleted, since <Ago at={stack.deletedAt} />. Restore takes that back while the run is queued
            or waits.
          </Text>
        )}
      </Stack>
    </Alert>
  );
}
