import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { StackQuery, StackRunGroup, StackRunsQuery, StacksQuery, StackStatesQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { connection } from '../lib/connection';
import { PAGE } from '../lib/list';
import { isOver } from './states';

const Stacks = graphql(/* GraphQL */ `
  query Stacks($after: String, $first: Int, $q: String, $projectId: ID, $tag: TagInput) {
    list: infrastructureStacks(after: $after, first: $first, q: $q, projectId: $projectId, tag: $tag) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          type
          status
          paused
          protect
          deletedAt
          sourceError
          driftStatus
          lastSuccessfulAt
          tags {
            name
            value
          }
          git {
            ref
            folder
          }
          repository {
            id
            url
          }
          cluster {
            id
            handle
          }
          project {
            id
            name
          }
          lock {
            author
            operation
          }
          stateVersion {
            serial
            resources
          }
          newest: runs(first: 1, of: [STACK]) {
            edges {
              node {
                id
                number
                createdAt
              }
            }
          }
        }
      }
    }
  }
`);

const Tags = graphql(/* GraphQL */ `
  query StackTags($q: String, $projectId: ID) {
    stackTags(q: $q, projectId: $projectId) {
      tag {
        name
        value
      }
      count
    }
  }
`);

const Stack = graphql(/* GraphQL */ `
  query Stack($name: String!) {
    infrastructureStack(name: $name) {
      id
      name
      type
      status
      paused
      protect
      tags {
        name
        value
      }
      deletedAt
      sourceError
      sha
      lastSuccessfulAt
      driftStatus
      driftedAt
      driftCheck {
        checkedAt
        runNumber
        count
        leftOut
        error
        failedAt
      }
      driftSchedule {
        crontab
        timeZone
        nextAt
        commands {
          cmd
          args
          stage
        }
      }
      cron {
        crontab
        timeZone
        autoApprove
        nextAt
        error
      }
      interval
      connection {
        id
        name
      }
      insertedAt
      updatedAt
      workdir
      manageState
      variables
      approval
      requiredApprovals
      forbidSelfApproval
      approvalExpiry
      commandApproval
      timeout
      actor {
        id
        email
      }
      changedBy {
        email
      }
      git {
        ref
        folder
      }
      repository {
        id
        url
        error
      }
      cluster {
        id
        handle
        connected
      }
      project {
        id
        name
      }
      jobSpec {
        namespace
        serviceAccount
        labels
        annotations
        nodeSelector
        tolerations {
          key
          operator
          value
          effect
        }
        requests {
          requests {
            cpu
            memory
          }
          limits {
            cpu
            memory
          }
        }
      }
      configuration {
        image
        version
        tag
        hooks {
          cmd
          args
          afterStage
        }
        terraform {
          parallelism
          refresh
          tofu
        }
        terragrunt {
          parallelism
          refresh
        }
        pulumi {
          parallel
          refresh
          stack
          backendUrl
        }
        ansible {
          playbook
          inventory
          deletePlaybook
          supportsCheck
        }
      }
      commands {
        cmd
        args
        stage
        requireApproval
      }
      deleteCommands {
        cmd
        args
        stage
        requireApproval
      }
      definition {
        id
        name
        steps {
          cmd
          args
          stage
          requireApproval
        }
        deleteSteps {
          cmd
          args
          stage
          requireApproval
        }
      }
      policyEngine {
        type
        maxSeverity
        customPolicies
        repositoryId
        git {
          ref
          folder
        }
      }
      dependencies {
        stackId
        stack {
          id
          name
        }
        outputs {
          output
          variable
        }
      }
      dependents {
        id
        name
      }
      lock {
        id
        operation
        who
        author
        fence
        insertedAt
      }
      stateVersion {
        id
        serial
        lineage
        digest
        size
        resources
        author
        insertedAt
      }
      newest: runs(first: 10) {
        edges {
          node {
            ...RunFacts
          }
        }
      }
    }
  }
`);

const Runs = graphql(/* GraphQL */ `
  query StackRuns($name: String!, $after: String, $first: Int, $of: [StackRunGroup]) {
    infrastructureStack(name: $name) {
      id
      list: runs(after: $after, first: $first, of: $of) {
        pageInfo {
          hasNextPage
          endCursor
        }
        edges {
          node {
            ...RunFacts
          }
        }
      }
    }
  }
  fragment RunFacts on StackRun {
    id
    number
    kind
    trigger
    status
    phase
    error
    sha
    message
    author
    createdAt
    startedAt
    finishedAt
    plan {
      digest
      add
      change
      destroy
      other
      at
    }
  }
`);

const States = graphql(/* GraphQL */ `
  query StackStates($name: String!) {
    infrastructureStack(name: $name) {
      id
      stateVersion {
        id
      }
      stateVersions {
        id
        serial
        lineage
        digest
        size
        resources
        rejected
        acceptedAt
        author
        requestId
        fence
        insertedAt
      }
    }
  }
`);

const Resources = graphql(/* GraphQL */ `
  query StackResources($stack: ID!, $version: ID) {
    stackState(stackId: $stack, version: $version) {
      id
      outputs
      state {
        identifier
        resource
        name
        provider
        links
      }
    }
  }
`);

const StateDiff = graphql(/* GraphQL */ `
  query StackStateDiff($stack: ID!, $from: ID!, $to: ID!) {
    stackStateDiff(stackId: $stack, from: $from, to: $to) {
      identifier
      change
      attributes
    }
  }
`);

const OutputNames = graphql(/* GraphQL */ `
  query StackOutputNames($name: String!) {
    infrastructureStack(name: $name) {
      id
      output {
        name
        secret
      }
    }
  }
`);

const Outputs = graphql(/* GraphQL */ `
  query StackOutputs($name: String!) {
    infrastructureStack(name: $name) {
      id
      output {
        name
        secret
        value
      }
    }
  }
`);

const Inputs = graphql(/* GraphQL */ `
  query StackInputs($name: String!) {
    infrastructureStack(name: $name) {
      id
      environment {
        name
        value
        secret
      }
      files {
        path
      }
    }
  }
`);

export interface StackFilter {
  q?: string | undefined;
  project?: string | undefined;
  /** `NAME=VALUE`. */
  tag?: string | undefined;
}

function variablesOf({ q, project, tag }: StackFilter) {
  const [name = '', ...value] = (tag ?? '').split('=');
  return { q: q ?? null, projectId: project ?? null, tag: name === '' ? null : { name, value: value.join('=') } };
}

type Edge = NonNullable<NonNullable<NonNullable<StacksQuery['list']>['edges']>[number]>;
export type StackRow = NonNullable<Edge['node']>;

/** Stacks a page at a time, searched at the server. */
export function stacksQuery(filter: StackFilter, first = PAGE) {
  const variables = variablesOf(filter);
  return infiniteQueryOptions({
    queryKey: ['stack', 'list', variables, first],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => ask(Stacks, { ...variables, after: pageParam ?? null, first }, signal),
    getNextPageParam: ({ list }) => (list?.pageInfo.hasNextPage === true ? (list.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): StackRow[] => pages.flatMap(({ list }) => (list?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}

/** How many stacks of a list have which tag, whichever one of them is chosen. */
export function stackTagsQuery(filter: StackFilter) {
  const { q, projectId } = variablesOf(filter);
  return queryOptions({
    queryKey: ['stack', 'tags', q, projectId],
    queryFn: async ({ signal }) => (await ask(Tags, { q, projectId }, signal)).stackTags ?? [],
  });
}

export type StackOne = NonNullable<StackQuery['infrastructureStack']>;

/** Milliseconds between two reads while a run goes on and the socket does not tell of it. */
const BUSY = 3000;
/** The same while it does: in case that it missed something. */
const BUSY_TOLD = 10_000;

/** How soon something of a stack is read again whose run goes on. */
export const busy = () => (connection().isLive ? BUSY_TOLD : BUSY);

/** Whether one of the stack's newest runs goes on by itself. */
export function isBusy(stack: StackOne | null | undefined): boolean {
  return (stack?.newest?.edges ?? []).some((edge) => {
    const status = edge?.node?.status;
    return status !== undefined && !isOver(status) && status !== 'PENDING_APPROVAL';
  });
}

export function stackQuery(name: string) {
  return queryOptions({
    queryKey: ['stack', 'one', name],
    queryFn: async ({ signal }) => (await ask(Stack, { name }, signal)).infrastructureStack,
  });
}

type RunEdge = NonNullable<NonNullable<NonNullable<NonNullable<StackRunsQuery['infrastructureStack']>['list']>['edges']>[number]>;
export type RunRow = NonNullable<RunEdge['node']>;

/** Runs of a stack, newest first: of one of the things that they are of, or all. */
export function runsQuery(name: string, of: StackRunGroup | undefined, first = PAGE) {
  return infiniteQueryOptions({
    queryKey: ['stack', 'runs', name, of, first],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      (await ask(Runs, { name, after: pageParam ?? null, first, of: of === undefined ? null : [of] }, signal)).infrastructureStack
        ?.list,
    getNextPageParam: (page) => (page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): RunRow[] => pages.flatMap((page) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}

export type StateVersion = NonNullable<
  NonNullable<NonNullable<StackStatesQuery['infrastructureStack']>['stateVersions']>[number]
>;

export function statesQuery(name: string) {
  return queryOptions({
    queryKey: ['stack', 'states', name],
    queryFn: async ({ signal }) => {
      const { infrastructureStack: stack } = await ask(States, { name }, signal);
      return {
        current: stack?.stateVersion?.id,
        versions: (stack?.stateVersions ?? []).flatMap((version): StateVersion[] => (version ? [version] : [])),
      };
    },
  });
}

/** What a version holds: it does not change any more. */
export function resourcesQuery(stack: string, version: string) {
  return queryOptions({
    queryKey: ['stack', 'resources', stack, version],
    queryFn: async ({ signal }) => (await ask(Resources, { stack, version }, signal)).stackState,
    staleTime: Infinity,
    refetchInterval: false,
  });
}

export function stateDiffQuery(stack: string, from: string, to: string) {
  return queryOptions({
    queryKey: ['stack', 'state diff', stack, from, to],
    queryFn: async ({ signal }) =>
      ((await ask(StateDiff, { stack, from, to }, signal)).stackStateDiff ?? []).flatMap((change) => change ?? []),
    staleTime: Infinity,
    refetchInterval: false,
    placeholderData: keepPreviousData,
  });
}

/** Which there are, without any value. */
export function outputNamesQuery(name: string) {
  return queryOptions({
    queryKey: ['stack', 'output names', name],
    queryFn: async ({ signal }) =>
      ((await ask(OutputNames, { name }, signal)).infrastructureStack?.output ?? []).flatMap((output) => output ?? []),
  });
}

/** The values that the reader may see, secret ones too: asked for by hand, and held by whoever asks. */
export async function readOutputs(name: string, signal?: AbortSignal) {
  const { infrastructureStack: stack } = await ask(Outputs, { name }, signal);
  return (stack?.output ?? []).flatMap((output) => output ?? []);
}

/** Values that are not secret. What is, and comes with them, is dropped before anything keeps it. */
export function openOutputsQuery(name: string) {
  return queryOptions({
    queryKey: ['stack', 'open outputs', name],
    queryFn: async ({ signal }) =>
      (await readOutputs(name, signal)).flatMap((one) => (one.secret === true ? [] : [{ name: one.name, value: one.value }])),
  });
}

export function inputsQuery(name: string) {
  return queryOptions({
    queryKey: ['stack', 'inputs', name],
    queryFn: async ({ signal }) => {
      const { infrastructureStack: stack } = await ask(Inputs, { name }, signal);
      return {
        environment: (stack?.environment ?? []).flatMap((one) => one ?? []),
        files: (stack?.files ?? []).flatMap((file) => file?.path ?? []),
      };
    },
  });
}
