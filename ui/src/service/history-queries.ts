import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import { ask } from '../lib/client';

const History = graphql(/* GraphQL */ `
  query ServiceHistory($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      revision {
        id
        plan {
          id
          insertedAt
        }
      }
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
            git {
              ref
              folder
            }
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

const Compared = graphql(/* GraphQL */ `
  query ServiceCompared($cluster: String!, $name: String!) {
    serviceDeployment(cluster: $cluster, name: $name) {
      id
      revisions(last: 50) {
        edges {
          node {
            id
            plan {
              id
              error
              omitted
              objects {
                action
                phase
                wave
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
                fieldsOmitted
              }
            }
          }
        }
      }
    }
  }
`);

/** What the syncs of each of those revisions changed. Apart from what it was: a page of a service that is watched reads that often. */
export function comparedQuery(cluster: string, name: string) {
  return queryOptions({
    queryKey: ['service', 'compared', cluster, name],
    queryFn: async ({ signal }) => (await ask(Compared, { cluster, name }, signal)).serviceDeployment,
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
            requestId
            revisionId
            error
            unchanged
            omitted
            objects {
              action
              location
              wave
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
                writtenAt
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
              manager
              writtenAt
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
