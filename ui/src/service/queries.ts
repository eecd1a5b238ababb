import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { ServiceDeploymentStatus, ServiceQuery, ServicesQuery } from '../generated/graphql';
import { ask } from '../lib/client';

export const Services = graphql(/* GraphQL */ `
  query Services($after: String, $first: Int, $q: String, $status: ServiceDeploymentStatus, $cluster: String, $repositoryId: ID) {
    serviceDeployments(after: $after, first: $first, q: $q, status: $status, cluster: $cluster, repositoryId: $repositoryId) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          namespace
          status
          componentStatus
          sha
          message
          paused
          dryRun
          pin {
            until
          }
          updatedAt
          reason {
            kind
            message
          }
          cluster {
            id
            handle
          }
        }
      }
    }
  }
`);

const Statuses = graphql(/* GraphQL */ `
  query ServiceStatuses($q: String, $clusterId: ID, $repositoryId: ID) {
    serviceStatuses(q: $q, clusterId: $clusterId, repositoryId: $repositoryId) {
      status
      count
    }
  }
`);

export interface ServiceFilter {
  q?: string | undefined;
  status?: ServiceDeploymentStatus | undefined;
  cluster?: string | undefined;
  repositoryId?: string | undefined;
}

type Edge = NonNullable<NonNullable<NonNullable<ServicesQuery['serviceDeployments']>['edges']>[number]>;
export type ServiceRow = NonNullable<Edge['node']>;

const PAGE = 100;

/** Services a page at a time, searched and filtered at the server. */
export function servicesQuery(filter: ServiceFilter, first = PAGE) {
  return infiniteQueryOptions({
    queryKey: ['service', 'list', filter, first],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      ask(
        Services,
        {
          after: pageParam ?? null,
          first,
          q: filter.q ?? null,
          status: filter.status ?? null,
          cluster: filter.cluster ?? null,
          repositoryId: filter.repositoryId ?? null,
        },
        signal,
      ),
    getNextPageParam: ({ serviceDeployments: page }) =>
      page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined,
    select: ({ pages }): ServiceRow[] =>
      pages.flatMap(({ serviceDeployments: page }) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}

/** How many there are of each status. Counts know a cluster by its id only. */
export function statusesQuery({
  q,
  clusterId,
  repositoryId,
}: {
  q?: string | undefined;
  clusterId?: string | undefined;
  repositoryId?: string | undefined;
}) {
  return queryOptions({
    queryKey: ['service', 'statuses', { q, clusterId, repositoryId }],
    queryFn: ({ signal }) =>
      ask(Statuses, { q: q ?? null, clusterId: clusterId ?? null, repositoryId: repositoryId ?? null }, signal),
    select: (data) => new Map((data.serviceStatuses ?? []).map((row) => [row.status, row.count] as const)),
  });
}

const One = graphql(/* GraphQL */ `
  query Service($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      name
      namespace
      version
      status
      componentStatus
      sha
      message
      author
      folderUrl
      paused
      dryRun
      protect
      templated
      interval
      insertedAt
      updatedAt
      deletedAt
      digest
      reason {
        kind
        message
        terminal
        until
      }
      errors {
        source
        message
        location
        terminal
        warning
      }
      git {
        ref
        folder
      }
      helm {
        chart
        url
        version
        release
      }
      repository {
        id
        url
        error
        pulledAt
      }
      cluster {
        id
        handle
        name
        connected
        pingedAt
      }
      pin {
        revisionId
        by
        until
        insertedAt
      }
      pendingApproval {
        digest
        count
        reason
        objects {
          kind
          namespace
          name
        }
      }
      revision {
        id
      }
      sync {
        step
        phase
        waves
        wavesDone
        waitingFor {
          why
          object {
            kind
            namespace
            name
          }
        }
      }
      syncConfig {
        createNamespace
        policy {
          manual
          prune
          selfHeal
        }
      }
      components {
        id
        group
        kind
        namespace
        name
        version
        state
        synced
        message
        children {
          kind
          namespace
          name
          state
          message
          uid
          parentUid
        }
      }
      dependencies {
        id
        name
        cluster
        healthy
        status
        message
      }
      dependents {
        id
        name
        status
        cluster {
          handle
        }
      }
      apiDeprecations {
        availableIn
        removedIn
        replacement
        blocking
        component {
          kind
          namespace
          name
        }
      }
    }
  }
`);

/** One service as its page shows it. */
export function serviceQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'one', cluster, name],
    queryFn: async ({ signal }) => (await ask(One, { cluster, name }, signal)).serviceDeployment,
  });
}
export type Service = NonNullable<ServiceQuery['serviceDeployment']>;

const History = graphql(/* GraphQL */ `
  query ServiceHistory($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      revisions(last: 50) {
        edges {
          node {
            id
            sha
            message
            author
            by
            version
            insertedAt
            healthyAt
            restorable
          }
        }
      }
      events(last: 50) {
        edges {
          node {
            id
            action
            actorName
            insertedAt
            times
          }
        }
      }
    }
  }
`);

/** What it was, and who did what to it: the newest fifty of each. */
export function historyQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'history', cluster, name],
    queryFn: async ({ signal }) => (await ask(History, { cluster, name }, signal)).serviceDeployment,
  });
}

const Changes = graphql(/* GraphQL */ `
  query ServiceChangesOf($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      plans(last: 10) {
        edges {
          node {
            id
            insertedAt
            revisionId
            error
            unchanged
            omitted
            objects {
              action
              why
              object {
                kind
                namespace
                name
              }
              fields {
                path
                before
                after
                hidden
                manager
              }
            }
          }
        }
      }
      drift(last: 50) {
        edges {
          node {
            id
            kind
            count
            what
            insertedAt
            updatedAt
            object {
              kind
              namespace
              name
            }
            fields {
              path
              before
              after
              hidden
              manager
            }
          }
        }
      }
    }
  }
`);

/** What syncs changed, and what others changed: the newest ten and fifty. */
export function changesQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'changes', cluster, name],
    queryFn: async ({ signal }) => (await ask(Changes, { cluster, name }, signal)).serviceDeployment,
  });
}

const Configuration = graphql(/* GraphQL */ `
  query ServiceConfigurationOf($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      configuration {
        name
        value
        valueFrom {
          secretKeyRef {
            namespace
            name
            key
          }
          configMapKeyRef {
            namespace
            name
            key
          }
        }
      }
    }
  }
`);

/** Its values for templates. They are secrets: read when asked for, forgotten when the page is left. */
export function configurationQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'configuration', cluster, name],
    queryFn: async ({ signal }) => (await ask(Configuration, { cluster, name }, signal)).serviceDeployment,
    gcTime: 0,
  });
}

const Windows = graphql(/* GraphQL */ `
  query SyncWindows($serviceId: ID!) {
    syncWindows(serviceId: $serviceId) {
      id
      name
      kind
      schedule
      duration
      timeZone
      description
    }
  }
`);

/** Its own sync windows. */
export function windowsQuery(serviceId: string) {
  return queryOptions({
    queryKey: ['service', 'windows', serviceId],
    queryFn: async ({ signal }) => (await ask(Windows, { serviceId }, signal)).syncWindows ?? [],
  });
}

export const Kick = graphql(/* GraphQL */ `
  mutation Kick($id: ID!) {
    kickService(serviceId: $id) {
      id
    }
  }
`);
export const Sync = graphql(/* GraphQL */ `
  mutation Sync($id: ID!) {
    syncService(id: $id) {
      requestId
    }
  }
`);
export const Pause = graphql(/* GraphQL */ `
  mutation Pause($id: ID!) {
    pauseService(id: $id) {
      id
    }
  }
`);
export const Resume = graphql(/* GraphQL */ `
  mutation Resume($id: ID!) {
    resumeService(id: $id) {
      id
    }
  }
`);
export const Release = graphql(/* GraphQL */ `
  mutation Release($id: ID!) {
    releaseService(id: $id) {
      id
    }
  }
`);
export const Rollback = graphql(/* GraphQL */ `
  mutation Rollback($id: ID!, $revisionId: ID!) {
    rollbackService(id: $id, revisionId: $revisionId) {
      id
    }
  }
`);
