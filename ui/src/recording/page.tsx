import { getRouteApi } from '@tanstack/react-router';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';

import { graphql } from '../generated';
import type { RecordingState } from '../generated/graphql';
import type { RowOf } from '../lib/list';
import { size } from '../lib/text';
import { Command } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { Listing } from '../parts/listing';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import { paths } from '../paths';
import { headOf } from './cast';

const Player = lazy(() => import('./player'));

const Recordings = graphql(/* GraphQL */ `
  query Recordings($after: String, $projectName: String) {
    list: recordings(first: 100, after: $after, projectName: $projectName) {
      pageInfo {
        hasNextPage
        endCursor
      }
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
`);

export const recordingStates: Record<RecordingState, string> = {
  RUNNING: 'under way',
  ENDED: 'ended',
  FULL: 'full',
  FAILED: 'failed',
  BROKEN: 'broken off',
};

/** Columns of recordings, wherever they stand. */
export const recordingColumns: Columns<RowOf<typeof Recordings>> = [
  {
    id: 'who',
    header: 'Who',
    meta: { track: 'minmax(160px, 1.2fr)' },
    cell: ({ row }) => <Linked noun="recordings" id={row.original.id} name={row.original.actorName} />,
  },
  {
    id: 'where',
    header: 'Where',
    meta: { track: 'minmax(120px, 1fr)' },
    cell: ({ row: { original: one } }) => text(`${one.namespace}/${one.pod}${one.container == null ? '' : ` ${one.container}`}`),
  },
  {
    id: 'command',
    header: 'Command',
    meta: { track: 'minmax(100px, 1.4fr)', from: 620 },
    cell: ({ row }) => text(row.original.kind === 'ATTACH' ? 'attached' : (row.original.command ?? []).join(' ')),
  },
  { id: 'state', header: 'State', meta: { track: '80px', from: 480 }, cell: ({ row }) => recordingStates[row.original.state] },
  {
    id: 'length',
    header: 'Length',
    meta: { track: '60px', from: 560, isNumber: true },
    cell: ({ row }) => `${Math.round(row.original.durationMs / 1000)} s`,
  },
  {
    id: 'bytes',
    header: 'Size',
    meta: { track: '70px', from: 760, isNumber: true },
    cell: ({ row }) => size(row.original.bytes),
  },
  { id: 'at', header: 'Began', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

const route = getRouteApi('/settings/$noun');

export function List() {
  const { project } = route.useSearch();
  return (
    <Listing
      title="Recordings"
      noun="recordings"
      document={Recordings}
      columns={recordingColumns}
      isSearched={false}
      variables={{ projectName: project ?? null }}
      teaches="What shells in clusters showed, where a project records them. You see those that you may read."
      how="plural cd projects recordings PROJECT on --user EMAIL"
    />
  );
}

/** One recording, played in a terminal. Reading it is a line of the audit log. */
export function One({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['recordings', 'cast', id],
    queryFn: async ({ signal }) => {
      const response = await fetch(`/ext/v1/recordings/${encodeURIComponent(id)}`, { headers: { 'x-plural-csrf': '1' }, signal });
      if (response.status === 404) return null;
      if (!response.ok) throw new Error(`the console answered ${response.status}`);
      return await response.text();
    },
    staleTime: Infinity,
    gcTime: 0,
    refetchInterval: false,
  });
  return (
    <Page title="Recording" within={[{ name: 'Recordings', to: paths.settings('recordings') }]}>
      {query.isPending && <Waiting lines={10} />}
      {query.isError && <Fault error={query.error} what="the recording" retry={() => void query.refetch()} />}
      {query.data === null && (
        <Empty title="There is no such recording">It was kept long enough and is gone, or you may not read it.</Empty>
      )}
      {query.data != null && <Head cast={query.data} />}
      {query.data != null && (
        <Suspense fallback={<Waiting lines={10} />}>
          <Player cast={query.data} />
        </Suspense>
      )}
      <Panel title="By command line">
        <div style={{ padding: 12 }}>
          <Command line={`plural cd clusters recordings play ${id}`} />
        </div>
      </Panel>
    </Page>
  );
}

/** Who was in the shell, where, and since when, as the recording itself says. */
function Head({ cast }: { cast: string }) {
  const { title, command, at } = headOf(cast);
  return (
    <Panel title="Who and where">
      <Facts
        facts={[
          ['Shell', title !== undefined && <Name of={title} />],
          ['Command', command !== undefined && <Name of={command} />],
          ['Began', at !== undefined && <Ago key="at" at={at} />],
        ]}
      />
    </Panel>
  );
}
