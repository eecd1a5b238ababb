import { Progress, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconArrowBackUp, IconHandStop, IconPlayerPlay, IconPlus, IconTrash } from '@tabler/icons-react';

import { graphql } from '../generated';
import type { GlobalInstancesQuery, GlobalServiceQuery, RolloutState, RolloutSteering } from '../generated/graphql';
import { ask } from '../lib/client';
import { useNext, type RowOf } from '../lib/list';
import { counted, quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, pairs } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { componentStates, serviceStatuses, State, type Look } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { distribution } from '../cluster/fleet';
import { servicesQuery } from '../service/queries';
import { Globals } from './queries';
import { rollouts } from './states';

const GlobalOf = graphql(/* GraphQL */ `
  query GlobalService($name: String!) {
    globalService(name: $name) {
      id
      name
      error
      spread
      generation
      deletedAt
      insertedAt
      updatedAt
      distro
      reparent
      tags {
        name
        value
      }
      project {
        name
      }
      cascade {
        delete
        detach
      }
      service {
        name
        cluster {
          handle
        }
      }
      template {
        name
        namespace
        git {
          ref
          folder
        }
        helm {
          chart
          version
          url
        }
      }
      instanceCounts {
        all
        healthy
        newest
        leaving
      }
      rollout {
        state
        cohort
        message
        startedAt
        generation
        previous
      }
      rolloutStrategy {
        maxFailures
        maxUnavailable
        soakSeconds
        timeoutSeconds
        undo
        cohorts {
          name
          members {
            percent
            clusters
            tag {
              name
              value
            }
          }
        }
      }
    }
  }
`);
const Instances = graphql(/* GraphQL */ `
  query GlobalInstances($name: String!, $after: String) {
    globalService(name: $name) {
      id
      list: instances(first: 100, after: $after) {
        pageInfo {
          hasNextPage
          endCursor
        }
        edges {
          node {
            serviceId
            generation
            givenAt
            status
            cluster {
              id
              handle
            }
          }
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateGlobal($serviceId: ID, $attributes: GlobalServiceAttributes!) {
    createGlobalService(serviceId: $serviceId, attributes: $attributes) {
      id
    }
  }
`);
const Steer = graphql(/* GraphQL */ `
  mutation Steer($id: ID!, $action: RolloutSteering!) {
    steerRollout(id: $id, action: $action) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteGlobal($id: ID!) {
    deleteGlobalService(id: $id) {
      id
    }
  }
`);

interface Brief {
  error?: string | null;
  spread: boolean;
  deletedAt?: string | null;
  rollout?: { state: RolloutState } | null;
}
/** How it is as a whole: what failed, what moves, what is done. */
function look(one: Brief): Look {
  if (one.deletedAt != null) return { ...componentStates.PAUSED, word: 'Being removed' };
  if (one.error != null) return { ...componentStates.FAILED, word: 'Failed' };
  if (one.rollout && one.rollout.state !== 'COMPLETE') return rollouts[one.rollout.state];
  return one.spread ? { ...componentStates.RUNNING, word: 'Spread' } : { ...componentStates.PENDING, word: 'Spreading' };
}

const columns: Columns<RowOf<typeof Globals>> = [
  {
    id: 'name',
    header: 'Global service',
    meta: { track: 'minmax(120px, 1fr)' },
    cell: ({ row }) => <Linked noun="global-services" id={row.original.name} name={row.original.name} />,
  },
  { id: 'state', header: 'State', meta: { track: '120px' }, cell: ({ row }) => <State look={look(row.original)} /> },
  {
    id: 'healthy',
    header: 'Healthy',
    meta: { track: '100px', from: 480, isNumber: true },
    cell: ({ row: { original: one } }) => `${one.instanceCounts?.healthy ?? 0} of ${one.instanceCounts?.all ?? 0}`,
  },
  {
    id: 'newest',
    header: 'Newest',
    meta: { track: '90px', from: 620, isNumber: true },
    cell: ({ row }) => row.original.instanceCounts?.newest ?? 0,
  },
  {
    id: 'where',
    header: 'Clusters with',
    meta: tracks.mid,
    cell: ({ row: { original: one } }) =>
      text(
        [...(one.tags ?? []).map((tag) => `${tag.name}=${tag.value}`), one.distro == null ? '' : distribution(one.distro)]
          .filter(Boolean)
          .join(', '),
      ),
  },
  {
    id: 'project',
    header: 'Project',
    meta: { track: 'minmax(80px, 0.7fr)', from: 1000 },
    cell: ({ row }) => text(row.original.project?.name),
  },
  {
    id: 'error',
    header: 'Why',
    meta: { track: 'minmax(120px, 2fr)', from: 1000, isBlank: ({ error }) => error == null },
    cell: ({ row }) => text(row.original.error),
  },
  { id: 'at', header: 'Changed', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.updatedAt} /> },
];

export function List() {
  const services = useInfiniteQuery(servicesQuery({}, 200));
  return (
    <Listing
      title="Global services"
      noun="global services"
      document={Globals}
      columns={columns}
      teaches="One service on every cluster that it targets: the same monitoring everywhere, changed cohort by cohort."
      how="plural cd global-services create --help"
      actions={
        <Action
          noun="global services"
          label="Spread a service"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'global-services' }}
          explains="Every cluster with these tags gets a copy of the service, with its values. Templates are created with the command line and a file."
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            {
              name: 'service',
              label: 'Service whose copies they are',
              kind: 'choice',
              isRequired: true,
              options: (services.data ?? []).map((one) => ({ value: one.id, label: `${one.cluster?.handle ?? ''}/${one.name}` })),
            },
            { name: 'tags', label: 'Tags that a cluster must have', hint: 'tier=prod, region=eu; all clusters when empty' },
            { name: 'cascade', label: 'Delete its objects where a cluster is no target any more', kind: 'check' },
          ]}
          command={(values) => {
            const service = (services.data ?? []).find(({ id }) => id === values['service']);
            const tags = pairs(values, 'tags').map((tag) => ` --tag ${quoted(`${tag.name}=${tag.value}`)}`);
            return `plural cd global-services create ${quoted(values['name'] ?? '')} --service ${quoted(`${service?.cluster?.handle ?? 'CLUSTER'}/${service?.name ?? 'NAME'}`)}${tags.join('')}${isOn(values, 'cascade') ? ' --cascade delete' : ''}`;
          }}
          run={(values) =>
            ask(Create, {
              serviceId: given(values, 'service'),
              attributes: {
                name: (values['name'] ?? '').trim(),
                tags: pairs(values, 'tags'),
                ...(isOn(values, 'cascade') && { cascade: { delete: true } }),
              },
            })
          }
          done="The service spreads"
        />
      }
    />
  );
}

type GlobalService = NonNullable<GlobalServiceQuery['globalService']>;
const BEGUN = ['PROGRESSING', 'SOAKING'];

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['global services', 'one', name],
    queryFn: async ({ signal }) => (await ask(GlobalOf, { name }, signal)).globalService,
    refetchInterval: 5000,
  });
  const right = (verb: string) => ({ verb, thing: `global-service/${name}` });
  const steer = (label: string, action: RolloutSteering, icon: typeof IconPlus, explains: string, id: string) => (
    <Action
      key={action}
      noun="global services"
      label={label}
      icon={icon}
      right={right('steer')}
      explains={explains}
      command={`plural cd global-services rollout ${action.toLowerCase()} ${quoted(name)}`}
      run={() => ask(Steer, { id, action })}
      done={`${label}: asked for`}
      isDangerous={action === 'UNDO'}
    />
  );
  return (
    <OneThing
      noun="global-services"
      many="Global services"
      name={name}
      query={query}
      title={(one) => one.name}
      state={(one) => <State look={look(one)} />}
      actions={(one) => (
        <>
          {one.rollout &&
            BEGUN.includes(one.rollout.state) &&
            steer(
              'Halt',
              'HALT',
              IconHandStop,
              'No further cluster is given the newest generation until somebody resumes it.',
              one.id,
            )}
          {one.rollout?.state === 'HALTED' &&
            steer('Resume', 'RESUME', IconPlayerPlay, 'Goes on with the next clusters, although some failed.', one.id)}
          {one.rollout &&
            [...BEGUN, 'HALTED'].includes(one.rollout.state) &&
            steer('Undo', 'UNDO', IconArrowBackUp, 'Gives every cluster the generation of before.', one.id)}
          <Action
            noun="global services"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains={
              one.cascade?.delete === true
                ? `${counted(one.instanceCounts?.all ?? 0, 'instance')} and their objects are deleted from their clusters.`
                : one.cascade?.detach === true
                  ? `${counted(one.instanceCounts?.all ?? 0, 'instance')} are forgotten; their objects stay.`
                  : `${counted(one.instanceCounts?.all ?? 0, 'instance')} stay as services of their own.`
            }
            confirm={one.name}
            command={`plural cd global-services delete ${quoted(name)}`}
            run={() => ask(Delete, { id: one.id })}
            done={`${name} is removed`}
          />
        </>
      )}
    >
      {(one) => (
        <>
          {one.rollout && <RolloutPanel one={one} />}
          <Panel title="Targets">
            <Facts
              facts={[
                ['Why it fails', one.error != null && <Name of={one.error} />],
                [
                  'Created from',
                  one.service ? (
                    <RouteLink to={paths.service(one.service.cluster?.handle ?? '', one.service.name)}>
                      <Name of={`${one.service.cluster?.handle ?? ''}/${one.service.name}`} />
                    </RouteLink>
                  ) : (
                    one.template && (
                      <Name
                        of={
                          one.template.helm
                            ? [one.template.helm.chart, one.template.helm.version, one.template.helm.url]
                                .filter((part) => part != null)
                                .join(' ')
                            : `${one.template.git?.folder ?? ''} at ${one.template.git?.ref ?? ''}`
                        }
                      />
                    )
                  ),
                ],
                ['Tags', (one.tags ?? []).map((tag) => `${tag.name}=${tag.value}`).join(', ') || 'every cluster'],
                ['Distribution', one.distro != null && distribution(one.distro)],
                ['Project', one.project ? <Name of={one.project.name} /> : 'all'],
                ['Generation', one.generation],
                [
                  'Instances',
                  one.instanceCounts &&
                    `${one.instanceCounts.healthy} of ${one.instanceCounts.all} healthy, ${one.instanceCounts.newest} newest, ${one.instanceCounts.leaving} leaving`,
                ],
                [
                  'On leaving',
                  one.cascade?.delete === true
                    ? 'the cluster’s instance and its objects are deleted'
                    : one.cascade?.detach === true
                      ? 'the cluster’s instance is forgotten, its objects stay'
                      : 'the cluster’s instance stays as a service of its own',
                ],
                ['Changed', <Ago key="at" at={one.updatedAt} />],
              ]}
            />
          </Panel>
          <InstancesOf name={name} newest={one.generation} />
        </>
      )}
    </OneThing>
  );
}

/** `3 clusters`, `10% of clusters`. */
const of = (count: string | number): string =>
  /^\d+$/.test(`${count}`) ? counted(Number(count), 'cluster') : `${count} of clusters`;

function RolloutPanel({ one }: { one: GlobalService }) {
  const { rollout, rolloutStrategy: strategy, instanceCounts: counts } = one;
  if (!rollout) return null;
  const percent = counts && counts.all > 0 ? (100 * counts.newest) / counts.all : 0;
  return (
    <Panel title="Rollout" aside={look(one).word !== rollouts[rollout.state].word && <State look={rollouts[rollout.state]} />}>
      <div style={{ padding: '12px 12px 0' }}>
        <Progress value={percent} aria-label="Clusters with the newest generation" />
        <Text size="xs" c="dimmed" mt={4}>
          {counts?.newest ?? 0} of {counts?.all ?? 0} clusters have generation {rollout.generation}
        </Text>
      </div>
      <Facts
        facts={[
          ['Why', rollout.message != null && <Name of={rollout.message} />],
          ['Cohort', rollout.cohort ?? 'the last'],
          ['Began', <Ago key="at" at={rollout.startedAt} />],
          ['Replaces', `generation ${rollout.previous}`],
          ['At once', strategy?.maxUnavailable != null && `at most ${of(strategy.maxUnavailable)}`],
          ['May fail', strategy?.maxFailures != null && (`${strategy.maxFailures}` === '0' ? 'none' : of(strategy.maxFailures))],
          ['Soak time', strategy && `${strategy.soakSeconds} s healthy before the next cohort`],
          ['On failure', strategy?.undo === true ? 'every cluster goes back' : 'halts, waits for approval'],
          [
            'Cohorts',
            (strategy?.cohorts ?? []).map((cohort) => (
              <div key={cohort.name}>
                <Name of={cohort.name} />:{' '}
                {cohort.members.tag
                  ? `${cohort.members.tag.name}=${cohort.members.tag.value}`
                  : cohort.members.percent != null
                    ? `${cohort.members.percent}% of clusters`
                    : counted(cohort.members.clusters?.length ?? 0, 'cluster')}
              </div>
            )),
          ],
        ]}
      />
    </Panel>
  );
}

type InstanceList = NonNullable<NonNullable<GlobalInstancesQuery['globalService']>['list']>;
type Instance = NonNullable<NonNullable<NonNullable<InstanceList['edges']>[number]>['node']>;

function InstancesOf({ name, newest }: { name: string; newest: string }) {
  const list = useInfiniteQuery({
    queryKey: ['global services', 'instances', name],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      (await ask(Instances, { name, after: pageParam ?? null }, signal)).globalService?.list,
    getNextPageParam: (page) => (page?.pageInfo.hasNextPage === true ? (page.pageInfo.endCursor ?? undefined) : undefined),
    select: ({ pages }): Instance[] => pages.flatMap((page) => (page?.edges ?? []).flatMap((edge) => edge?.node ?? [])),
  });
  const next = useNext(list);
  const instanceColumns: Columns<Instance> = [
    {
      id: 'cluster',
      header: 'Cluster',
      meta: tracks.wide,
      cell: ({ row }) =>
        row.original.cluster && (
          <RouteLink to={paths.cluster(row.original.cluster.handle ?? '')} strong>
            <Name of={row.original.cluster.handle ?? ''} />
          </RouteLink>
        ),
    },
    {
      id: 'status',
      header: 'Status',
      meta: { track: '150px' },
      cell: ({ row }) => <State look={serviceStatuses[row.original.status]} />,
    },
    {
      id: 'generation',
      header: 'Generation',
      meta: { track: '130px', from: 480 },
      cell: ({ row }) => (row.original.generation === newest ? 'the newest' : row.original.generation),
    },
    { id: 'at', header: 'Given', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.givenAt} /> },
  ];
  return (
    <Panel title="Instances">
      <Shown query={list} what="its instances">
        <Table
          isShort
          label="Instances"
          rows={list.data ?? []}
          columns={instanceColumns}
          id={({ serviceId }) => serviceId}
          isWaiting={list.isPending}
          next={next}
          empty={<Empty title="No cluster is a target">Give clusters the tags that it names.</Empty>}
        />
      </Shown>
    </Panel>
  );
}
