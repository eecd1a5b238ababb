import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import type { ServiceImportsOfQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Fault, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { importableStacksQuery, importsQuery } from './configuration-queries';
import { Update } from './mutations';
import type { Service } from './queries';

type One = NonNullable<NonNullable<NonNullable<ServiceImportsOfQuery['serviceDeployment']>['imports']>[number]>;

const stackIds = (all: One[]) => all.flatMap(({ stack }) => stack?.id ?? []);

/** What a service imports from now on. */
const set = (service: Service, stacks: string[]) =>
  ask(Update, { id: service.id, attributes: { imports: stacks.map((stackId) => ({ stackId })) } });

function command(which: string, names: string[]): string {
  const begin = `plural cd services update ${quoted(which)}`;
  return names.length === 0 ? `${begin} --no-imports` : [begin, ...names.map((name) => `--import ${quoted(name)}`)].join(' ');
}

function columns(service: Service, which: string, all: One[]): Columns<One> {
  return [
    {
      id: 'stack',
      header: 'Stack',
      meta: { track: 'minmax(90px, 1fr)' },
      cell: ({ row: { original: one } }) =>
        one.stack ? (
          <RouteLink to={paths.stack(one.stack.name)}>
            <Name of={one.stack.name} />
          </RouteLink>
        ) : null,
    },
    {
      id: 'outputs',
      header: 'Outputs that templates read',
      meta: { track: 'minmax(100px, 2fr)' },
      cell: ({ row: { original: one } }) => {
        const outputs = (one.outputs ?? []).flatMap((output) => output ?? []);
        const read = outputs.filter(({ secret }) => secret !== true || one.sensitive === true);
        const missing = outputs.length - read.length;
        return (
          <>
            {read.length === 0
              ? 'none'
              : read.map(({ name }, at) => (
                  <span key={name}>
                    {at > 0 && ', '}
                    <code>
                      <Name of={name} />
                    </code>
                  </span>
                ))}
            {missing > 0 && (
              <Text component="span" size="xs" c="dimmed">
                {' '}
                and not {missing} that {missing === 1 ? 'is' : 'are'} sensitive: whoever imported the stack may not read its state
              </Text>
            )}
          </>
        );
      },
    },
    {
      id: 'do',
      header: '',
      meta: { track: '100px' },
      cell: ({ row: { original: one } }) => {
        const left = all.filter(({ id }) => id !== one.id);
        return (
          <Action
            noun="service"
            isSmall
            isDangerous
            label="Remove"
            icon={IconTrash}
            right={{ verb: 'update', thing: `service/${which}` }}
            explains={
              <>
                Templates that read outputs of <Name of={one.stack?.name ?? ''} /> fail from then on; what is in the cluster
                stays.
              </>
            }
            command={command(
              which,
              left.flatMap(({ stack }) => stack?.name ?? []),
            )}
            run={() => set(service, stackIds(left))}
            done="Removed the import"
          />
        );
      },
    },
  ];
}

/** The stacks whose outputs its templates read: their names, and those of the outputs. */
export function Imports({ service, cluster }: { service: Service; cluster: string }) {
  const which = `${cluster}/${service.name}`;
  const query = useQuery(importsQuery(cluster, service.name));
  const stacks = useQuery({ ...importableStacksQuery, enabled: query.isSuccess });
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="what it imports" retry={() => void query.refetch()} />;
  const all = query.data;
  const known = new Set(stackIds(all));
  const others = (stacks.data ?? []).filter(({ id }) => !known.has(id));
  const nameOf = (id: string | undefined) => others.find((one) => one.id === id)?.name ?? 'STACK';
  return (
    <Panel
      title="Outputs of stacks"
      aside={
        <Action
          noun="service"
          label="Import a stack"
          icon={IconPlus}
          isReading={stacks.isPending}
          right={{ verb: 'update', thing: `service/${which}` }}
          explains="Templates of the service read the outputs of the stack, and are rendered anew when these change. Sensitive outputs need your right to read the stack’s state."
          fields={[
            {
              name: 'stack',
              label: 'Stack',
              kind: 'choice',
              isRequired: true,
              initial: others[0]?.id ?? '',
              options: others.map(({ id, name }) => ({ value: id, label: name })),
            },
          ]}
          command={(values) => command(which, [...all.flatMap(({ stack }) => stack?.name ?? []), nameOf(values['stack'])])}
          run={(values) => set(service, [...known, values['stack'] ?? ''])}
          done="Imported the stack"
        />
      }
    >
      <Table
        isShort
        isTall
        label="Imports"
        rows={all}
        columns={columns(service, which, all)}
        id={({ id }) => id}
        empty={
          <Empty title="It imports no stack">
            Templates read what a stack made as <code>imports[&quot;STACK&quot;][&quot;OUTPUT&quot;]</code>.
          </Empty>
        }
      />
    </Panel>
  );
}
