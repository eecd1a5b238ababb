import { Group, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconArrowBackUp, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import type { StackStateChangeKind } from '../generated/graphql';
import { ask } from '../lib/client';
import { short, size } from '../lib/text';
import { Action, Command, Copy } from '../parts/action';
import { text } from '../parts/cells';
import { Empty, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { State, type Look } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { RestoreState } from './mutations';
import { stateDiffQuery, statesQuery, type StackOne, type StateVersion } from './queries';
import { Resources } from './resources';
import { fates } from './states';

const route = getRouteApi('/stacks/$name');

const changes: Record<StackStateChangeKind, Look> = {
  ADDED: { ...fates.create, word: 'Added', Icon: IconPlus },
  REMOVED: { ...fates.destroy, word: 'Removed', Icon: IconTrash },
  CHANGED: { ...fates.update, word: 'Changed', Icon: IconPencil },
};

/** The versions of a stack's state, what one of them holds, and what differs between two: never a value. */
export function StateTab({ stack }: { stack: StackOne }) {
  const query = useQuery(statesQuery(stack.name));
  const { show } = route.useSearch();
  const versions = query.data?.versions ?? [];
  const current = query.data?.current;
  const shown = versions.find(({ id }) => id === show) ?? versions.find(({ id }) => id === current);
  return (
    <Stack gap="md">
      <Panel title="Versions">
        <Shown query={query} what="the versions of its state">
          <Table
            isShort
            label="Versions of the state"
            hasHead={versions.length > 0}
            rows={versions}
            columns={columns(stack, current)}
            id={({ id }) => id}
            isWaiting={query.isPending}
            empty={
              <Empty title="No state yet">
                {stack.manageState === false && stack.git != null ? (
                  'Its tool keeps it elsewhere.'
                ) : (
                  <>
                    Its first version comes with the first apply. For a tool that runs elsewhere:{' '}
                    <code>{commands.genBackend(stack.name)}</code>
                  </>
                )}
              </Empty>
            }
          />
        </Shown>
        {versions.length > 0 && (
          <div style={{ padding: 12 }} data-no-print>
            <Command line={commands.state.list(stack.name)} />
          </div>
        )}
      </Panel>
      {shown && <Resources key={shown.id} stack={stack} version={shown} isCurrent={shown.id === current} />}
      {versions.length > 1 && <Difference stack={stack} versions={versions} />}
    </Stack>
  );
}

const label = (version: StateVersion): string =>
  `${version.serial}${version.rejected == null ? '' : version.acceptedAt == null ? ', rejected' : ', accepted'}, ${new Date(
    version.insertedAt ?? 0,
  ).toLocaleString()}`;

function columns(stack: StackOne, current: string | undefined): Columns<StateVersion> {
  return [
    {
      id: 'serial',
      header: 'Serial',
      meta: { track: '90px' },
      cell: ({ row: { original: version } }) => (
        <RouteLink to={paths.stack(stack.name)} search={{ tab: 'state', show: version.id }} strong>
          {version.serial}
        </RouteLink>
      ),
    },
    {
      id: 'what',
      header: 'What it is',
      meta: { track: 'minmax(150px, 1.6fr)' },
      cell: ({ row: { original: version } }) => {
        if (version.id === current) return 'the state now';
        if (version.acceptedAt != null) return 'was rejected, and taken in';
        if (version.rejected != null)
          return (
            <>
              <State look={{ ...fates.forget, word: 'Rejected' }} /> <Name of={version.rejected} />
            </>
          );
        return 'an earlier state';
      },
    },
    {
      id: 'resources',
      header: 'Resources',
      meta: { track: '90px', from: 620, isNumber: true },
      cell: ({ row }) => row.original.resources?.toLocaleString('en') ?? '–',
    },
    {
      id: 'size',
      header: 'Size',
      meta: { track: '80px', from: 760, isNumber: true },
      cell: ({ row }) => size(row.original.size),
    },
    {
      id: 'digest',
      header: 'SHA-256',
      meta: { track: '110px', from: 900 },
      cell: ({ row: { original: version } }) => (
        <>
          <code>{short(version.digest)}</code> <Copy text={version.digest} label="Copy the digest" />
        </>
      ),
    },
    {
      id: 'author',
      header: 'Written by',
      meta: { track: 'minmax(100px, 1fr)', from: 620 },
      cell: ({ row }) => text(row.original.author),
    },
    {
      id: 'at',
      header: 'Written',
      meta: { track: '90px', from: 480, isNumber: true },
      cell: ({ row }) => <Ago at={row.original.insertedAt} />,
    },
    {
      id: 'do',
      header: '',
      meta: { track: '110px', from: 480 },
      cell: ({ row: { original: version } }) => version.id !== current && <RestoreVersion stack={stack} version={version} />,
    },
  ];
}

function RestoreVersion({ stack, version }: { stack: StackOne; version: StateVersion }) {
  const isRejected = version.rejected != null && version.acceptedAt == null;
  return (
    <Action
      noun="stack"
      isSmall
      label={isRejected ? 'Take in' : 'Restore'}
      icon={IconArrowBackUp}
      right={stackRight(stack.name, 'state-write')}
      unless={stack.lock ? 'The state is locked: somebody may be changing it at this moment.' : undefined}
      explains={
        isRejected
          ? 'Makes this rejected version the state as a whole, under the next serial. Compare it first: it replaces what was written meanwhile. Plan afterwards.'
          : `Makes the state of serial ${version.serial} the state again, under the next serial; nothing else changes. Plans that were made before do not fit any more. What was created since is not in it: plan afterwards.`
      }
      confirm={stack.name}
      command={isRejected ? commands.state.accept(stack.name, version.id) : commands.state.restore(stack.name, version.id)}
      run={() => ask(RestoreState, { stack: stack.id, version: version.id })}
      done={isRejected ? 'The version is taken in' : 'The state is restored'}
    />
  );
}

function Difference({ stack, versions }: { stack: StackOne; versions: StateVersion[] }) {
  const { from, to } = route.useSearch();
  const navigate = route.useNavigate();
  const right = versions.find(({ id }) => id === to) ?? versions[0];
  const left = versions.find(({ id }) => id === from) ?? versions[1];
  const query = useQuery({
    ...stateDiffQuery(stack.id, left?.id ?? '', right?.id ?? ''),
    enabled: left !== undefined && right !== undefined && left.id !== right.id,
  });
  if (!left || !right) return null;
  const rows = query.data ?? [];
  const data = versions.map((version) => ({ value: version.id, label: label(version) }));
  const set = (change: { from?: string; to?: string }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const diffColumns: Columns<(typeof rows)[number]> = [
    {
      id: 'change',
      header: 'Change',
      meta: { track: '110px' },
      cell: ({ row }) => <State look={changes[row.original.change]} />,
    },
    {
      id: 'address',
      header: 'Address',
      meta: { track: 'minmax(160px, 2fr)', isCutAtStart: true },
      cell: ({ row }) => <Name of={row.original.identifier} />,
    },
    {
      id: 'attributes',
      header: 'Attributes that differ',
      meta: { track: 'minmax(120px, 2fr)', from: 620 },
      cell: ({ row }) => text(row.original.attributes.join(', ')),
    },
  ];
  return (
    <Panel
      title="Difference between two versions"
      aside={
        <Group gap="sm">
          <Select
            aria-label="From version"
            w={240}
            data={data}
            value={left.id}
            allowDeselect={false}
            onChange={(next) => next !== null && set({ from: next })}
          />
          <Text size="sm">to</Text>
          <Select
            aria-label="To version"
            w={240}
            data={data}
            value={right.id}
            allowDeselect={false}
            onChange={(next) => next !== null && set({ to: next })}
          />
        </Group>
      }
    >
      {left.id === right.id ? (
        <Empty title="These are the same version" />
      ) : (
        <Shown query={query} what="what differs">
          {query.isPending ? (
            <Waiting lines={4} />
          ) : (
            <Table
              isShort
              label="What differs"
              hasHead={rows.length > 0}
              rows={rows}
              columns={diffColumns}
              id={({ identifier, change }) => `${change} ${identifier}`}
              empty={<Empty title="No resource differs">Values of attributes are never shown here, only their names.</Empty>}
            />
          )}
        </Shown>
      )}
      <div style={{ padding: 12 }} data-no-print>
        <Command line={commands.state.diff(stack.name, left.serial, right.serial)} />
      </div>
    </Panel>
  );
}
