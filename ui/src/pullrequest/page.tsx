import { getRouteApi } from '@tanstack/react-router';

import { graphql } from '../generated';
import type { PrStatus } from '../generated/graphql';
import type { RowOf } from '../lib/list';
import { visible } from '../lib/text';
import { text, tracks } from '../parts/cells';
import { Facets } from '../parts/filter';
import { Listing } from '../parts/listing';
import type { Columns } from '../parts/table';
import { Ago, Outside } from '../parts/text';

const PullRequests = graphql(/* GraphQL */ `
  query PullRequests($after: String, $status: PrStatus, $q: String) {
    list: pullRequests(first: 100, after: $after, status: $status, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
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

const looks: Record<PrStatus, string> = { OPEN: 'Open', MERGED: 'Merged', CLOSED: 'Closed' };
const isStatus = (word: string | undefined): word is PrStatus => word !== undefined && word in looks;

const route = getRouteApi('/settings/$noun');

const columns: Columns<RowOf<typeof PullRequests>> = [
  {
    id: 'title',
    header: 'Pull request',
    meta: { track: 'minmax(160px, 2fr)' },
    cell: ({ row: { original: row } }) => <Outside address={row.url}>{visible(row.title ?? row.url)}</Outside>,
  },
  {
    id: 'status',
    header: 'Status',
    meta: { track: '110px' },
    cell: ({ row: { original: row } }) => {
      if (row.status != null) return looks[row.status];
      const why = row.error == null ? undefined : visible(row.error);
      return <span title={why}>{row.phase === 'FAILED' ? 'Not opened' : 'Being opened'}</span>;
    },
  },
  { id: 'repository', header: 'Repository', meta: tracks.mid, cell: ({ row }) => text(row.original.repository) },
  { id: 'creator', header: 'By', meta: { ...tracks.mid, from: 900 }, cell: ({ row }) => text(row.original.creator) },
  { id: 'at', header: 'Opened', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  const { state } = route.useSearch();
  const navigate = route.useNavigate();
  const chosen = isStatus(state) ? state : undefined;
  return (
    <Listing
      title="Pull requests"
      noun="pull requests"
      document={PullRequests}
      variables={{ status: chosen ?? null }}
      columns={columns}
      teaches="Pull requests that were opened with an automation, and how they stand."
      filters={
        <Facets<PrStatus>
          label="Status"
          value={chosen}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, state: next }), replace: true })}
          choices={[
            { value: undefined, label: 'All' },
            ...(Object.keys(looks) as PrStatus[]).map((status) => ({ value: status, label: looks[status] })),
          ]}
        />
      }
    />
  );
}
