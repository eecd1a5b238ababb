import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';

import type { PrPhase, PrStatus } from '../generated/graphql';
import type { RowOf } from '../lib/list';
import { visible } from '../lib/text';
import { Linked, text, tracks } from '../parts/cells';
import { Choices, Facets, Only } from '../parts/filter';
import { Listing } from '../parts/listing';
import { State } from '../parts/state';
import type { Columns } from '../parts/table';
import { Ago, Name, Outside, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { automationIdQuery, PullRequests } from './queries';
import { lookOf, statuses, unopened } from './state';

type Chosen = PrStatus | Exclude<PrPhase, 'OPENED'>;
const choices = Object.entries({ ...statuses, ...unopened }).map(([value, { word }]) => ({
  value: value as Chosen,
  label: word,
}));
const isStatus = (word: string | undefined): word is PrStatus => word !== undefined && word in statuses;
const isPhase = (word: string | undefined): word is PrPhase => word !== undefined && word in unopened;
/** An automation that there is none of: nothing was opened with it. */
const NONE = '00000000-0000-0000-0000-000000000000';

const route = getRouteApi('/settings/$noun');

const columns: Columns<RowOf<typeof PullRequests>> = [
  {
    id: 'title',
    header: 'Pull request',
    meta: { track: 'minmax(160px, 2fr)' },
    cell: ({ row: { original: row } }) => <Linked noun="pull-requests" id={row.id} name={row.title ?? row.url} />,
  },
  {
    id: 'status',
    header: 'Status',
    meta: { track: '140px' },
    cell: ({ row: { original: row } }) => (
      <span title={row.error == null ? undefined : visible(row.error)}>
        <State look={lookOf(row)} />
      </span>
    ),
  },
  {
    id: 'repository',
    header: 'Repository',
    meta: tracks.mid,
    cell: ({ row: { original: row } }) =>
      row.repository == null ? (
        ''
      ) : (
        <RouteLink to={paths.settings('pull-requests')} search={{ repository: row.repository }}>
          <Name of={row.repository} />
        </RouteLink>
      ),
  },
  { id: 'creator', header: 'By', meta: { ...tracks.mid, from: 900 }, cell: ({ row }) => text(row.original.creator) },
  {
    id: 'host',
    header: 'At the host',
    meta: { track: '110px', from: 700 },
    cell: ({ row: { original: row } }) => (row.url === '' ? '–' : <Outside address={row.url}>Open it</Outside>),
  },
  { id: 'at', header: 'Asked for', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  const { state, repository, automation } = route.useSearch();
  const navigate = route.useNavigate();
  const id = useQuery(automationIdQuery(automation)).data;
  const without = (name: 'repository' | 'automation') =>
    void navigate({ search: (old) => ({ ...old, [name]: undefined }), replace: true });
  return (
    <Listing
      title="Pull requests"
      noun="pull requests"
      isNewestFirst
      document={PullRequests}
      variables={{
        status: isStatus(state) ? state : null,
        phase: isPhase(state) ? state : null,
        repository: repository ?? null,
        automationId: automation === undefined ? null : (id ?? NONE),
      }}
      columns={columns}
      teaches={
        <>
          Pull requests that were opened with an automation, and how they stand. One begins under{' '}
          <RouteLink to={paths.selfService()}>Self-service</RouteLink>.
        </>
      }
      how="plural pr create AUTOMATION --set NAME=VALUE"
      filters={
        <>
          <Facets<Chosen>
            label="Status"
            value={state as Chosen | undefined}
            onChange={(next) => void navigate({ search: (old) => ({ ...old, state: next }), replace: true })}
            choices={[{ value: undefined, label: 'All' }, ...choices]}
          />
          {(repository !== undefined || automation !== undefined) && (
            <Choices>
              {repository !== undefined && <Only what="Repository" of={repository} end={() => without('repository')} />}
              {automation !== undefined && <Only what="Automation" of={automation} end={() => without('automation')} />}
            </Choices>
          )}
        </>
      }
    />
  );
}
