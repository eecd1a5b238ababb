import { Group, Tabs } from '@mantine/core';
import { infiniteQueryOptions, keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, type ReactNode } from 'react';

import { graphql } from '../generated';
import type { TypedDocumentString } from '../generated/graphql';
import { ask } from '../lib/client';
import { paths, settings, type Setting } from '../paths';
import { Search } from '../parts/filter';
import { Empty, Fault, Page } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, Outside } from '../parts/text';

const Repositories = graphql(/* GraphQL */ `
  query Repositories($after: String, $q: String) {
    list: gitRepositories(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          url
          health
          error
          authMethod
          pulledAt
        }
      }
    }
  }
`);
const Projects = graphql(/* GraphQL */ `
  query Projects($after: String, $q: String) {
    list: projects(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          default
          insertedAt
        }
      }
    }
  }
`);
const Users = graphql(/* GraphQL */ `
  query Users($after: String, $q: String) {
    list: users(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          email
          serviceAccount
          suspendedAt
          insertedAt
          roles {
            admin
          }
        }
      }
    }
  }
`);
const Groups = graphql(/* GraphQL */ `
  query Groups($after: String, $q: String) {
    list: groups(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          insertedAt
        }
      }
    }
  }
`);
const Tokens = graphql(/* GraphQL */ `
  query Tokens($after: String) {
    list: accessTokens(first: 100, after: $after) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          hint
          scopes
          session
          insertedAt
          expiresAt
        }
      }
    }
  }
`);

interface Lists<Row> {
  list?: {
    pageInfo: { hasNextPage: boolean; endCursor?: string | null };
    edges?: ({ node?: Row | null } | null)[] | null;
  } | null;
}
type RowOf<Document> = Document extends TypedDocumentString<Lists<infer Row>, never> ? Row : never;

const text = (value: string | null | undefined): ReactNode => (value == null ? '–' : <Name of={value} />);
const wide = { track: 'minmax(140px, 2fr)' };
const mid = { track: 'minmax(100px, 1fr)', from: 620 };
const when = { track: '100px', from: 480, isNumber: true };

const repositories: Columns<RowOf<typeof Repositories>> = [
  { id: 'url', header: 'Repository', meta: wide, cell: ({ row }) => <Outside address={row.original.url} /> },
  {
    id: 'health',
    header: 'Health',
    meta: { track: '90px' },
    cell: ({ row }) => (row.original.health === 'FAILED' ? 'Failed' : row.original.health === 'PULLABLE' ? 'Fetched' : 'Not yet'),
  },
  { id: 'error', header: 'Why', meta: { ...wide, from: 760 }, cell: ({ row }) => text(row.original.error) },
  { id: 'auth', header: 'Access by', meta: mid, cell: ({ row }) => text(row.original.authMethod?.toLowerCase()) },
  { id: 'at', header: 'Fetched', meta: when, cell: ({ row }) => <Ago at={row.original.pulledAt} absent="never" /> },
];
const projects: Columns<RowOf<typeof Projects>> = [
  { id: 'name', header: 'Project', meta: wide, cell: ({ row }) => text(row.original.name) },
  { id: 'description', header: 'Description', meta: mid, cell: ({ row }) => text(row.original.description) },
  { id: 'at', header: 'Made', meta: when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];
const users: Columns<RowOf<typeof Users>> = [
  { id: 'name', header: 'User', meta: wide, cell: ({ row }) => text(row.original.name) },
  { id: 'email', header: 'E-mail address', meta: mid, cell: ({ row }) => text(row.original.email) },
  {
    id: 'is',
    header: 'Is',
    meta: { track: '150px' },
    cell: ({ row: { original: user } }) =>
      user.suspendedAt != null
        ? 'suspended'
        : user.roles?.admin === true
          ? 'administrator'
          : user.serviceAccount === true
            ? 'service account'
            : 'user',
  },
  { id: 'at', header: 'Made', meta: when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];
const groups: Columns<RowOf<typeof Groups>> = [
  { id: 'name', header: 'Group', meta: wide, cell: ({ row }) => text(row.original.name) },
  { id: 'description', header: 'Description', meta: mid, cell: ({ row }) => text(row.original.description) },
  { id: 'at', header: 'Made', meta: when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];
const tokens: Columns<RowOf<typeof Tokens>> = [
  { id: 'hint', header: 'Token', meta: wide, cell: ({ row }) => text(row.original.hint) },
  {
    id: 'kind',
    header: 'Is',
    meta: { track: '110px' },
    cell: ({ row }) => (row.original.session === true ? 'a session' : 'a token'),
  },
  {
    id: 'scopes',
    header: 'May',
    meta: mid,
    cell: ({ row }) => text((row.original.scopes ?? []).join(', ') || 'all that you may'),
  },
  { id: 'at', header: 'Made', meta: when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  {
    id: 'until',
    header: 'Ends',
    meta: { track: '170px', from: 620 },
    cell: ({ row }) => (row.original.expiresAt == null ? 'never' : new Date(row.original.expiresAt).toLocaleString()),
  },
];

const route = getRouteApi('/settings/$noun');
const words: Record<Setting, string> = {
  repositories: 'Repositories',
  projects: 'Projects',
  users: 'Users',
  groups: 'Groups',
  tokens: 'Your tokens',
};

/** What the installation consists of besides clusters and services. */
export function SettingsPage() {
  const { noun } = route.useParams();
  const navigate = useNavigate();
  const one = settings.find((setting) => setting === noun) ?? 'repositories';
  return (
    <Page title="Settings" isFull>
      <Tabs
        value={one}
        keepMounted={false}
        onChange={(next) => void navigate({ to: paths.settings(next as Setting) })}
        className="fills"
      >
        <Tabs.List mb="md">
          {settings.map((setting) => (
            <Tabs.Tab key={setting} value={setting}>
              {words[setting]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="repositories" className="fills">
          <List noun="repositories" document={Repositories} columns={repositories} how="plural cd repositories create --help" />
        </Tabs.Panel>
        <Tabs.Panel value="projects" className="fills">
          <List noun="projects" document={Projects} columns={projects} how="plural cd projects create --help" />
        </Tabs.Panel>
        <Tabs.Panel value="users" className="fills">
          <List noun="users" document={Users} columns={users} how="plural cd users create --help" />
        </Tabs.Panel>
        <Tabs.Panel value="groups" className="fills">
          <List noun="groups" document={Groups} columns={groups} how="plural cd groups create --help" />
        </Tabs.Panel>
        <Tabs.Panel value="tokens" className="fills">
          <List noun="tokens" document={Tokens} columns={tokens} how="plural tokens create --help" isSearched={false} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function List<Row extends { id?: string | null }, Data extends Lists<Row>, Variables>(props: {
  noun: string;
  document: TypedDocumentString<Data, Variables>;
  columns: Columns<Row>;
  how: string;
  isSearched?: boolean;
}) {
  const { q } = route.useSearch();
  const navigate = route.useNavigate();
  const { noun, document, columns, how, isSearched = true } = props;
  const list = useInfiniteQuery({
    ...infiniteQueryOptions({
      queryKey: [noun, 'list', q],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ pageParam, signal }): Promise<Lists<Row>> =>
        ask(document, { after: pageParam ?? null, ...(isSearched && { q: q ?? null }) } as Variables, signal),
      getNextPageParam: ({ list: page }) =>
        page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined,
      select: ({ pages }): Row[] => pages.flatMap(({ list: page }) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
    }),
    placeholderData: keepPreviousData,
  });
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = list;
  const more = useCallback(() => {
    if (!isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, isFetchingNextPage]);
  if (list.isError && list.data === undefined) return <Fault error={list.error} what={noun} retry={() => void list.refetch()} />;
  return (
    <div className="fills">
      {isSearched && (
        <Group mb="sm">
          <Search
            label={`Search in ${noun}`}
            value={q ?? ''}
            onChange={(typed) => void navigate({ search: { q: typed === '' ? undefined : typed }, replace: true })}
          />
        </Group>
      )}
      <Table
        label={noun}
        rows={list.data ?? []}
        columns={columns}
        id={(row) => row.id ?? ''}
        isWaiting={list.isPending}
        {...(hasNextPage && { more })}
        empty={
          <Empty title={q === undefined ? `No ${noun} yet` : `No ${noun} match`}>
            {q === undefined && (
              <>
                Make one: <code>{how}</code>
              </>
            )}
          </Empty>
        }
      />
    </div>
  );
}
