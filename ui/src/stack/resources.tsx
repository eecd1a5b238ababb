import { Button, Group, SegmentedControl, Text, TextInput, UnstyledButton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useMemo, useRef, useState } from 'react';

import { counted } from '../lib/text';
import { text } from '../parts/cells';
import { Empty, Facts, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import classes from '../service/components.module.css';
import { commands } from './commands';
import { resourcesQuery, type StackOne, type StateVersion } from './queries';
import { picture, resourcesOf, type Instance, type Picture, type Resource } from './state-picture';

const Graph = lazy(() => import('./state-graph'));

const route = getRouteApi('/stacks/$name');

/** So many resources are listed at first, and the rest is found by searching. */
const MOST = 500;
/** The console answers with no more resources of a state than these. */
const ANSWERED = 10_000;
/** So many of what a resource needs, or of what needs it, are named. */
const NAMED = 20;

const columns: Columns<Instance> = [
  {
    id: 'address',
    header: 'Address',
    meta: { track: 'minmax(180px, 2fr)', isCutAtStart: true },
    cell: ({ row }) => <Name of={row.original.identifier} />,
  },
  {
    id: 'type',
    header: 'Type',
    meta: { track: 'minmax(110px, 1fr)', from: 620 },
    cell: ({ row }) => text(row.original.resource),
  },
  {
    id: 'provider',
    header: 'Provider',
    meta: { track: 'minmax(120px, 1.4fr)', from: 900, isCutAtStart: true },
    cell: ({ row }) => text(row.original.provider),
  },
  {
    id: 'needs',
    header: 'Needs',
    meta: { track: 'minmax(120px, 1.6fr)', from: 480, isBlank: ({ links }) => (links ?? []).length === 0 },
    cell: ({ row }) => text((row.original.links ?? []).flatMap((link) => link ?? []).join(', ')),
  },
];

/** What a version holds, as a graph or as a list: never a value. */
export function Resources({ stack, version, isCurrent }: { stack: StackOne; version: StateVersion; isCurrent: boolean }) {
  const query = useQuery({ ...resourcesQuery(stack.id, version.id), enabled: version.resources != null });
  const { view = 'graph' } = route.useSearch();
  const navigate = route.useNavigate();
  const [wanted, setWanted] = useState('');
  const all = useMemo(() => (query.data?.state ?? []).flatMap((one) => one ?? []), [query.data]);
  const outputs = query.data?.outputs ?? [];
  return (
    <Panel
      title={`Resources of ${isCurrent ? 'the state now' : `version ${version.serial}`}`}
      aside={
        all.length > 0 && (
          <Group gap="sm">
            <SegmentedControl
              aria-label="Show as"
              size="xs"
              value={view}
              onChange={(next) =>
                void navigate({ search: (old) => ({ ...old, view: next === 'list' ? 'list' : undefined }), replace: true })
              }
              data={[
                { value: 'graph', label: 'Graph' },
                { value: 'list', label: 'List' },
              ]}
            />
            {all.length > 12 && (
              <TextInput
                type="search"
                aria-label="Search by address"
                placeholder="Search by address"
                maxLength={200}
                value={wanted}
                onChange={({ currentTarget }) => setWanted(currentTarget.value)}
              />
            )}
          </Group>
        )
      }
    >
      {version.resources == null ? (
        <Empty title="Nothing is known of it">Its tool encrypted this state: the console cannot look into it.</Empty>
      ) : (
        <Shown query={query} what="its resources">
          {view === 'graph' && all.length > 0 ? (
            <AsGraph all={all} wanted={wanted} setWanted={setWanted} />
          ) : (
            <AsList all={all} wanted={wanted} isWaiting={query.isPending} />
          )}
          {all.length >= ANSWERED && (
            <Text size="sm" c="dimmed" p="sm">
              These are the first {ANSWERED.toLocaleString('en')} resources of this state. All of them are in the state itself:{' '}
              <code>{commands.state.pull(stack.name)}</code>
            </Text>
          )}
          {outputs.length > 0 && (
            <Text size="sm" p="sm">
              Outputs: <Name of={outputs.join(', ')} />
            </Text>
          )}
        </Shown>
      )}
    </Panel>
  );
}

function AsList({ all, wanted, isWaiting }: { all: Instance[]; wanted: string; isWaiting: boolean }) {
  const word = wanted.trim().toLowerCase();
  const found = all.filter(({ identifier }) => identifier.toLowerCase().includes(word));
  return (
    <>
      <Table
        isShort
        label="Resources"
        hasHead={found.length > 0}
        rows={found.slice(0, MOST)}
        columns={columns}
        id={({ identifier }) => identifier}
        isWaiting={isWaiting}
        empty={<Empty title={wanted === '' ? 'It holds no resource' : 'No resource matches'} />}
      />
      {found.length > MOST && (
        <Text size="sm" c="dimmed" p="sm">
          {counted(found.length - MOST, 'resource')} more: search for them by their address.
        </Text>
      )}
    </>
  );
}

interface AsGraphProps {
  all: Instance[];
  wanted: string;
  setWanted: (wanted: string) => void;
}

function AsGraph({ all, wanted, setWanted }: AsGraphProps) {
  const { at } = route.useSearch();
  const navigate = route.useNavigate();
  const told = useRef<HTMLDivElement>(null);
  const resources = useMemo(() => resourcesOf(all), [all]);
  const shown = useMemo(() => picture(resources, wanted, at), [resources, wanted, at]);
  const open = (key: string | undefined) => {
    void navigate({ search: (old) => ({ ...old, at: key }), replace: true, resetScroll: false });
    if (shown.isSmall) return;
    // Another picture takes the place of the box that was pressed.
    setWanted('');
    told.current?.focus();
  };
  if (shown.boxes.length === 0) return <Empty title="No resource matches">Change the search, or leave it empty.</Empty>;
  return (
    <>
      <Group ref={told} tabIndex={-1} justify="space-between" gap="sm" px={12} py="sm" role="status">
        <Text size="sm" maw={820}>
          {words(resources, shown, wanted)}
          {all.every(({ links }) => links == null) &&
            ' What needs what is not known: so much is needed by so much in this state.'}
        </Text>
        {(shown.isPart || wanted !== '') && (
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => {
              setWanted('');
              open(undefined);
            }}
          >
            Show all
          </Button>
        )}
      </Group>
      <Suspense fallback={<Waiting lines={8} />}>
        <Graph shown={shown} at={at} open={open} />
      </Suspense>
      {shown.chosen && <Chosen resource={shown.chosen} open={open} />}
    </>
  );
}

function words(resources: Resource[], shown: Picture, wanted: string) {
  const all = counted(resources.length, 'resource');
  const many = shown.isCoarse && ' A box stands for many where they are too many to draw: choose it, or search by address.';
  const left = shown.left > 0 && ` ${counted(shown.left, 'resource')} are in no box: the list has them.`;
  if (wanted.trim() !== '')
    return (
      <>
        What matches of {all}, with what it needs and what needs it.{many}
        {left}
      </>
    );
  if (shown.isPart)
    return (
      <>
        <Name of={shown.title} />, of {all}, with what it needs and what needs it.{many}
        {left}
      </>
    );
  return (
    <>
      {all}. From left to right: what is needed, and what needs it.{' '}
      {shown.isCoarse
        ? 'They are too many to draw: a box stands for many. Choose one, or search by address.'
        : 'Choose one to see both.'}
      {left}
    </>
  );
}

function Chosen({ resource, open }: { resource: Resource; open: (key: string) => void }) {
  const { address, type, provider, module, instances, needs, neededBy } = resource;
  return (
    <section aria-label="The resource that is chosen">
      <Facts
        facts={[
          ['Address', <Name key="address" of={address} />],
          ['Type', <Name key="type" of={type} />],
          ['Module', <Name key="module" of={module === '' ? 'the root module' : module} />],
          ['Provider', <Name key="provider" of={provider} />],
          ['Instances', instances.length.toLocaleString('en')],
          ['Needs', <Others key="needs" of={needs} open={open} />, 'wide'],
          ['Needed by', <Others key="by" of={neededBy} open={open} />, 'wide'],
        ]}
      />
    </section>
  );
}

/** Addresses, each of which is chosen by a press. */
function Others({ of, open }: { of: string[]; open: (key: string) => void }) {
  if (of.length === 0) return <>no other resource</>;
  return (
    <>
      {of.slice(0, NAMED).map((address) => (
        <UnstyledButton key={address} className={classes['open'] ?? ''} mih={24} onClick={() => open(address)}>
          <Name of={address} />
        </UnstyledButton>
      ))}
      {of.length > NAMED && `and ${counted(of.length - NAMED, 'resource')} more`}
    </>
  );
}
