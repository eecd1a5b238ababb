import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { ClusterDistro, ClusterFacetsQuery, ClustersQuery, ClusterState } from '../generated/graphql';
import { ApiError, ask } from '../lib/client';
import { clusterSorts, orderOf, type SortWord } from '../lib/sort';

const Clusters = graphql(/* GraphQL */ `
  query Clusters(
    $after: String
    $first: Int
    $q: String
    $tagQuery: TagQuery
    $projectId: ID
    $state: ClusterState
    $version: String
    $distro: ClusterDistro
    $sort: ClusterSort
  ) {
    clusters(
      after: $after
      first: $first
      q: $q
      tagQuery: $tagQuery
      projectId: $projectId
      state: $state
      version: $version
      distro: $distro
      sort: $sort
    ) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          handle
          name
          distro
          currentVersion
          state
          connected
          pingedAt
          nodeCount
          podCount
          tags {
            name
            value
          }
          project {
            id
            name
          }
        }
      }
    }
  }
`);

const Facets = graphql(/* GraphQL */ `
  query ClusterFacets(
    $q: String
    $tagQuery: TagQuery
    $projectId: ID
    $state: ClusterState
    $version: String
    $distro: ClusterDistro
    $isWhole: Boolean!
  ) {
    clusterFacets(q: $q, tagQuery: $tagQuery, projectId: $projectId, state: $state, version: $version, distro: $distro) {
      states {
        state
        count
      }
      versions {
        version
        count
      }
      distros {
        distro
        count
      }
      projects @include(if: $isWhole) {
        project {
          id
          name
        }
        count
      }
      tags @include(if: $isWhole) {
        tag {
          name
          value
        }
        count
      }
    }
  }
`);

export interface ClusterFilter {
  q?: string | undefined;
  tag?: string | undefined;
  project?: string | undefined;
  state?: ClusterState | undefined;
  /** A minor version with a `v` before it: an address would have `1.30` for a number. */
  version?: string | undefined;
  distro?: ClusterDistro | undefined;
}

function variablesOf({ q, tag, project, state, version, distro }: ClusterFilter) {
  const [name = '', ...value] = (tag ?? '').split('=');
  return {
    q: q ?? null,
    tagQuery: name === '' ? null : { op: 'AND' as const, tags: [{ name, value: value.join('=') }] },
    projectId: project ?? null,
    state: state ?? null,
    version: version?.replace(/^v/, '') ?? null,
    distro: distro ?? null,
  };
}

type Edge = NonNullable<NonNullable<NonNullable<ClustersQuery['clusters']>['edges']>[number]>;
export type ClusterRow = NonNullable<Edge['node']>;

/** Clusters a page at a time, searched and filtered at the server. */
export function clustersQuery(filter: ClusterFilter, first = 100, sort?: SortWord) {
  const variables = variablesOf(filter);
  return infiniteQueryOptions({
    queryKey: ['cluster', 'list', variables, first, sort],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      ask(Clusters, { ...variables, after: pageParam ?? null, first, sort: orderOf(clusterSorts, sort) }, signal),
    getNextPageParam: ({ clusters: page }) =>
      page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined,
    select: ({ pages }): ClusterRow[] =>
      pages.flatMap(({ clusters: page }) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
}

/** How many clusters of a list are how; `isWhole`: by project and tag, too. */
export function clusterFacetsQuery(filter: ClusterFilter, isWhole = false) {
  const variables = variablesOf(filter);
  return queryOptions({
    queryKey: ['cluster', 'facets', variables, isWhole],
    queryFn: async ({ signal }) => (await ask(Facets, { ...variables, isWhole }, signal)).clusterFacets ?? null,
  });
}
export type ClusterFacets = NonNullable<ClusterFacetsQuery['clusterFacets']>;

const One = graphql(/* GraphQL */ `
  query Cluster($handle: String!) {
    cluster(handle: $handle) {
      id
      handle
      name
      distro
      version
      currentVersion
      agentVersion
      agentUrl
      agentOutdated
      state
      connected
      pingedAt
      insertedAt
      updatedAt
      deletedAt
      protect
      self
      nodeCount
      podCount
      namespaceCount
      kasUrl
      kasCaCertificate
      metadata
      tags {
        name
        value
      }
      project {
        id
        name
      }
      status {
        conditions {
          type
          status
          reason
          message
        }
      }
      apiDeprecations {
        availableIn
        deprecatedIn
        removedIn
        replacement
        blocking
        component {
          id
          kind
          namespace
          name
          service {
            name
          }
        }
      }
    }
  }
`);

/** One cluster as its page shows it. */
export function clusterQuery(handle: string) {
  return queryOptions({
    queryKey: ['cluster', 'one', handle],
    queryFn: async ({ signal }) => (await ask(One, { handle }, signal)).cluster,
  });
}

const AuditOf = graphql(/* GraphQL */ `
  query ClusterAudit($handle: String!) {
    cluster(handle: $handle) {
      id
      auditLogs(last: 100) {
        edges {
          node {
            id
            actorName
            impersonatedUser
            method
            path
            responseCode
            recordingId
            durationMs
            insertedAt
          }
        }
      }
    }
  }
`);

/** Who asked its API server for what through the console: the newest hundred. */
export function clusterAuditQuery(handle: string) {
  return queryOptions({
    queryKey: ['cluster', 'audit', handle],
    queryFn: async ({ signal }) => (await ask(AuditOf, { handle }, signal)).cluster,
  });
}

const RecordingsOf = graphql(/* GraphQL */ `
  query ClusterRecordings($handle: String!) {
    cluster(handle: $handle) {
      id
      recordings(last: 100) {
        edges {
          node {
            id
            actorName
            pod
            namespace
            container
            command
            kind
            state
            bytes
            durationMs
            insertedAt
            projectName
          }
        }
      }
    }
  }
`);

/** Recordings of shells in it: the newest hundred. */
export function clusterRecordingsQuery(handle: string) {
  return queryOptions({
    queryKey: ['recordings', 'cluster', handle],
    queryFn: async ({ signal }) => (await ask(RecordingsOf, { handle }, signal)).cluster,
  });
}

const Arrival = graphql(/* GraphQL */ `
  query Arrival($handle: String!) {
    cluster(handle: $handle) {
      id
      handle
      connected
      pingedAt
      insertedAt
      agentVersion
      currentVersion
    }
  }
`);

/** Whether it is there, and its agent. Not there is no fault: somebody waits for it. */
export function arrivalQuery(handle: string) {
  return queryOptions({
    queryKey: ['arrival', handle],
    queryFn: async ({ signal }) => {
      try {
        return (await ask(Arrival, { handle }, signal)).cluster ?? null;
      } catch (error) {
        if (error instanceof ApiError && error.code === 'NOT_FOUND') return null;
        throw error;
      }
    },
    refetchInterval: 2000,
    gcTime: 0,
  });
}

export const UpdateCluster = graphql(/* GraphQL */ `
  mutation UpdateCluster($id: ID!, $attributes: ClusterUpdateAttributes!) {
    updateCluster(id: $id, attributes: $attributes) {
      id
      handle
    }
  }
`);
export const DeleteCluster = graphql(/* GraphQL */ `
  mutation DeleteCluster($id: ID!) {
    deleteCluster(id: $id) {
      id
    }
  }
`);
export const DetachCluster = graphql(/* GraphQL */ `
  mutation DetachCluster($id: ID!) {
    detachCluster(id: $id) {
      id
    }
  }
`);
export const RenewToken = graphql(/* GraphQL */ `
  mutation RenewToken($id: ID!) {
    renewDeployToken(id: $id) {
      id
    }
  }
`);
