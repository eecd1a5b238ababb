import { Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';

import type { ServiceDeploymentStatus } from '../generated/graphql';
import { isAnswered, isFilter, PAGE, useNext } from '../lib/list';
import { Copy } from '../parts/action';
import { Choices, Choose, Facets, Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { State, serviceStatuses, statusOrder } from '../parts/state';
import { Table } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { SaveView } from '../savedview/save';
import { CreateService } from './create';
import { serviceFacetsQuery, servicesQuery } from './queries';
import { serviceColumns } from './table';

const route = getRouteApi('/services');

/** All services that one may see. */
export function ServicesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { sort, ...filter } = search;
  const list = useInfiniteQuery({ ...servicesQuery(filter, PAGE, sort), placeholderData: keepPreviousData });
  const facets = useQuery({ ...serviceFacetsQuery(filter), placeholderData: keepPreviousData, enabled: isAnswered(list) });
  const set = (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);

  const known = facets.data?.statuses && new Map(facets.data.statuses.map(({ status, count }) => [status, count]));
  const all = known && [...known.values()].reduce((sum, count) => sum + count, 0);
  const total = search.status === undefined ? all : known?.get(search.status);
  const isFiltered = isFilter(filter);
  const { clusters, projects } = facets.data ?? {};
  const ofClusters = useMemo(
    () =>
      (clusters ?? []).flatMap(({ cluster, count }) =>
        cluster?.handle == null ? [] : [{ value: cluster.handle, label: cluster.handle, count }],
      ),
    [clusters],
  );
  const ofProjects = useMemo(
    () => (projects ?? []).flatMap(({ project, count }) => (project ? [{ value: project.id, label: project.name, count }] : [])),
    [projects],
  );
  return (
    <Page
      title="Services"
      isFull
      actions={
        <>
          <SaveView page="services" search={search} />
          <CreateService cluster={search.cluster} enabled={!list.isPending} />
        </>
      }
    >
      <Group gap="sm">
        <Search label="Search by name" value={search.q ?? ''} onChange={(q) => set({ q: q === '' ? undefined : q })} />
        <Facets<ServiceDeploymentStatus>
          label="Status"
          isWaiting={!isAnswered(facets)}
          value={search.status}
          onChange={(status) => set({ status })}
          choices={[
            { value: undefined, label: 'All', count: all ?? undefined },
            ...statusOrder.map((status) => ({
              value: status,
              label: <State look={serviceStatuses[status]} />,
              count: known ? (known.get(status) ?? 0) : undefined,
            })),
          ]}
        />
        <Choices>
          <Choose label="Cluster" value={search.cluster} onChange={(cluster) => set({ cluster })} choices={ofClusters} />
          <Choose label="Project" value={search.project} onChange={(project) => set({ project })} choices={ofProjects} />
        </Choices>
      </Group>
      <Shown query={list} what="services">
        <Table
          label="Services"
          rows={list.data ?? []}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          {...(total != null && { total })}
          sort={{ word: sort, onChange: (word) => set({ sort: word }) }}
          next={next}
          empty={
            isFiltered ? (
              <Empty title="No service matches">
                None that you may see has all that the address asks for
                {search.q !== undefined && (
                  <>
                    : <Name of={search.q} /> in its name
                  </>
                )}
                . <RouteLink to={paths.services()}>Show all services</RouteLink>
              </Empty>
            ) : (
              <Empty title="No services yet">
                A service keeps a folder of a git repository applied in one cluster. Create the first with{' '}
                <code>plural cd services create</code>
                <Copy text="plural cd services create --help" label="Copy the command" />
              </Empty>
            )
          }
        />
      </Shown>
    </Page>
  );
}
