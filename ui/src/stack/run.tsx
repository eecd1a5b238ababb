import { Alert, Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconAlertTriangle, IconInfoCircle, IconPlayerPause } from '@tabler/icons-react';

import { useNow } from '../lib/now';
import { counted, lasting, short, took } from '../lib/text';
import { Command, Copy } from '../parts/action';
import { noticeOf } from '../parts/notice';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { held, Stale } from '../parts/shown';
import { State } from '../parts/state';
import { Ago, Name, Outside, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { commands } from './commands';
import { Findings } from './findings';
import { PlanPanel } from './plan';
import { agreed, missingOf, RunActions } from './run-actions';
import { runQuery, type Run } from './run-queries';
import { imageOf, isOver, kinds, runStatuses, triggers, types } from './states';
import { Steps } from './steps';
import { Summary } from './summary';

const route = getRouteApi('/stacks/$name/runs/$run');

const tabs = ['plan', 'steps', 'made'] as const;
type Tab = (typeof tabs)[number];
const tabNames: Record<Tab, string> = { plan: 'Plan', steps: 'Steps and logs', made: 'What went in' };

/** The tab that opens first: the plan while it waits for approval, else the steps. */
const firstTab = (run: Run): Tab => (run.status === 'PENDING_APPROVAL' ? 'plan' : 'steps');

/** One run: its status, its plan, its approvals, the output of its tool. */
export function RunPage() {
  const { name, run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(runQuery(id));
  const run = held(query);
  const within = [
    { name: 'Stacks', to: paths.stacks() },
    { name, to: paths.stack(name) },
  ];
  if (run == null) {
    return (
      <Page title="Run" within={within}>
        {query.isError && <Fault error={query.error} what="this run" retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={10} />}
        {query.isSuccess && (
          <Empty title="There is no such run">
            It is gone, or you may not see it. <RouteLink to={paths.stack(name)}>All runs of the stack</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  const tab = search.tab ?? firstTab(run);
  return (
    <Page
      title={`${run.stack?.name ?? name} #${run.number}`}
      within={within}
      state={<Standing run={run} />}
      actions={<RunActions run={run} stack={run.stack?.name ?? name} />}
    >
      <Stale query={query} what="this run" />
      <Why run={run} />
      <Head run={run} />
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) => void navigate({ search: () => ({ tab: next as Tab }), replace: true })}
      >
        <Tabs.List mb="md">
          {tabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {tabNames[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="plan">
          <Findings run={run} />
          <PlanPanel
            run={run}
            view={search.view ?? 'tree'}
            setView={(view) =>
              void navigate({
                search: (old) => ({ ...old, tab: 'plan' as const, view: view === 'text' ? view : undefined }),
                replace: true,
              })
            }
          />
        </Tabs.Panel>
        <Tabs.Panel value="steps">
          <Steps
            run={run}
            chosen={search.step}
            choose={(step) => void navigate({ search: (old) => ({ ...old, tab: 'steps' as const, step }), replace: true })}
          />
        </Tabs.Panel>
        <Tabs.Panel value="made">
          <Made run={run} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** Its status in words, with its duration, which grows while the run is active. */
function Standing({ run }: { run: Run }) {
  const now = useNow();
  const phase =
    run.status === 'RUNNING'
      ? run.phase === 'PLAN'
        ? run.kind === 'COMMANDS'
          ? 'Running commands'
          : 'Planning'
        : run.kind === 'DESTROY'
          ? 'Destroying'
          : run.kind === 'COMMANDS'
            ? 'Running commands'
            : 'Applying'
      : undefined;
  const from = run.startedAt ?? run.createdAt;
  const to = run.finishedAt ?? new Date(now).toISOString();
  return (
    <>
      <State look={phase === undefined ? runStatuses[run.status] : { ...runStatuses[run.status], word: phase }} />
      {run.cancelAsked && !isOver(run.status) && <Text size="sm">is asked to end</Text>}
      {from != null && (
        <Text size="sm" c="dimmed" style={{ fontVariantNumeric: 'tabular-nums' }}>
          {isOver(run.status) ? `took ${took(from, to)}` : `for ${took(from, to)}`}
        </Text>
      )}
    </>
  );
}

/** The reason of its status, and the next step. */
function Why({ run }: { run: Run }) {
  if (run.status === 'PENDING_APPROVAL') {
    const missing = missingOf(run);
    return (
      <Alert
        variant="outline"
        color="orange"
        icon={<IconPlayerPause />}
        title="Its plan waits for approval"
        styles={noticeOf('warn')}
      >
        <Text size="sm">
          {missing === 1 ? 'One person has' : `${missing} people have`} to agree
          {run.stack?.forbidSelfApproval === true &&
            ', and not whoever started the run, last changed the stack or wrote its code'}
          . {run.stack?.approvalExpiry != null && `It ends if nobody does within ${lasting(run.stack.approvalExpiry)}. `}
          Exactly this plan is applied, or none.
        </Text>
      </Alert>
    );
  }
  if (run.error == null) return null;
  if (!isOver(run.status))
    return (
      <Alert variant="outline" color="blue" icon={<IconInfoCircle />} title="What it waits for" styles={noticeOf('busy')}>
        <Text size="sm">
          <Name of={run.error} />
        </Text>
      </Alert>
    );
  return (
    <Alert
      variant="outline"
      color={run.status === 'FAILED' ? 'red' : 'blue'}
      icon={run.status === 'FAILED' ? <IconAlertTriangle /> : <IconInfoCircle />}
      title={run.status === 'FAILED' ? 'Why it failed' : 'Why it ended'}
      styles={noticeOf(run.status === 'FAILED' ? 'bad' : 'busy')}
    >
      <Text size="sm">
        <Name of={run.error} />
      </Text>
      {run.status === 'FAILED' && (
        <Text size="sm" mt={4}>
          {run.phase === 'PLAN' ? (
            'It was planning: nothing was changed. Put the cause right and run it again.'
          ) : (
            <>
              It was applying: some of it may be changed. Look at the log of its last step and at the rejected versions of the{' '}
              <RouteLink to={paths.stack(run.stack?.name ?? '')} search={{ tab: 'state' }}>
                state
              </RouteLink>
              , then plan again.
            </>
          )}
        </Text>
      )}
    </Alert>
  );
}

function Head({ run }: { run: Run }) {
  const { approvals } = run;
  const some = (approvals ?? []).flatMap((one) => one ?? []);
  return (
    <Panel title={`Run ${run.number}`}>
      <Facts
        facts={[
          ['What', kinds[run.kind]],
          ['Made by', run.trigger === 'MANUAL' ? <Name of={run.author} /> : triggers[run.trigger]],
          [
            'Pull request',
            run.pullRequest && (
              <>
                <Outside address={run.pullRequest.url}>
                  <Name of={`${run.pullRequest.repository} #${run.pullRequest.number}`} />
                </Outside>{' '}
                <Name of={run.pullRequest.title} />
                {run.pullRequest.checkedOnly && ' (of a fork: checked with nothing of the stack, and not planned)'}
              </>
            ),
          ],
          [
            'Commit',
            run.sha == null ? (
              !isOver(run.status) && 'its code is being put together'
            ) : (
              <>
                <code>{short(run.sha)}</code> <Copy text={run.sha} label="Copy the commit" />{' '}
                {run.message != null && <Name of={run.message} />}
                {run.commitAuthor != null && (
                  <Text component="span" size="sm" c="dimmed">
                    {' '}
                    by <Name of={run.commitAuthor} />
                  </Text>
                )}
              </>
            ),
          ],
          ['Plan', run.plan && <Summary plan={run.plan} />],
          [
            'Found',
            run.kind === 'DRIFT' && run.status === 'SUCCESSFUL' && run.stack && (
              <>
                is under{' '}
                <RouteLink to={paths.stack(run.stack.name)} search={{ tab: 'drift' }}>
                  Drift of <Name of={run.stack.name} />
                </RouteLink>
              </>
            ),
          ],
          ['Made', <Ago key="c" at={run.createdAt} />],
          ['Began', run.startedAt != null && <Ago at={run.startedAt} />],
          ['Ended', run.finishedAt != null && <Ago at={run.finishedAt} />],
          [
            'Runs on',
            run.stack?.cluster && (
              <>
                <RouteLink to={paths.cluster(run.stack.cluster.handle ?? '')}>
                  <Name of={run.stack.cluster.handle ?? ''} />
                </RouteLink>
                {run.stack.cluster.connected === false && !isOver(run.status) && ', whose agent is not connected'}
                {run.job && (
                  <>
                    , Job <Name of={`${run.job.namespace}/${run.job.name}`} />
                  </>
                )}
              </>
            ),
          ],
          [
            'Approval',
            run.kind === 'DRY_RUN' || run.kind === 'DRIFT' ? (
              'not asked for: it applies nothing'
            ) : run.kind === 'COMMANDS' && run.status !== 'PENDING_APPROVAL' && some.length === 0 ? (
              'asked for where its commands have the rights to apply'
            ) : run.approval !== true ? (
              'not needed'
            ) : (
              <>
                {agreed(run)} of {counted(run.requiredApprovals, 'approval')}
                {some.map((one) => (
                  <div key={`${one.approver} ${one.at ?? ''}`}>
                    <Name of={one.approver} />, <Ago at={one.at} />
                    {run.plan != null && one.digest !== run.plan.digest && ', of another plan: it does not count'}
                  </div>
                ))}
              </>
            ),
          ],
        ]}
      />
    </Panel>
  );
}

/** The inputs of the run: they do not change with the stack. */
function Made({ run }: { run: Run }) {
  const variables = typeof run.variables === 'object' && run.variables !== null ? Object.keys(run.variables) : [];
  return (
    <Stack gap="md">
      <Panel title="What went in">
        <Facts
          facts={[
            ['Tool', run.stack && types[run.stack.type]],
            ['Repository', run.repository && <Outside address={run.repository.url} />],
            ['Folder', <Name key="f" of={`${run.git.folder === '' ? 'the root' : run.git.folder} at ${run.git.ref}`} />],
            ['Working folder', run.workdir != null && <Name of={run.workdir} />],
            ['Image', <Name key="i" of={imageOf(run.configuration, run.stack?.type)} />],
            ['State', run.manageState === true ? 'the stack’s, kept here' : 'kept elsewhere'],
            ['Namespace', <Name key="n" of={run.jobSpec?.namespace ?? 'plural-runs'} />],
            ['ServiceAccount', run.jobSpec?.serviceAccount != null && <Name of={run.jobSpec.serviceAccount} />],
            ['Variables', variables.length > 0 && <Name of={variables.join(', ')} />, 'wide'],
            [
              'Plan’s digest',
              run.plan && (
                <>
                  <code style={{ overflowWrap: 'anywhere' }}>{run.plan.digest}</code>{' '}
                  <Copy text={run.plan.digest} label="Copy the digest of the plan" />
                </>
              ),
              'wide',
            ],
          ]}
        />
      </Panel>
      <Command line={commands.describeRun({ stack: run.stack?.name ?? '', number: run.number })} />
    </Stack>
  );
}
