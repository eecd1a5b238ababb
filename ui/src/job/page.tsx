import { Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { IconRefresh, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { BackgroundJobState } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { Facets } from '../parts/filter';
import { Listing } from '../parts/listing';
import { componentStates, State, type Look } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Jobs = graphql(/* GraphQL */ `
  query Jobs($after: String, $state: BackgroundJobState) {
    list: backgroundJobs(first: 100, after: $after, state: $state) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          kind
          key
          state
          attempts
          error
          runAfter
          insertedAt
          updatedAt
        }
      }
    }
  }
`);
const Retry = graphql(/* GraphQL */ `
  mutation RetryJob($id: ID!) {
    retryBackgroundJob(id: $id) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteJob($id: ID!) {
    deleteBackgroundJob(id: $id) {
      id
    }
  }
`);

const looks: Record<BackgroundJobState, Look> = {
  DEAD: { ...componentStates.FAILED, word: 'Dead' },
  RUNNING: { ...componentStates.PENDING, word: 'Running' },
  WAITING: { ...componentStates.PENDING, word: 'Waiting', tone: 'none' },
};
const states: BackgroundJobState[] = ['DEAD', 'RUNNING', 'WAITING'];

/** What each kind of job does. One of a later release has its own name. */
const works: Record<string, string> = {
  move_secrets: 'Move secrets to their backend',
  renew_project: 'Look up a project’s services again',
  renew_services: 'Look up a repository’s services again',
  reseal: 'Encrypt secrets with the current key',
};

const columns: Columns<RowOf<typeof Jobs>> = [
  {
    id: 'kind',
    header: 'Work',
    meta: { track: 'minmax(200px, 1fr)' },
    cell: ({ row }) => text(works[row.original.kind] ?? row.original.kind),
  },
  {
    id: 'key',
    header: 'On',
    meta: { track: 'minmax(70px, 1fr)', from: 620 },
    cell: ({ row }) => (
      <Text component="span" size="xs" ff="monospace">
        <Name of={row.original.key} />
      </Text>
    ),
  },
  { id: 'state', header: 'State', meta: { track: '90px' }, cell: ({ row }) => <State look={looks[row.original.state]} /> },
  {
    id: 'error',
    header: 'Last error',
    meta: { ...tracks.wide, from: 760, isBlank: ({ error }) => error == null },
    cell: ({ row }) => text(row.original.error),
  },
  {
    id: 'attempts',
    header: 'Tries',
    meta: { track: '60px', from: 560, isNumber: true },
    cell: ({ row }) => row.original.attempts,
  },
  { id: 'at', header: 'Changed', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.updatedAt} /> },
  {
    id: 'do',
    header: '',
    meta: { track: '170px', from: 480 },
    cell: ({ row: { original: job } }) => (
      <span style={{ display: 'inline-flex', gap: 4 }}>
        {job.state === 'DEAD' && (
          <Action
            noun="jobs"
            isSmall
            label="Retry"
            icon={IconRefresh}
            right={{ verb: 'retry', thing: 'jobs' }}
            explains="It runs again at once."
            command={`plural cd jobs retry ${job.id}`}
            run={() => ask(Retry, { id: job.id })}
            done="The job runs again"
          />
        )}
        {job.state !== 'RUNNING' && (
          <Action
            noun="jobs"
            isSmall
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={{ verb: 'delete', thing: 'jobs' }}
            explains="The work is not done. Something that happens later may enqueue it again."
            command={`plural cd jobs delete ${job.id}`}
            run={() => ask(Delete, { id: job.id })}
            done="Deleted the job"
          />
        )}
      </span>
    ),
  },
];

const route = getRouteApi('/settings/$noun');

export function List() {
  const { state } = route.useSearch();
  const navigate = route.useNavigate();
  const chosen = states.find((one) => one === state);
  return (
    <Listing
      title="Background jobs"
      noun="jobs"
      document={Jobs}
      columns={columns}
      isSearched={false}
      variables={{ state: chosen ?? null }}
      teaches="All work is done. Encrypting secrets with a new key, moving them to a backend, and telling agents of changed addresses appear here while they wait, and stay here when they failed for good."
      filters={
        <Facets<BackgroundJobState>
          label="State"
          value={chosen}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, state: next }), replace: true })}
          choices={[
            { value: undefined, label: 'All' },
            ...states.map((one) => ({ value: one, label: <State look={looks[one]} /> })),
          ]}
        />
      }
    />
  );
}
