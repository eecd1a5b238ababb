import { queryOptions, type Query } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { PullRequestQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { again, SOON } from '../lib/poll';

export const PullRequests = graphql(/* GraphQL */ `
  query PullRequests($before: String, $status: PrStatus, $phase: PrPhase, $repository: String, $automationId: ID, $q: String) {
    list: pullRequests(
      last: 100
      before: $before
      status: $status
      phase: $phase
      repository: $repository
      automationId: $automationId
      q: $q
    ) {
      pageInfo {
        hasPreviousPage
        startCursor
      }
      edges {
        node {
          id
          url
          title
          status
          phase
          error
          repository
          creator
          insertedAt
        }
      }
    }
  }
`);

const PullRequest = graphql(/* GraphQL */ `
  query PullRequest($id: ID!) {
    pullRequest(id: $id) {
      id
      url
      title
      status
      phase
      error
      commit
      ref
      repository
      labels
      creator
      insertedAt
      updatedAt
      number
      head
      base
      author
      draft
      fork
      mergeCommit
      merging {
        open
        opensAt
        windows {
          kind
          schedule
          duration
          timeZone
        }
        wish {
          by
          head
          method
          askedAt
          dueAt
          error
          dropped
        }
      }
      readAt
      readError
      checks {
        state
        passed
        failed
        pending
        incomplete
      }
      reviews {
        approved
        changesRequested
      }
      governance {
        phase
        head
        confirmed
        refused
        message
        governance {
          name
        }
      }
      service {
        id
        name
        cluster {
          id
          handle
        }
      }
      stack {
        id
        name
      }
      cluster {
        id
        handle
      }
      secret {
        namespace
        name
        state
        message
        cluster {
          id
          handle
        }
        entries {
          name
          generated
        }
      }
      project {
        name
      }
      automation {
        id
        name
        role
      }
    }
  }
`);

export const Refresh = graphql(/* GraphQL */ `
  mutation RefreshPullRequest($id: ID!) {
    refreshPullRequest(id: $id) {
      id
    }
  }
`);

export const Merge = graphql(/* GraphQL */ `
  mutation MergePullRequest($id: ID!, $head: String!, $method: PrMergeMethod!, $inWindow: Boolean) {
    mergePullRequest(id: $id, head: $head, method: $method, inWindow: $inWindow) {
      id
    }
  }
`);

export const CancelMerge = graphql(/* GraphQL */ `
  mutation CancelPullRequestMerge($id: ID!) {
    cancelPullRequestMerge(id: $id) {
      id
    }
  }
`);

export const SetWindows = graphql(/* GraphQL */ `
  mutation SetPullRequestMergeWindows($id: ID!, $windows: [MergeWindowAttributes]) {
    updatePullRequestMergeWindows(id: $id, mergeWindows: $windows) {
      id
    }
  }
`);

export const Close = graphql(/* GraphQL */ `
  mutation ClosePullRequest($id: ID!) {
    closePullRequest(id: $id) {
      id
    }
  }
`);

const Automation = graphql(/* GraphQL */ `
  query AutomationOfPullRequests($name: String!) {
    prAutomation(name: $name) {
      id
    }
  }
`);

export type Opened = NonNullable<PullRequestQuery['pullRequest']>;

/** The console still opens it, or has not yet read it back: what it belongs to is known then. */
const isOnItsWay = (one: PullRequestQuery['pullRequest'] | undefined) =>
  one?.phase === 'PENDING' || (one?.phase === 'OPENED' && !one.readAt && !one.readError);

/** One pull request. While the console opens it and has not read it back, it is read again and again. */
export const pullRequestQuery = (id: string) =>
  queryOptions({
    queryKey: ['pull requests', 'one', id],
    queryFn: async ({ signal }) => (await ask(PullRequest, { id }, signal)).pullRequest,
    refetchInterval: (asked) => (isOnItsWay(asked.state.data) ? SOON : again(asked as unknown as Query)),
  });

/** The id of an automation that an address names. */
export const automationIdQuery = (name: string | undefined) =>
  queryOptions({
    queryKey: ['automations', 'id', name],
    queryFn: async ({ signal }) => (await ask(Automation, { name: name ?? '' }, signal)).prAutomation?.id ?? null,
    enabled: name !== undefined,
  });
