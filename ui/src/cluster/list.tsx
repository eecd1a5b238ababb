import { Button, Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { IconPlus, IconX } from '@tabler/icons-react';

import type { ClusterState } from '../generated/graphql';
import { isAnswered, isFilter, PAGE, useNext } from '../lib/list';
import { Choices, Choose, Facets, Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { clusterStates, State, stateOrder } from '../parts/state';
import { Table } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { SaveView } from '../savedview/save';
import { distribution } from './fleet';
import { clusterFacetsQuery, clustersQuery } from './queries';
import { clusterColumns } from './table';

const route = getRouteApi('/clusters');

/** All clusters that one may see. */
export function ClustersPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({ ...clustersQuery(search, PAGE, search.sort), placeholderData: keepPreviousData });
  const facets = useQuery({
    ...clusterFacetsQuery(search, true),
    placeholderData: keepPreviousData,
    enabled: isAnswered(list),
  });
  const set = (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);
  const rows = list.data ?? [];
  const states = new Map(facets.data?.states?.map(({ state, count }) => [state, count]));
  const all = facets.data && [...states.values()].reduce((sum, count) => sum + count, 0);
  const total = search.state === undefined ? all : states.get(search.state);
  const isFiltered = isFilter({ ...search, sort: undefined });
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
        <Facets<ClusterState>
          label="State"
          isWaiting={!isAnswered(facets)}
          value={search.state}
          onChange={(state) => set({ state })}
          choices={[
            { value: undefined, label: 'All', count: all ?? undefined },
            ...stateOrder.map((state) => ({
              value: state,
              label: <State look={clusterStates[state]} />,
              count: facets.data ? (states.get(state) ?? 0) : undefined,
            })),
          ]}
        />
        <Choices>
          <Choose
            label="Kubernetes"
            value={search.version}
            onChange={(version) => set({ version })}
            choices={(facets.data?.versions ?? []).flatMap(({ version, count }) =>
              version == null ? [] : [{ value: `v${version}`, label: `v${version}`, count }],
            )}
          />
          <Choose
            label="Distribution"
            value={search.distro}
            onChange={(distro) => set({ distro })}
            choices={(facets.data?.distros ?? []).flatMap(({ distro, count }) =>
              distro == null ? [] : [{ value: distro, label: distribution(distro), count }],
            )}
          />
          <Choose
            label="Project"
            value={search.project}
            onChange={(project) => set({ project })}
            choices={(facets.data?.projects ?? []).flatMap(({ project, count }) =>
              project ? [{ value: project.id, label: project.name, count }] : [],
            )}
          />
        </Choices>
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
          {...(total != null && { total })}
          sort={{ word: search.sort, onChange: (sort) => set({ sort }) }}
          next={next}
          empty={
            isFiltered ? (
              <Empty title="No cluster matches">
                None that you may see has all that the address asks for.{' '}
                <RouteLink to={paths.clusters()}>Show all clusters</RouteLink>
              </Empty>
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
