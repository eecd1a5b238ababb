import { Alert, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import {
  IconAlertTriangle,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleXFilled,
  IconLockOpen,
  IconPlugConnectedX,
  IconProgress,
  IconRefresh,
} from '@tabler/icons-react';
import { useState } from 'react';

import type { FleetPlanPartState } from '../generated/graphql';
import { ask, explain } from '../lib/client';
import { listed } from '../lib/list';
import { counted, quoted, short } from '../lib/text';
import { noticeOf } from '../parts/notice';
import { Action } from '../parts/action';
import { Panel, Waiting } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { State, unknown, type Look } from '../parts/state';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { PlannedObjects } from '../service/changes';
import classes from './fleetplan.module.css';
import { partQuery, planQuery, plansQuery, Release, Replan, type Counts, type Part, type Plan } from './queries';

const states: Record<FleetPlanPartState, Look> = {
  FAILED: { word: 'Not plannable', tone: 'bad', Icon: IconCircleXFilled },
  AWAY: { word: 'Agent away', tone: 'warn', Icon: IconPlugConnectedX },
  LATE: { word: 'No answer', tone: 'warn', Icon: IconAlertTriangle },
  WAITING: { word: 'Being made', tone: 'busy', Icon: IconProgress },
  PLANNED: { word: 'Planned', tone: 'good', Icon: IconCircleCheckFilled },
};

/** What a pull request would change in services, by cluster. Nothing if no service reads its repository. */
export function FleetPlans({ pullRequest, openedAt }: { pullRequest: string; openedAt: string | null | undefined }) {
  const query = useQuery(plansQuery(pullRequest, openedAt));
  return (
    <Shown query={query} what="what it would do to services">
      {held(query)?.map(({ id }) => (
        <Planned key={id} id={id} pullRequest={pullRequest} />
      ))}
    </Shown>
  );
}

function Planned({ id, pullRequest }: { id: string; pullRequest: string }) {
  const query = useQuery(planQuery(id));
  const plan = held(query);
  return (
    <Shown query={query} what="a plan of services">
      {query.isPending && <Waiting />}
      {plan != null && <Found plan={plan} pullRequest={pullRequest} />}
    </Shown>
  );
}

function Found({ plan, pullRequest }: { plan: Plan; pullRequest: string }) {
  const commit = plan.sha ?? plan.ref ?? '';
  const parts = listed(plan.reach?.parts);
  return (
    <Panel title="What it would do to services" aside={<code title={commit}>{short(commit)}</code>}>
      <Stack gap="sm" p="md">
        <Standing plan={plan} pullRequest={pullRequest} reached={parts.length} />
        {plan.merged === true && (
          <Text size="sm" c="dimmed">
            Planned as merged into <Name of={plan.base ?? ''} /> at <code>{short(plan.baseSha ?? '')}</code>
          </Text>
        )}
        {plan.movedSha != null && <Moved plan={plan} pullRequest={pullRequest} />}
        {parts.length > 0 && <Clusters plan={plan} parts={parts} />}
        <Rest plan={plan} />
      </Stack>
    </Panel>
  );
}

/** Its target branch moved, and the plan would differ there: the console plans it again within minutes, or on request. */
function Moved({ plan, pullRequest }: { plan: Plan; pullRequest: string }) {
  return (
    <Alert
      variant="outline"
      color="yellow"
      styles={noticeOf('warn')}
      icon={<IconAlertTriangle size={16} />}
      title="This plan is of an older base"
    >
      <Group justify="space-between">
        <Text size="sm">
          <Name of={plan.base ?? ''} /> has moved on to <code title={plan.movedSha ?? ''}>{short(plan.movedSha ?? '')}</code>{' '}
          since, which changes what this is about. It is planned again within minutes.
        </Text>
        <Again pullRequest={pullRequest} />
      </Group>
    </Alert>
  );
}

/** Plans the same commit again. */
function Again({ pullRequest }: { pullRequest: string }) {
  return (
    <Action
      noun="fleet plans"
      isSmall
      label="Plan it again"
      icon={IconRefresh}
      explains={<Text size="sm">Agents are asked at once. Nothing is applied.</Text>}
      command={`plural pr replan ${quoted(pullRequest)}`}
      run={() => ask(Replan, { id: pullRequest })}
      done="It is planned again"
    />
  );
}

function Standing({ plan, pullRequest, reached }: { plan: Plan; pullRequest: string; reached: number }) {
  switch (plan.phase) {
    case 'HELD':
      return (
        <Group justify="space-between">
          <Text size="sm">
            This commit comes from a fork. Nothing of it is rendered before somebody who may approve has read it and releases it.
          </Text>
          <Action
            // Another commit needs its own confirmation.
            key={plan.ref}
            noun="fleet plans"
            isSmall
            isDangerous
            label="Release"
            icon={IconLockOpen}
            explains={
              <>
                <Text size="sm">
                  Agents render what this commit says with the values of your services. Read it before. It counts for this commit
                  and no other:
                </Text>
                <Text size="sm" mt="sm" style={{ overflowWrap: 'anywhere' }}>
                  <code>{plan.ref}</code>
                </Text>
              </>
            }
            command={`plural pr release ${quoted(pullRequest)} --commit ${quoted(plan.ref ?? '')}`}
            run={() => ask(Release, { id: plan.id, sha: plan.ref ?? '' })}
            done="Released the commit: it is planned"
          />
        </Group>
      );
    case 'LOOKING':
      return <Text size="sm">The console looks which services the commit reaches.</Text>;
    case 'FAILED':
      return (
        <Alert
          variant="outline"
          color="red"
          styles={noticeOf('bad')}
          icon={<IconAlertTriangle size={16} />}
          title="There is no plan of this commit"
        >
          <Group justify="space-between">
            <Text size="sm">
              <Name of={plan.error ?? 'The console does not say why.'} />
            </Text>
            <Again pullRequest={pullRequest} />
          </Group>
        </Alert>
      );
    case 'SUPERSEDED':
      return <Text size="sm">A newer plan took its place.</Text>;
    case 'ASKED':
    case 'DONE':
    case null:
      return reached === 0 ? <Text size="sm">It reaches no service that you may see.</Text> : null;
  }
}

const numbers = ['created', 'changed', 'deleted', 'blocked'] as const;

function Cells({ counts, isKnown }: { counts: Counts; isKnown: boolean }) {
  return numbers.map((of) => {
    const count = counts?.[of] ?? 0;
    // Deleted and blocked objects must stand out.
    const isLoud = isKnown && count > 0 && (of === 'deleted' || of === 'blocked');
    return (
      <td key={of} data-number data-loud={isLoud}>
        {isKnown ? count.toLocaleString('en') : '–'}
      </td>
    );
  });
}

function Heads({ first, last }: { first: string; last: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {numbers.map((of) => (
          <th key={of} scope="col" data-number>
            {of.charAt(0).toUpperCase() + of.slice(1)}
          </th>
        ))}
        <th scope="col">{last}</th>
      </tr>
    </thead>
  );
}

/** The plan by cluster, with each service. */
export function Clusters({ plan, parts }: { plan: Plan; parts: Part[] }) {
  const clusters = listed(plan.reach?.clusters);
  const [open, setOpen] = useState<string>();
  return (
    <>
      <div className={classes['scroll']}>
        <table className={classes['table']}>
          <Heads first="Cluster" last="Services" />
          <tbody>
            {clusters.map(({ handle, services, waiting, failed, away, late, counts }) => {
              const rest = [
                [failed, 'not plannable'],
                [away, 'agent away'],
                [late, 'without an answer'],
                [waiting, 'being made'],
              ] as const;
              const silent = rest.reduce((sum, [count]) => sum + (count ?? 0), 0);
              const told = rest.flatMap(([count, words]) => ((count ?? 0) > 0 ? [`${count} ${words}`] : []));
              return (
                <tr key={handle}>
                  <td>
                    <RouteLink to={paths.cluster(handle ?? '')}>
                      <Name of={handle ?? ''} />
                    </RouteLink>
                  </td>
                  <Cells counts={counts} isKnown={(services ?? 0) > silent} />
                  <td>{[counted(services ?? 0, 'service'), ...told].join(', ')}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <div className={classes['scroll']}>
        <table className={classes['table']}>
          <Heads first="Service" last="State" />
          <tbody>
            {parts.map((part) => (
              <tr key={part.id}>
                <td>
                  <RouteLink to={paths.service(part.handle ?? '', part.name ?? '')}>
                    <Name of={`${part.handle ?? ''} / ${part.name ?? ''}`} />
                  </RouteLink>
                </td>
                <Cells counts={part.counts} isKnown={part.state === 'PLANNED'} />
                <td>
                  {part.state === 'PLANNED' ? (
                    <button
                      type="button"
                      aria-expanded={open === part.id}
                      onClick={() => {
                        setOpen(open === part.id ? undefined : part.id);
                      }}
                    >
                      {open === part.id ? 'Hide the objects' : 'Show the objects'}
                    </button>
                  ) : (
                    <State look={part.state == null ? unknown : states[part.state]} />
                  )}
                  {part.error != null && (
                    <Text size="sm">
                      <Name of={part.error} />
                    </Text>
                  )}
                  {open === part.id && <Objects id={part.id} />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The plan of one service, object by object. Values are shown to users who may read them. */
function Objects({ id }: { id: string }) {
  const { data, error, isPending } = useQuery(partQuery(id));
  if (error) return <Text size="sm">{explain(error).what}</Text>;
  if (isPending) return <IconCircleDashed size={14} aria-label="is being read" />;
  const objects = listed(data?.objects);
  const problems = listed(data?.problems);
  return (
    <Stack gap={4} mt="xs">
      {problems.map((problem, at) => (
        <Text key={`problem ${at}`} size="sm" c="red">
          <Name of={problem.message ?? ''} />
        </Text>
      ))}
      <PlannedObjects objects={objects} />
    </Stack>
  );
}

/** The services that a plan does not list. */
export function Rest({ plan: { composed, omitted, untouched } }: { plan: Plan }) {
  const told = [
    [untouched, 'that are read from the repository and are not reached'],
    [composed, 'that are put together from several sources and were not looked at'],
    [omitted, 'that are reached and are too many for one plan'],
  ] as const;
  return told.map(([count, words]) =>
    (count ?? 0) > 0 ? (
      <Text key={words} size="sm" c="dimmed">
        {counted(count ?? 0, 'service')} {words}
      </Text>
    ) : null,
  );
}
