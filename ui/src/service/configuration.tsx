import { Button, Group, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { IconEye, IconEyeOff, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import type { ConfigAttributes, ServiceConfigurationOfQuery } from '../generated/graphql';
import { ask, explain } from '../lib/client';
import { quoted } from '../lib/text';
import { Action, Copy } from '../parts/action';
import type { Field, Values } from '../parts/values';
import { Empty, Fault, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { Update } from './mutations';
import { configurationQuery, configurationValue } from './configuration-queries';
import type { Service } from './queries';

type One = NonNullable<NonNullable<NonNullable<ServiceConfigurationOfQuery['serviceDeployment']>['configuration']>[number]>;

type From = NonNullable<One['valueFrom']>;
/** All kinds that can be set: a further one does not compile without its fields in the query and a line in `written`. */
type Kind = keyof NonNullable<ConfigAttributes['valueFrom']>;
type InCluster = NonNullable<From['secretKeyRef' | 'configMapKeyRef']>;
type InFile = NonNullable<From['sopsKeyRef' | 'ageKeyRef']>;

const clusterKey = ({ namespace, name, key }: InCluster) => `${namespace == null ? '' : `${namespace}/`}${name}#${key}`;
const fileKey = ({ file, key }: InFile) => `${file}${key == null ? '' : `#${key}`}`;

/** How the command line writes each kind of reference. */
const written: { [K in Kind]-?: (of: NonNullable<From[K]>) => string } = {
  secretKeyRef: (of) => `secret:${clusterKey(of)}`,
  configMapKeyRef: (of) => `configmap:${clusterKey(of)}`,
  vaultKeyRef: ({ path, key }) => `vault:${path}#${key}`,
  sopsKeyRef: (of) => `sops:${fileKey(of)}`,
  ageKeyRef: (of) => `age:${fileKey(of)}`,
};

/** Where a value is found, as the command line writes it; nothing for a value that the console holds itself. */
function reference({ valueFrom }: One): string | undefined {
  if (!valueFrom) return undefined;
  const of = (kind: Kind) => {
    const at = valueFrom[kind];
    return at && (written[kind] as (of: typeof at) => string)(at);
  };
  const told = (Object.keys(written) as Kind[]).map(of).find((text) => text != null);
  // A console of a later release may know more kinds: none of them is a value here.
  return told ?? 'a reference of a kind that this page does not know';
}

const is = (kind: string) => (values: Values) => values['kind'] === kind;

function valueFields(key: string | undefined): Field[] {
  const inCluster = (values: Values) => is('secret')(values) || is('configmap')(values);
  const inFile = (values: Values) => is('sops')(values) || is('age')(values);
  return [
    ...(key === undefined ? [{ name: 'name', label: 'Name', isRequired: true, placeholder: 'replicas' }] : []),
    {
      name: 'kind',
      label: 'What it is',
      kind: 'choice',
      isRequired: true,
      initial: 'value',
      options: [
        { value: 'value', label: 'a value, kept encrypted in the console' },
        { value: 'secret', label: 'a key of a Secret in the cluster' },
        { value: 'configmap', label: 'a key of a ConfigMap in the cluster' },
        { value: 'vault', label: 'a key in Vault' },
        { value: 'sops', label: 'a file that SOPS encrypted, in the repository' },
        { value: 'age', label: 'a file that age encrypted, in the repository' },
      ],
      hint: 'A reference is read by the cluster’s agent only: the console never holds the value.',
    },
    {
      name: 'value',
      label: 'Value',
      kind: 'secret',
      when: is('value'),
      hint: 'The value that it has now is not shown here.',
    },
    { name: 'namespace', label: 'Namespace', when: inCluster, hint: 'The service’s own when empty.' },
    { name: 'object', label: 'Name of the Secret or ConfigMap', isRequired: true, when: inCluster },
    { name: 'path', label: 'Path in Vault', isRequired: true, when: is('vault') },
    { name: 'file', label: 'File in the service’s folder', isRequired: true, when: inFile },
    { name: 'key', label: 'Key', isRequired: true, when: (values) => inCluster(values) || is('vault')(values) },
    { name: 'fileKey', label: 'Key in the file', when: inFile, hint: 'The whole file when empty.' },
  ];
}

function attributes(name: string, values: Values): ConfigAttributes {
  const { kind, value = '', namespace = '', object = '', path = '', file = '', key = '', fileKey = '' } = values;
  const inCluster = { name: object, key, ...(namespace !== '' && { namespace }) };
  const inFile = { file, ...(fileKey !== '' && { key: fileKey }) };
  switch (kind) {
    case 'secret':
      return { name, valueFrom: { secretKeyRef: inCluster } };
    case 'configmap':
      return { name, valueFrom: { configMapKeyRef: inCluster } };
    case 'vault':
      return { name, valueFrom: { vaultKeyRef: { path, key } } };
    case 'sops':
      return { name, valueFrom: { sopsKeyRef: inFile } };
    case 'age':
      return { name, valueFrom: { ageKeyRef: inFile } };
    default:
      return { name, value };
  }
}

function commandFor(which: string, name: string, values: Values): string {
  const { kind = 'value', namespace = '', object = '', path = '', file = '', key = '', fileKey = '' } = values;
  const begin = `plural cd services update ${quoted(which)}`;
  if (kind === 'value') return `${begin} --conf-file -   # reads {"${name}": …} from standard input`;
  const at =
    kind === 'vault'
      ? `${path}#${key}`
      : kind === 'sops' || kind === 'age'
        ? `${file}${fileKey === '' ? '' : `#${fileKey}`}`
        : `${namespace === '' ? '' : `${namespace}/`}${object}#${key}`;
  return `${begin} --conf-from ${quoted(`${name}=${kind}:${at}`)}`;
}

function columns(service: Service, cluster: string): Columns<One> {
  const which = `${cluster}/${service.name}`;
  const right = { verb: 'update', thing: `service/${which}` };
  return [
    {
      id: 'name',
      header: 'Name',
      meta: { track: 'minmax(120px, 1fr)' },
      cell: ({ row }) => <Name of={row.original.name} />,
    },
    {
      id: 'value',
      header: 'Value',
      meta: { track: 'minmax(160px, 2fr)' },
      cell: ({ row: { original: one } }) => {
        const from = reference(one);
        return from == null ? (
          <Secret cluster={cluster} service={service.name} of={one.name} />
        ) : (
          <>
            <code>
              <Name of={from} />
            </code>{' '}
            <Text component="span" size="xs" c="dimmed">
              read in the cluster only
            </Text>
          </>
        );
      },
    },
    {
      id: 'do',
      header: '',
      meta: { track: '180px', from: 620 },
      cell: ({ row: { original: one } }) => (
        <Group gap="xs" wrap="nowrap">
          <Action
            noun="service"
            isSmall
            label="Change"
            icon={IconPencil}
            right={right}
            explains={
              <>
                Sets <Name of={one.name} />; all other values stay. The service is rendered anew with it.
              </>
            }
            fields={valueFields(one.name)}
            command={(values) => commandFor(which, one.name, values)}
            run={(values) => ask(Update, { id: service.id, attributes: { mergeConfiguration: [attributes(one.name, values)] } })}
            done={`Changed ${one.name}`}
          />
          <Action
            noun="service"
            isSmall
            isDangerous
            label="Remove"
            icon={IconTrash}
            right={right}
            explains={
              <>
                Removes <Name of={one.name} />. Templates that read it fail from then on, unless a context has it.
              </>
            }
            command={`plural cd services update ${quoted(which)} --unset-conf ${quoted(one.name)}`}
            run={() =>
              ask(Update, {
                id: service.id,
                attributes: { mergeConfiguration: [{ name: one.name, value: null, valueFrom: null }] },
              })
            }
            done={`Removed ${one.name}`}
          />
        </Group>
      ),
    },
  ];
}

/** Its values for templates: each hidden until it is asked for, set without showing what was there. */
export function Configuration({ service, cluster }: { service: Service; cluster: string }) {
  const { name } = service;
  const which = `${cluster}/${name}`;
  const query = useQuery(configurationQuery(cluster, name));
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="its configuration" retry={() => void query.refetch()} />;
  const values = query.data?.configuration?.flatMap((value) => value ?? []);
  const contexts = (service.contexts ?? []).flatMap((context) => context ?? []);
  return (
    <Panel
      title="Values for templates"
      aside={
        <Action
          noun="service"
          label="Add a value"
          icon={IconPlus}
          right={{ verb: 'update', thing: `service/${which}` }}
          explains="Templates of the service read it by its name. All other values stay."
          fields={valueFields(undefined)}
          command={(all) => commandFor(which, all['name'] ?? '', all)}
          run={(all) =>
            ask(Update, { id: service.id, attributes: { mergeConfiguration: [attributes((all['name'] ?? '').trim(), all)] } })
          }
          done="Added the value"
        />
      }
    >
      {values === undefined ? (
        <Empty title="You may not see its values">They are secrets: who may change the service may read them.</Empty>
      ) : (
        <Table
          isShort
          label="Values"
          rows={values}
          columns={columns(service, cluster)}
          id={({ name: key }) => key}
          empty={
            <Empty title="It has no values of its own">
              Templates of the service read what is set here: <code>plural cd services update {which} --conf NAME=VALUE</code>
            </Empty>
          }
        />
      )}
      {contexts.length > 0 && (
        <Text size="sm" p="md">
          It also reads the contexts{' '}
          {contexts.map((context, at) => (
            <span key={context.id}>
              {at > 0 && ', '}
              <RouteLink to={paths.setting('contexts', context.name)}>
                <Name of={context.name} />
              </RouteLink>
            </span>
          ))}
          .
        </Text>
      )}
    </Panel>
  );
}

/** A value that stays at the server until somebody wants to see it; reading it is a line of the audit log. */
function Secret({ cluster, service, of }: { cluster: string; service: string; of: string }) {
  const read = useMutation({ mutationFn: () => configurationValue(cluster, service, of), gcTime: 0 });
  const value = read.data;
  return (
    <Group gap="xs" wrap="nowrap">
      <code>{value === undefined ? '••••••••' : <Name of={value} />}</code>
      <Button
        variant="subtle"
        color="gray"
        size="compact-xs"
        loading={read.isPending}
        leftSection={value === undefined ? <IconEye size={14} /> : <IconEyeOff size={14} />}
        aria-label={`${value === undefined ? 'Show' : 'Hide'} ${of}`}
        onClick={() => (value === undefined ? read.mutate() : read.reset())}
      >
        {value === undefined ? 'Show' : 'Hide'}
      </Button>
      {value !== undefined && <Copy text={value} label={`Copy ${of}`} />}
      {read.isError && (
        <Text size="xs" role="alert">
          <Name of={explain(read.error).what} />
        </Text>
      )}
    </Group>
  );
}
