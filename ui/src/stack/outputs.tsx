import { Button, Code, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconEye } from '@tabler/icons-react';
import { useState } from 'react';

import { visible } from '../lib/text';
import { Action, Command, Copy } from '../parts/action';
import { Empty, Fault, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import { commands, stackRight } from './commands';
import { openOutputsQuery, outputNamesQuery, readOutputs, type StackOne } from './queries';

interface Row {
  name: string;
  isSecret: boolean;
  /** What it is, once it was read. */
  value: string | undefined;
}

/** What a stack gives to others. Nothing of it is read before somebody asks, and of what is secret only the one that is asked for. */
export function Outputs({ stack }: { stack: StackOne }) {
  const { name } = stack;
  const query = useQuery(outputNamesQuery(name));
  const [isAsked, setAsked] = useState(false);
  const some = query.data ?? [];
  const isOpen = some.some(({ secret }) => secret !== true);
  const read = useQuery({
    ...openOutputsQuery(name),
    // Where nothing is secret, nobody needs to ask.
    enabled: isOpen && (isAsked || some.every(({ secret }) => secret !== true)),
  });
  const values = new Map((read.data ?? []).map((one) => [one.name, one.value]));
  const rows = some.map((one): Row => ({ name: one.name, isSecret: one.secret === true, value: values.get(one.name) }));
  const columns: Columns<Row> = [
    {
      id: 'name',
      header: 'Output',
      meta: { track: 'minmax(120px, 1fr)' },
      cell: ({ row }) => <Name of={row.original.name} />,
    },
    {
      id: 'value',
      header: 'Value',
      meta: { track: 'minmax(160px, 3fr)' },
      cell: ({ row: { original: row } }) => {
        if (row.isSecret)
          return (
            <Action
              noun="stack output"
              isSmall
              label={`Show ${row.name}`}
              icon={IconEye}
              right={stackRight(name, 'state-read')}
              explains="Its tool calls it sensitive. It is shown on this screen, to you alone."
              command={commands.outputs(name, row.name)}
              run={async () => (await readOutputs(name)).find((one) => one.name === row.name)?.value ?? ''}
              tells={(value) => (
                <Group gap="xs" wrap="nowrap">
                  <Code block flex={1} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
                    {visible(value)}
                  </Code>
                  <Copy text={value} label={`Copy ${row.name}`} />
                </Group>
              )}
              done="Shown"
            />
          );
        return row.value === undefined ? (
          <Text component="span" size="sm" c="dimmed">
            {read.isFetching ? 'is being read' : 'not read yet'}
          </Text>
        ) : (
          <>
            <Name of={row.value} /> <Copy text={row.value} label={`Copy ${row.name}`} />
          </>
        );
      },
    },
  ];
  return (
    <Panel
      title="Outputs"
      aside={
        isOpen &&
        !read.isSuccess && (
          <Button
            variant="default"
            size="xs"
            leftSection={<IconEye size={14} />}
            loading={read.isFetching}
            onClick={() => setAsked(true)}
          >
            Show values that are not secret
          </Button>
        )
      }
    >
      {read.isError && <Fault error={read.error} what="its values" retry={() => void read.refetch()} />}
      <Shown query={query} what="its outputs">
        <Table
          isShort
          label="Outputs"
          hasHead={rows.length > 0}
          rows={rows}
          columns={columns}
          id={(row) => row.name}
          isWaiting={query.isPending}
          empty={
            <Empty title="No outputs">
              What the code declares as outputs appears here after an apply: addresses, names, identifiers that others need.
            </Empty>
          }
        />
      </Shown>
      {rows.length > 0 && (
        <Stack gap="sm" p={12} data-no-print>
          <Text size="sm">
            Templates of services that import the stack, under their configuration, read{' '}
            <code>
              <Name of={`imports["${name}"]["${rows[0]?.name ?? ''}"]`} />
            </code>
            .
          </Text>
          <Command line={commands.outputs(name)} />
        </Stack>
      )}
    </Panel>
  );
}
