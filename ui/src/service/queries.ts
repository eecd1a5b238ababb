import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { ServiceDeploymentStatus, ServiceQuery, ServicesQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { PAGE } from '../lib/list';
import { orderOf, serviceSorts, type SortWord } from '../lib/sort';

export const Services = graphql(/* GraphQL */ `
  query Services(
    $after: String
    $first: Int
    $q: String
    $status: ServiceDeploymentStatus
    $cluster: String
    $projectId: ID
    $repositoryId: ID
    $contextId: ID
    $sort: ServiceSort
  ) {
    serviceDeployments(
      after: $after
      first: $first
      q: $q
      status: $status
      cluster: $cluster
      projectId: $projectId
      repositoryId: $repositoryId
      contextId: $contextId
      sort: $sort
    ) {
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
          failingSince
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

const Facets = graphql(/* GraphQL */ `
  query ServiceFacets($q: String, $status: ServiceDeploymentStatus, $cluster: String, $projectId: ID) {
    serviceFacets(q: $q, status: $status, cluster: $cluster, projectId: $projectId) {
      statuses {
        status
        count
      }
      clusters {
        cluster {
          id
          handle
        }
        count
      }
      projects {
        project {
          id
          name
        }
        count
      }
    }
  }
`);

export interface ServiceFilter {
  q?: string | undefined;
  status?: ServiceDeploymentStatus | undefined;
  cluster?: string | undefined;
  project?: string | undefined;
  repositoryId?: string | undefined;
  contextId?: string | undefined;
}

type Edge = NonNullable<NonNullable<NonNullable<ServicesQuery['serviceDeployments']>['edges']>[number]>;
export type ServiceRow = NonNullable<Edge['node']>;

/** So many services of a status stand on the page of the fleet: what is below them stays in sight. */
export const ON_HOME = 8;

/** Services a page at a time, searched and filtered at the server. */
export function servicesQuery(filter: ServiceFilter, first = PAGE, sort?: SortWord) {
  return infiniteQueryOptions({
    queryKey: ['service', 'list', filter, first, sort],
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
          projectId: filter.project ?? null,
          repositoryId: filter.repositoryId ?? null,
          contextId: filter.contextId ?? null,
          sort: orderOf(serviceSorts, sort),
        },
        signal,
      ),
    getNextPageParam: ({ serviceDeployments: page }) =>
      page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined,
    select: ({ pages }): ServiceRow[] =>
      pages.flatMap(({ serviceDeployments: page }) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}

/** How many services of a list are where and how. */
export function serviceFacetsQuery({ q, status, cluster, project }: ServiceFilter) {
  const variables = { q: q ?? null, status: status ?? null, cluster: cluster ?? null, projectId: project ?? null };
  return queryOptions({
    queryKey: ['service', 'facets', variables],
    queryFn: async ({ signal }) => (await ask(Facets, variables, signal)).serviceFacets ?? null,
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
        sha
        insertedAt
        healthyAt
      }
      sync {
        step
        phase
        wave
        waves
        wavesDone
        planRequest
        requestDone
        request {
          id
        }
        waitingFor {
          why
          object {
            kind
            namespace
            name
          }
        }
        hooks {
          outcome
          phase
          message
          object {
            kind
            namespace
            name
          }
        }
        promotion {
          promotion
        }
        promoted {
          problems
        }
      }
      syncConfig {
        createNamespace
        deleteNamespace
        enforceNamespace
        serviceAccount
        policy {
          manual
          prune
          pruneObjects
          prunePercent
          selfHeal
          waveWait
          waveTimeout
          retryLimit
        }
      }
      metadata {
        images
        fqdns
      }
      contexts {
        id
        name
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
          group
          version
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

const Recent = graphql(/* GraphQL */ `
  query RecentRevisions($last: Int!) {
    revisions(last: $last) {
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
          service {
            id
            name
            revision {
              id
            }
            cluster {
              id
              handle
            }
          }
        }
      }
    }
  }
`);

/** What changed lately, the newest first. */
export function recentQuery(last: number) {
  return queryOptions({
    queryKey: ['service', 'recent', last],
    queryFn: async ({ signal }) => (await ask(Recent, { last }, signal)).revisions ?? null,
    select: (page) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse(),
  });
}

const Deletion = graphql(/* GraphQL */ `
  query ServiceDeletion($id: ID!, $cascade: Boolean) {
    serviceDeletion(id: $id, cascade: $cascade) {
      hidden
      omitted
      services {
        id
        name
        cluster {
          handle
        }
        components {
          id
          kind
          namespace
          name
        }
      }
    }
  }
`);

/** What goes with a service when it is deleted. */
export function deletionQuery(id: string, cascade: boolean) {
  return queryOptions({
    queryKey: ['service', 'deletion', id, cascade],
    queryFn: async ({ signal }) => (await ask(Deletion, { id, cascade }, signal)).serviceDeletion,
    staleTime: 0,
  });
}

const Preview = graphql(/* GraphQL */ `
  query ServicePreviewOf($cluster: String!, $name: String!) {
    servicePreview(cluster: $cluster, name: $name) {
      errors {
        source
        message
        location
      }
      objects {
        apiVersion
        kind
        namespace
        name
        source
        content
      }
    }
  }
`);

/** What its current revision renders to. Values of Secrets are masked by the console. */
export function previewQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'preview', cluster, name],
    queryFn: async ({ signal }) => (await ask(Preview, { cluster, name }, signal)).servicePreview,
    staleTime: 60_000,
    gcTime: 0,
  });
}
