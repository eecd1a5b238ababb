import { queryOptions, type Query } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { FleetPlanPartQuery, FleetPlanQuery, FleetPlansQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { listed } from '../lib/list';
import { again } from '../lib/poll';

const Plans = graphql(/* GraphQL */ `
  query FleetPlans($pullRequestId: ID!) {
    fleetPlans(pullRequestId: $pullRequestId, last: 10) {
      edges {
        node {
          id
          phase
          repository {
            id
          }
        }
      }
    }
  }
`);

const One = graphql(/* GraphQL */ `
  query FleetPlan($id: ID!) {
    fleetPlan(id: $id) {
      id
      phase
      error
      ref
      sha
      base
      baseSha
      merged
      movedSha
      untouched
      composed
      omitted
      expiresAt
      stacks {
        problem
        stack {
          id
          name
        }
        run {
          id
          number
          status
          plan {
            add
            change
            destroy
          }
        }
      }
      reach {
        clusters {
          handle
          services
          waiting
          failed
          away
          late
          counts {
            created
            changed
            deleted
            blocked
          }
        }
        parts {
          id
          name
          handle
          state
          error
          counts {
            created
            changed
            deleted
            blocked
          }
        }
      }
    }
  }
`);

const Part = graphql(/* GraphQL */ `
  query FleetPlanPart($id: ID!) {
    fleetPlanPart(id: $id) {
      objects {
        action
        why
        location
        object {
          group
          kind
          namespace
          name
        }
        fields {
          path
          before
          after
          hidden
        }
        fieldsOmitted
      }
      problems {
        source
        message
        location
      }
    }
  }
`);

export const Replan = graphql(/* GraphQL */ `
  mutation ReplanPullRequest($id: ID!) {
    replanPullRequest(id: $id) {
      id
    }
  }
`);

export const Release = graphql(/* GraphQL */ `
  mutation ReleaseFleetPlan($id: ID!, $sha: String!) {
    releaseFleetPlan(id: $id, sha: $sha) {
      id
    }
  }
`);

type Edge = NonNullable<NonNullable<NonNullable<FleetPlansQuery['fleetPlans']>['edges']>[number]>;
type Listed = NonNullable<Edge['node']>;
export type Plan = NonNullable<FleetPlanQuery['fleetPlan']>;
export type Part = NonNullable<NonNullable<NonNullable<Plan['reach']>['parts']>[number]>;
export type PlannedStack = NonNullable<NonNullable<Plan['stacks']>[number]>;
export type Counts = Part['counts'];
export type PartPlan = NonNullable<FleetPlanPartQuery['fleetPlanPart']>;

/** Interval of polls of an unfinished plan, in milliseconds: the user waits for it. */
const SOON = 1000;

/** How long a new pull request may take to get its plan, in milliseconds. */
const NEW = 120_000;

const isNew = (at: string | null | undefined): boolean => at != null && Math.abs(Date.now() - Date.parse(at)) < NEW;

const isGoingOn = ({ phase }: Pick<Plan, 'phase'>) => phase === 'LOOKING' || phase === 'ASKED';

/** Runs of stacks without a plan yet. A superseded plan starts none. */
const isPlanning = ({ phase, stacks }: Pick<Plan, 'phase' | 'stacks'>) =>
  phase === 'DONE' &&
  listed(stacks).some(({ run, problem }) =>
    run == null ? problem == null : ['QUEUED', 'PENDING', 'RUNNING'].includes(run.status) && run.plan == null,
  );

/**
 * The newest plan of each repository of a pull request, without its findings. They are polled while agents answer; a head
 * that is read back later has another plan. A pull request that was just opened gets its plan soon, so its author sees it here.
 */
export const plansQuery = (pullRequestId: string, openedAt: string | null | undefined) =>
  queryOptions({
    queryKey: ['fleet plans', 'of', pullRequestId],
    queryFn: async ({ signal }): Promise<Listed[]> => {
      const answer = await ask(Plans, { pullRequestId }, signal);
      const all = (answer.fleetPlans?.edges ?? []).flatMap((edge) => edge?.node ?? []);
      // Oldest first: the last one of a repository wins.
      return [...new Map(all.map((plan) => [plan.repository?.id ?? '', plan])).values()];
    },
    refetchInterval: (asked) => {
      if (asked.state.data?.some(isGoingOn) === true) return SOON;
      return asked.state.data?.length === 0 && isNew(openedAt) ? 3 * SOON : again(asked as unknown as Query);
    },
  });

/** One plan with its findings. */
export const planQuery = (id: string) =>
  queryOptions({
    queryKey: ['fleet plans', 'one', id],
    queryFn: async ({ signal }) => (await ask(One, { id }, signal)).fleetPlan,
    refetchInterval: (asked) =>
      asked.state.data != null && (isGoingOn(asked.state.data) || isPlanning(asked.state.data))
        ? SOON
        : again(asked as unknown as Query),
  });

/** The plan of one service. */
export const partQuery = (id: string) =>
  queryOptions({
    queryKey: ['fleet plans', 'part', id],
    queryFn: async ({ signal }) => (await ask(Part, { id }, signal)).fleetPlanPart,
  });
