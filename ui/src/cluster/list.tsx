import { Button, Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { IconPlus, IconX } from '@tabler/icons-react';

import { useNext } from '../lib/list';
import { Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { SaveView } from '../savedview/save';
import { clustersQuery } from './queries';
import { clusterColumns } from './table';

const route = getRouteApi('/clusters');

/** All clusters that one may see. */
export function ClustersPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({ ...clustersQuery(search), placeholderData: keepPreviousData });
  const set = (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);
  const rows = list.data ?? [];
  return (
    <Page
      title="Clusters"
      isFull
      actions={
        <>
          <SaveView page="clusters" search={search} />
          <Button component={Link} to={paths.connect()} variant="default" leftSection={<IconPlus size={14} />}>
            Connect a cluster
          </Button>
        </>
      }
    >
      <Group gap="sm">
        <Search label="Search by name or handle" value={search.q ?? ''} onChange={(q) => set({ q: q === '' ? undefined : q })} />
        {search.tag !== undefined && (
          <Button
            variant="default"
            rightSection={<IconX size={14} aria-label="remove" />}
            onClick={() => set({ tag: undefined })}
          >
            Tag <Name of={search.tag} />
          </Button>
        )}
      </Group>
      <Shown query={list} what="clusters">
        <Table
          label="Clusters"
          rows={rows}
          columns={clusterColumns}
          id={(cluster) => cluster.id}
          isWaiting={list.isPending}
          {...(!list.hasNextPage && { total: rows.length })}
          next={next}
          empty={
            search.q !== undefined || search.tag !== undefined ? (
              <Empty title="No cluster matches">Change the search or remove the tag.</Empty>
            ) : (
              <Empty title="No clusters yet">
                An agent in the cluster connects to this console; the console needs no access to the cluster.{' '}
                <RouteLink to={paths.connect()}>Connect the first one</RouteLink> with one command.
              </Empty>
            )
          }
        />
      </Shown>
    </Page>
  );
}
