import { Button, Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconX } from '@tabler/icons-react';

import type { ServiceDeploymentStatus } from '../generated/graphql';
import { useNext } from '../lib/list';
import { Copy } from '../parts/action';
import { Facets, Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { State, serviceStatuses, statusOrder } from '../parts/state';
import { Table } from '../parts/table';
import { Name } from '../parts/text';
import { SaveView } from '../savedview/save';
import { CreateService } from './create';
import { servicesQuery, statusesQuery } from './queries';
import { serviceColumns } from './table';

const route = getRouteApi('/services');

/** All services that one may see. */
export function ServicesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({ ...servicesQuery(search), placeholderData: keepPreviousData });
  const counts = useQuery({
    ...statusesQuery({ q: search.q }),
    placeholderData: keepPreviousData,
    enabled: search.cluster === undefined,
  });
  const set = (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);

  const known = search.cluster === undefined ? counts.data : undefined;
  const all = known && [...known.values()].reduce((sum, count) => sum + count, 0);
  const total = search.status === undefined ? all : known?.get(search.status);
  const isFiltered = search.q !== undefined || search.status !== undefined || search.cluster !== undefined;
  return (
    <Page
      title="Services"
      isFull
      actions={
        <>
          <SaveView page="services" search={search} />
          <CreateService cluster={search.cluster} />
        </>
      }
    >
      <Group gap="sm">
        <Search label="Search by name" value={search.q ?? ''} onChange={(q) => set({ q: q === '' ? undefined : q })} />
        <Facets<ServiceDeploymentStatus>
          label="Status"
          value={search.status}
          onChange={(status) => set({ status })}
          choices={[
            { value: undefined, label: 'All', count: all },
            ...statusOrder.map((status) => ({
              value: status,
              label: <State look={serviceStatuses[status]} />,
              count: known?.get(status),
            })),
          ]}
        />
        {search.cluster !== undefined && (
          <Button
            variant="default"
            rightSection={<IconX size={14} aria-label="remove" />}
            onClick={() => set({ cluster: undefined })}
          >
            Cluster <Name of={search.cluster} />
          </Button>
        )}
      </Group>
      <Shown query={list} what="services">
        <Table
          label="Services"
          rows={list.data ?? []}
          columns={serviceColumns}
          id={(service) => service.id}
          isWaiting={list.isPending}
          {...(total !== undefined && { total })}
          next={next}
          empty={
            isFiltered ? (
              <Empty title="No service matches">Change the search or show all states.</Empty>
            ) : (
              <Empty title="No services yet">
                A service keeps a folder of a git repository applied in one cluster. Make the first with{' '}
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
