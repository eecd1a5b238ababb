import { IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { Action } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import { clusterStates, serviceStatuses } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';

const Views = graphql(/* GraphQL */ `
  query SavedViews($after: String, $q: String) {
    list: savedViews(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          page
          query
          insertedAt
          owner {
            email
          }
        }
      }
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteView($id: ID!) {
    deleteSavedView(id: $id) {
      id
    }
  }
`);

/** The address of a view, if its page is one of this console. */
export function address(page: string): string | undefined {
  return ['services', 'clusters', 'audit'].includes(page) ? `/${page}` : undefined;
}

const states: Record<string, { word: string }> = { ...serviceStatuses, ...clusterStates };
const filters: Record<string, string> = { q: 'search', sort: 'sorted by' };

/** A query of an address in words: `status Failed, cluster eu-prod-0`. */
function told(query: string): string {
  const told = [...new URLSearchParams(query)].map(
    ([name, value]) => `${filters[name] ?? name} ${['status', 'state'].includes(name) ? (states[value]?.word ?? value) : value}`,
  );
  return told.join(', ') || 'everything';
}

const columns: Columns<RowOf<typeof Views>> = [
  {
    id: 'name',
    header: 'View',
    meta: { track: 'minmax(90px, 1.4fr)' },
    cell: ({ row: { original: view } }) => {
      const to = address(view.page);
      return to === undefined ? (
        text(view.name)
      ) : (
        <RouteLink to={to} search={Object.fromEntries(new URLSearchParams(view.query))} strong>
          <Name of={view.name} />
        </RouteLink>
      );
    },
  },
  { id: 'page', header: 'Page', meta: { track: '100px', from: 480 }, cell: ({ row }) => text(row.original.page) },
  { id: 'query', header: 'Shows', meta: { track: 'minmax(100px, 2fr)' }, cell: ({ row }) => text(told(row.original.query)) },
  { id: 'owner', header: 'Owner', meta: tracks.mid, cell: ({ row }) => text(row.original.owner?.email) },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'do',
    header: '',
    meta: { track: '100px' },
    cell: ({ row }) => (
      <Action
        noun="saved views"
        isSmall
        isDangerous
        label="Delete"
        icon={IconTrash}
        explains="It goes for those with whom it is shared, too."
        command={`plural cd saved-views delete ${row.original.id}`}
        run={() => ask(Delete, { id: row.original.id })}
        done="Deleted the view"
      />
    ),
  },
];

export function List() {
  return (
    <Listing
      title="Saved views"
      noun="saved views"
      document={Views}
      columns={columns}
      teaches="Filters of a page under a name. Services and Clusters have a button that saves what they show."
    />
  );
}
