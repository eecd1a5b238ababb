import { Button, Group, Text, TextInput } from '@mantine/core';
import { infiniteQueryOptions, keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconX } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { AuditsQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { isFilter, useNext } from '../lib/list';
import { Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import classes from './page.module.css';
import { Verify } from './verify';

const Audits = graphql(/* GraphQL */ `
  query Audits(
    $before: String
    $actor: String
    $action: String
    $target: String
    $requestId: ID
    $noun: String
    $since: DateTime
    $until: DateTime
  ) {
    audits(
      last: 100
      before: $before
      actor: $actor
      action: $action
      target: $target
      requestId: $requestId
      noun: $noun
      since: $since
      until: $until
    ) {
      pageInfo {
        hasPreviousPage
        startCursor
      }
      edges {
        node {
          id
          insertedAt
          actorName
          action
          noun
          targetName
          address
          requestId
          times
        }
      }
    }
  }
`);

export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  target?: string | undefined;
  noun?: string | undefined;
  request?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
}

/** A day as the address has it, as a moment. */
function day(text: string | undefined, after = 0): string | null {
  const at = Date.parse(`${text ?? ''}T00:00:00`);
  return Number.isNaN(at) ? null : new Date(at + after).toISOString();
}
const DAY = 86_400_000;

type Row = NonNullable<NonNullable<NonNullable<NonNullable<AuditsQuery['audits']>['edges']>[number]>['node']>;

/** Newest first: the API tells lists oldest first, so it is read from its end. */
function auditsQuery({ actor, action, target, noun, request, since, until }: AuditFilter) {
  return infiniteQueryOptions({
    queryKey: ['audit', 'list', { actor, action, target, noun, request, since, until }],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      ask(
        Audits,
        {
          before: pageParam ?? null,
          actor: actor ?? null,
          action: action ?? null,
          target: target ?? null,
          noun: noun ?? null,
          requestId: request ?? null,
          since: day(since),
          until: day(until, DAY),
        },
        signal,
      ),
    getNextPageParam: ({ audits: page }) =>
      page?.pageInfo.hasPreviousPage === true ? (page.pageInfo.startCursor ?? undefined) : undefined,
    select: ({ pages }): Row[] =>
      pages.flatMap(({ audits: page }) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse()),
  });
}

const columns: Columns<Row> = [
  { id: 'at', header: 'When', meta: { track: '90px' }, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  { id: 'who', header: 'Who', meta: { track: 'minmax(100px, 1fr)' }, cell: ({ row }) => <Name of={row.original.actorName} /> },
  { id: 'what', header: 'Action', meta: { track: 'minmax(110px, 0.9fr)' }, cell: ({ row }) => <Name of={row.original.action} /> },
  {
    id: 'target',
    header: 'On',
    meta: { track: 'minmax(120px, 1.4fr)', from: 560 },
    cell: ({ row: { original: row } }) => (
      <>
        <Text component="span" size="sm" c="dimmed">
          {row.noun}
        </Text>{' '}
        <Name of={row.targetName} />
      </>
    ),
  },
  {
    id: 'times',
    header: 'Times',
    meta: { track: '60px', from: 760, isNumber: true },
    cell: ({ row }) => row.original.times ?? 1,
  },
  {
    id: 'from',
    header: 'From',
    meta: { track: '130px', from: 860 },
    cell: ({ row }) => <Name of={row.original.address ?? ''} />,
  },
  {
    id: 'request',
    header: 'Request',
    meta: { track: 'minmax(110px, 0.7fr)', from: 1100 },
    cell: ({ row }) => (
      <Text component="span" size="xs" ff="monospace">
        <RouteLink to={paths.audit()} search={{ request: row.original.requestId }}>
          <Name of={row.original.requestId} />
        </RouteLink>
      </Text>
    ),
  },
];

const route = getRouteApi('/audit');

/** The audit log: who did what to what. For administrators. */
export function AuditPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({ ...auditsQuery(search), placeholderData: keepPreviousData });
  const set = (change: AuditFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);
  const given = (text: string) => (text === '' ? undefined : text);
  return (
    <Page title="Audit" isFull actions={<Verify />}>
      <Group gap="sm">
        <div className={classes['searches']}>
          <Search label="Who, exactly" value={search.actor ?? ''} onChange={(text) => set({ actor: given(text) })} />
          <Search
            hasKey={false}
            label="Action, such as service.*"
            value={search.action ?? ''}
            onChange={(text) => set({ action: given(text) })}
          />
          <Search
            hasKey={false}
            label="Thing: name or id"
            value={search.target ?? ''}
            onChange={(text) => set({ target: given(text) })}
          />
        </div>
        <TextInput
          type="date"
          leftSection={<Text size="xs">From</Text>}
          leftSectionWidth={44}
          aria-label="From this day on"
          value={search.since ?? ''}
          onChange={({ currentTarget }) => set({ since: given(currentTarget.value) })}
        />
        <TextInput
          type="date"
          leftSection={<Text size="xs">To</Text>}
          leftSectionWidth={32}
          aria-label="Up to this day"
          value={search.until ?? ''}
          onChange={({ currentTarget }) => set({ until: given(currentTarget.value) })}
        />
        {search.request !== undefined && (
          <Button
            variant="default"
            rightSection={<IconX size={14} aria-label="remove" />}
            onClick={() => set({ request: undefined })}
          >
            Request <Name of={search.request} />
          </Button>
        )}
      </Group>
      <Shown query={list} what="the audit log">
        <Table
          label="Audit log"
          rows={list.data ?? []}
          columns={columns}
          id={({ id }) => id}
          isWaiting={list.isPending}
          next={next}
          empty={
            isFilter({ ...search }) ? (
              <Empty title="Nothing matches">
                Names of actors and things are exact; an action may end in <code>.*</code>.
              </Empty>
            ) : (
              <Empty title="Nothing is recorded yet">
                Every change by the console, the API or the command line is recorded here: who made it, when, to what, and from
                which address.
              </Empty>
            )
          }
        />
      </Shown>
    </Page>
  );
}
