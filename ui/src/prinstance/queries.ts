import { queryOptions, type Query } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { PreviewPrInstanceUninstallMutation, PrInstanceQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { listed, type RowOf } from '../lib/list';
import { again, SOON } from '../lib/poll';

/** First word of the keys of all queries of instances. */
export const INSTANCES = 'instances';

export const PrInstances = graphql(/* GraphQL */ `
  query PrInstances($after: String, $automationId: ID, $state: PrInstanceState, $outdated: Boolean, $q: String) {
    list: prInstances(first: 100, after: $after, automationId: $automationId, state: $state, outdated: $outdated, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          state
          repository
          path
          revision
          outdated
          answers
          secretAnswers
          insertedAt
          automation {
            id
            name
            revision
          }
          pullRequest {
            id
            creator
          }
        }
      }
    }
  }
`);

const PrInstance = graphql(/* GraphQL */ `
  query PrInstance($id: ID!) {
    prInstance(id: $id) {
      id
      state
      repository
      base
      path
      revision
      digest
      outdated
      answers
      secretAnswers
      commit
      baseCommit
      insertedAt
      updatedAt
      files {
        path
        digest
        created
      }
      automation {
        id
        name
        revision
        patch
      }
      project {
        name
      }
      pullRequest {
        id
        title
        url
        status
        phase
        creator
        insertedAt
      }
      change {
        id
        title
        url
        status
        phase
        error
        creator
        insertedAt
      }
    }
  }
`);

const OfPullRequest = graphql(/* GraphQL */ `
  query InstancesOfPullRequest($id: ID!) {
    prInstances(first: 20, pullRequestId: $id) {
      edges {
        node {
          id
          repository
          path
        }
      }
    }
  }
`);

export const Diff = graphql(/* GraphQL */ `
  mutation DiffPrInstance($id: ID!, $context: Json) {
    diffPrInstance(id: $id, context: $context) {
      path
      drift
      diff
    }
  }
`);

export const PreviewUpgrade = graphql(/* GraphQL */ `
  mutation PreviewPrInstanceUpgrade($id: ID!, $context: Json, $overwrite: Boolean) {
    previewPrInstanceUpgrade(id: $id, context: $context, overwrite: $overwrite) {
      repository
      base
      commit
      title
      message
      patch
      skipped
      warnings
      conflicts
      files {
        path
        change
        diff
      }
    }
  }
`);

export const Upgrade = graphql(/* GraphQL */ `
  mutation UpgradePrInstance($id: ID!, $context: Json, $allowConflicts: Boolean, $overwrite: Boolean, $secrets: Json) {
    upgradePrInstance(
      id: $id
      context: $context
      allowConflicts: $allowConflicts
      overwrite: $overwrite
      wait: false
      secrets: $secrets
    ) {
      id
    }
  }
`);

export const UpgradeAll = graphql(/* GraphQL */ `
  mutation UpgradePrInstances($automationId: ID!, $context: Json, $allowConflicts: Boolean) {
    upgradePrInstances(automationId: $automationId, context: $context, allowConflicts: $allowConflicts) {
      error
      instance {
        id
        repository
        path
      }
      pullRequest {
        id
      }
    }
  }
`);

export const PreviewUninstall = graphql(/* GraphQL */ `
  mutation PreviewPrInstanceUninstall($id: ID!, $context: Json) {
    previewPrInstanceUninstall(id: $id, context: $context) {
      repository
      base
      commit
      title
      message
      patch
      skipped
      warnings
      files {
        path
        change
        diff
      }
    }
  }
`);

export const PlanUpgrade = graphql(/* GraphQL */ `
  mutation PlanPrInstanceUpgrade($id: ID!, $context: Json, $overwrite: Boolean) {
    planPrInstanceUpgrade(id: $id, context: $context, overwrite: $overwrite) {
      id
    }
  }
`);

export const PlanUninstall = graphql(/* GraphQL */ `
  mutation PlanPrInstanceUninstall($id: ID!, $context: Json) {
    planPrInstanceUninstall(id: $id, context: $context) {
      id
    }
  }
`);

export const Uninstall = graphql(/* GraphQL */ `
  mutation UninstallPrInstance($id: ID!, $context: Json) {
    uninstallPrInstance(id: $id, context: $context, wait: false) {
      id
    }
  }
`);

export type Instance = NonNullable<PrInstanceQuery['prInstance']>;
export type Uninstalling = PreviewPrInstanceUninstallMutation['previewPrInstanceUninstall'];
export type InstanceRow = RowOf<typeof PrInstances>;

/** What was generated, and what is to become of it. */
export const instanceQuery = (id: string) =>
  queryOptions({
    queryKey: [INSTANCES, 'one', id],
    queryFn: async ({ signal }) => (await ask(PrInstance, { id }, signal)).prInstance,
    refetchInterval: (asked) => (asked.state.data?.change?.phase === 'PENDING' ? SOON : again(asked as unknown as Query)),
  });

/** What a pull request made what it is, or is to change. */
export const instancesOfQuery = (pullRequest: string) =>
  queryOptions({
    queryKey: [INSTANCES, 'of pull request', pullRequest],
    queryFn: async ({ signal }) =>
      listed((await ask(OfPullRequest, { id: pullRequest }, signal)).prInstances?.edges).flatMap(({ node }) => node ?? []),
  });

/** As a page and a link call it. */
export const titleOf = ({ repository, path }: { repository?: string | null; path?: string | null }): string =>
  [repository, path].filter((part) => part != null && part !== '').join(': ');
