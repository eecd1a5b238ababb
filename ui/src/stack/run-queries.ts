import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { StackRunQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { connection } from '../lib/connection';
import { isOver } from './states';

const Run = graphql(/* GraphQL */ `
  query StackRun($id: ID!) {
    stackRun(id: $id) {
      ...RunFacts
      cancelAsked
      pullRequest {
        url
        title
        repository
        number
        fork
        checkedOnly
      }
      commitAuthor
      approval
      requiredApprovals
      manageState
      workdir
      git {
        ref
        folder
      }
      repository {
        url
      }
      configuration {
        image
        version
        tag
      }
      jobSpec {
        namespace
        serviceAccount
      }
      variables
      approvals {
        approver
        digest
        at
      }
      job {
        namespace
        name
      }
      stack {
        id
        name
        type
        forbidSelfApproval
        approvalExpiry
        cluster {
          handle
          connected
        }
      }
      steps {
        id
        index
        phase
        stage
        name
        cmd
        args
        status
        exitCode
        startedAt
        finishedAt
      }
      violations {
        id
        title
        severity
        policyId
        policyModule
        policyUrl
        refuses
        causes {
          resource
        }
      }
      cost {
        currency
        monthly
        hourly
        pastMonthly
        diffMonthly
        omitted
        resources {
          project
          name
          monthly
        }
      }
    }
  }
`);

const Plan = graphql(/* GraphQL */ `
  query StackRunPlan($id: ID!) {
    stackRun(id: $id) {
      id
      plan {
        digest
      }
      state {
        planJson
      }
    }
  }
`);

const PlanText = graphql(/* GraphQL */ `
  query StackRunPlanText($id: ID!) {
    stackRun(id: $id) {
      id
      plan {
        digest
        text
      }
    }
  }
`);

const Logs = graphql(/* GraphQL */ `
  query StackRunLogs($id: ID!, $step: Int!, $from: Int!, $bytes: Int!) {
    stackRun(id: $id) {
      id
      status
      steps(index: $step) {
        id
        status
        logs(from: $from, bytes: $bytes) {
          text
          next
        }
      }
    }
  }
`);

export type Run = NonNullable<StackRunQuery['stackRun']>;
export type Step = NonNullable<NonNullable<Run['steps']>[number]>;

/** Poll interval of a run, in milliseconds: while it is active and the socket is down, and otherwise until it ends. */
const LIVE = 1500;
const IDLE = 10_000;

export function runQuery(id: string) {
  return queryOptions({
    queryKey: ['stack', 'run', id],
    queryFn: async ({ signal }) => (await ask(Run, { id }, signal)).stackRun,
    // The user waits for the run: it is polled until it ends, and never after that.
    refetchInterval: ({ state }) => {
      const status = state.data?.status;
      if (status === undefined || isOver(status)) return false;
      return status === 'PENDING_APPROVAL' || connection().isLive ? IDLE : LIVE;
    },
  });
}

/** Data of a plan is read by the digest that is shown and approved. */
function same<Read extends { plan: { digest: string } | null }>(read: Read | null, digest: string): Read | null {
  if (read?.plan && read.plan.digest !== digest) throw new Error('the run has another plan by now');
  return read;
}

/** The plan with this digest in its tool's JSON, without sensitive values. It is immutable. */
export function planQuery(id: string, digest: string) {
  return queryOptions({
    queryKey: ['stack', 'plan', id, digest],
    queryFn: async ({ signal }) => same((await ask(Plan, { id }, signal)).stackRun, digest)?.state?.planJson ?? null,
    staleTime: Infinity,
    refetchInterval: false,
  });
}

export function planTextQuery(id: string, digest: string) {
  return queryOptions({
    queryKey: ['stack', 'plan text', id, digest],
    queryFn: async ({ signal }) => same((await ask(PlanText, { id }, signal)).stackRun, digest)?.plan?.text ?? '',
    staleTime: Infinity,
    refetchInterval: false,
  });
}

export interface Piece {
  text: string;
  /** The offset of the next piece. */
  next: number;
  /** Nothing is appended any more. */
  isOver: boolean;
}

/** A piece of a step's log, and whether more may come. */
export async function readLog(
  run: string,
  step: number,
  from: number,
  bytes: number,
  signal: AbortSignal,
): Promise<Piece | undefined> {
  const { stackRun: read } = await ask(Logs, { id: run, step, from, bytes }, signal);
  const found = read?.steps?.[0];
  if (!found) return undefined;
  // A killed Job leaves a step that never ended.
  const isDone = found.status === 'SUCCESSFUL' || found.status === 'FAILED' || isOver(read.status);
  return { text: found.logs?.text ?? '', next: found.logs?.next ?? from, isOver: isDone };
}
