import { Group, Text } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { IconGitPullRequest, IconLockOpen } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { graphql } from '../generated';
import type { StackPullsQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { short } from '../lib/text';
import { Action } from '../parts/action';
import { Facts, Panel } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { State } from '../parts/state';
import { Ago, Name, Outside, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import type { StackOne } from './queries';
import { runStatuses } from './states';
import { Summary } from './summary';

const Pulls = graphql(/* GraphQL */ `
  query StackPulls($name: String!) {
    infrastructureStack(name: $name) {
      id
      pullRequests {
        id
        url
        title
        repository
        number
        sha
        fork
        waitsForRelease
        problem
        released {
          sha
          by
          at
        }
        run {
          id
          number
          status
          pullRequest {
            checkedOnly
          }
          plan {
            add
            change
            destroy
            other
          }
        }
      }
    }
  }
`);
const Plan = graphql(/* GraphQL */ `
  mutation PlanPull($id: ID!, $url: String!) {
    planStackPullRequest(id: $id, url: $url) {
      id
    }
  }
`);
const Release = graphql(/* GraphQL */ `
  mutation ReleasePull($id: ID!, $url: String!, $sha: String!) {
    releasePullRequestCommit(id: $id, url: $url, sha: $sha) {
      id
    }
  }
`);

type Pull = NonNullable<NonNullable<NonNullable<StackPullsQuery['infrastructureStack']>['pullRequests']>[number]>;

const pullsQuery = (name: string) =>
  queryOptions({
    queryKey: ['stack', 'pulls', name],
    queryFn: async ({ signal }): Promise<Pull[]> =>
      ((await ask(Pulls, { name }, signal)).infrastructureStack?.pullRequests ?? []).flatMap((one) => one ?? []),
  });

/** The open pull requests that reach a stack, with what they would do to it. */
export function PullRequests({ stack }: { stack: StackOne }) {
  const query = useQuery(pullsQuery(stack.name));
  const pulls = held(query) ?? [];
  return (
    <Shown query={query} what="pull requests">
      {pulls.length > 0 && (
        <Panel title="Pull requests">
          <Facts
            facts={pulls.map((pull): [string, ReactNode, 'wide'] => [
              `${pull.repository} #${pull.number}`,
              <One key={`${pull.id} ${pull.sha}`} stack={stack} pull={pull} />,
              'wide',
            ])}
          />
        </Panel>
      )}
    </Shown>
  );
}

function One({ stack, pull }: { stack: StackOne; pull: Pull }) {
  const { run } = pull;
  const isChecked = run?.pullRequest?.checkedOnly === true;
  return (
    <Group gap="sm" justify="space-between">
      <div>
        <Outside address={pull.url}>
          <Name of={pull.title} />
        </Outside>{' '}
        <code>{short(pull.sha)}</code>
        {pull.fork && ' of a fork'}
        <Text size="sm" component="div">
          {run && (
            <>
              <RouteLink to={paths.stackRun(stack.name, run.id)}>Run {run.number}</RouteLink>{' '}
              <State look={runStatuses[run.status]} />{' '}
            </>
          )}
          {run?.plan && !isChecked && <Summary plan={run.plan} />}
          {isChecked && 'Its code was checked with nothing of the stack.'}
          {pull.problem != null && <Name of={pull.problem} />}
        </Text>
        {pull.waitsForRelease && (
          <Text size="sm">Its plan waits until somebody who may approve plans has read this commit and releases it.</Text>
        )}
        {pull.fork && pull.released?.sha === pull.sha && (
          <Text size="sm" c="dimmed">
            Released by <Name of={pull.released.by} /> <Ago at={pull.released.at} />
          </Text>
        )}
      </div>
      <Group gap={4}>
        {pull.waitsForRelease && (
          <Action
            // Another commit is another question.
            key={pull.sha}
            noun="stack"
            isSmall
            isDangerous
            label="Release"
            icon={IconLockOpen}
            right={stackRight(stack.name, 'approve')}
            confirm={stack.name}
            explains={
              <>
                <Text size="sm">
                  A plan runs what this commit says, with the variables, the files and the plan rights of <Name of={stack.name} />
                  . Read it before. It counts for this commit and no other:
                </Text>
                <Text size="sm" mt="sm" style={{ overflowWrap: 'anywhere' }}>
                  <code>{pull.sha}</code>
                </Text>
              </>
            }
            command={commands.release(stack.name, pull.url, pull.sha)}
            run={() => ask(Release, { id: stack.id, url: pull.url, sha: pull.sha })}
            done="Released the commit: it is planned"
          />
        )}
        <Action
          noun="stack"
          isSmall
          label="Plan"
          icon={IconGitPullRequest}
          right={stackRight(stack.name, 'write')}
          explains={
            pull.waitsForRelease
              ? 'The commit of a fork that nobody released is checked with nothing of the stack, where its tool can do that.'
              : 'Plans its head commit again. Nothing is applied.'
          }
          command={commands.planPull(stack.name, pull.url)}
          run={() => ask(Plan, { id: stack.id, url: pull.url })}
          done="Its plan is being made"
        />
      </Group>
    </Group>
  );
}
