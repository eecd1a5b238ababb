import { Code, Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconPencil, IconPlayerPlay, IconPlus, IconTrash } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { useNext } from '../lib/list';
import { quoted, visible } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import {
  CreateCustomRun,
  customRunsQuery,
  DeleteCustomRun,
  StartCustomRun,
  UpdateCustomRun,
  type CustomRun,
} from './custom-queries';
import { customRunAttributes, customRunFields, questionsOf } from './custom-form';
import { answersOf, fieldsOf } from './questions';
import type { StackOne } from './queries';

/** Commands under a name that can be started for a stack. */
export function CustomRuns({ stack }: { stack: StackOne }) {
  const query = useInfiniteQuery(customRunsQuery(stack.id));
  const next = useNext(query);
  return (
    <Panel title="Commands" aside={<Store stack={stack} />}>
      <Shown query={query} what="its commands">
        <Table
          isShort
          isTall
          label="Commands"
          hasHead={(query.data ?? []).length > 0}
          rows={query.data ?? []}
          columns={columns(stack)}
          id={(row) => row.id}
          isWaiting={query.isPending}
          next={next}
          empty={
            <Empty title="No commands under a name">
              Store what people do again and again, with the questions that it needs. Whoever may run commands here starts it.
            </Empty>
          }
        />
      </Shown>
    </Panel>
  );
}

const columns = (stack: StackOne): Columns<CustomRun> => [
  {
    id: 'name',
    header: 'Name',
    meta: { track: 'minmax(120px, 1fr)' },
    cell: ({ row: { original: row } }) => <Name of={row.name} />,
  },
  {
    id: 'for',
    header: 'For',
    meta: { track: 'minmax(120px, 2fr)', from: 700 },
    cell: ({ row: { original: row } }) => (row.documentation == null ? '' : <Name of={row.documentation} />),
  },
  {
    id: 'of',
    header: 'Of',
    meta: { track: '140px', from: 900 },
    cell: ({ row: { original: row } }) =>
      row.stack == null ? (
        <>
          all stacks of <Name of={row.project?.name ?? 'the project'} />
        </>
      ) : (
        'this stack'
      ),
  },
  {
    id: 'at',
    header: 'Changed',
    meta: { track: '110px', from: 900 },
    cell: ({ row: { original: row } }) => <Ago at={row.updatedAt} />,
  },
  {
    id: 'do',
    header: '',
    meta: { track: '190px' },
    cell: ({ row: { original: row } }) => (
      <Group gap={4} justify="flex-end">
        <Start stack={stack} row={row} />
        <Change stack={stack} row={row} />
        <Remove stack={stack} row={row} />
      </Group>
    ),
  },
];

function Start({ stack, row }: { stack: StackOne; row: CustomRun }) {
  const navigate = useNavigate();
  const questions = questionsOf(row);
  const unless =
    stack.git == null
      ? 'The console knows no code of this stack: give it a repository under Settings first.'
      : stack.deletedAt == null
        ? undefined
        : 'The stack is being destroyed and deleted.';
  const waits =
    stack.approval === true && (stack.commandApproval || (row.commands ?? []).some((command) => command?.approve === true));
  return (
    <Action
      noun="stack"
      isSmall
      label={`Run ${row.name}`}
      icon={IconPlayerPlay}
      right={stackRight(stack.name, 'exec')}
      unless={unless}
      explains={
        <>
          Runs, on the newest commit and with your rights:
          <Code block mt="xs" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            {(row.commands ?? [])
              .flatMap((command) => command ?? [])
              .map(({ cmd, args, dir }) => {
                const words = [cmd, ...(args ?? []).flatMap((word) => word ?? [])].map(quoted).join(' ');
                return visible(dir == null || dir === '' ? words : `(in ${quoted(dir)}) ${words}`);
              })
              .join('\n')}
          </Code>
          {questions.length > 0 && 'Answers are variables of its environment, by the names of the questions. '}
          {waits && 'It waits until somebody approves it.'}
        </>
      }
      fields={fieldsOf(questions)}
      command={(values) => commands.custom.run(stack.name, row, questions, answersOf(questions, values))}
      run={async (values) => {
        const answers = answersOf(questions, values);
        const { startCustomStackRun: made } = await ask(StartCustomRun, { id: row.id, stackId: stack.id, answers });
        if (made) await navigate({ to: paths.stackRun(stack.name, made.id) });
      }}
      done="The run is made"
    />
  );
}

/** Commands of a project are changed by who changes that. */
const rightOf = (stack: StackOne, row: CustomRun) =>
  row.stack == null && row.project != null
    ? { verb: 'update', thing: `project/${row.project.name}` }
    : stackRight(stack.name, 'write');

function Remove({ stack, row }: { stack: StackOne; row: CustomRun }) {
  return (
    <Action
      noun="stack"
      isSmall
      isDangerous
      label={`Delete ${row.name}`}
      icon={IconTrash}
      right={rightOf(stack, row)}
      explains={
        row.stack == null
          ? 'It is gone for all stacks of the project. Runs that were started stay.'
          : 'Runs that were started stay.'
      }
      command={commands.custom.remove(row)}
      run={() => ask(DeleteCustomRun, { id: row.id })}
      done={`${row.name} is deleted`}
    />
  );
}

const stores = 'Whoever may run commands in a stack starts them there, with rights of their own.';

function Store({ stack }: { stack: StackOne }) {
  return (
    <Action
      noun="stack"
      isSmall
      label="Store commands"
      icon={IconPlus}
      right={stackRight(stack.name, 'write')}
      explains={stores}
      fields={customRunFields()}
      command={(values) => commands.custom.create(stack.name, customRunAttributes(values))}
      run={(values) => ask(CreateCustomRun, { attributes: { ...customRunAttributes(values), stackId: stack.id } })}
      done="The commands are stored"
    />
  );
}

function Change({ stack, row }: { stack: StackOne; row: CustomRun }) {
  return (
    <Action
      key={row.updatedAt ?? ''}
      noun="stack"
      isSmall
      label={`Change ${row.name}`}
      icon={IconPencil}
      right={rightOf(stack, row)}
      explains={
        row.stack == null
          ? `It changes for all stacks of the project. ${stores}`
          : `${stores} Runs that were started stay as they are.`
      }
      fields={customRunFields(row)}
      command={(values) => commands.custom.update(row, customRunAttributes(values, row))}
      run={(values) => ask(UpdateCustomRun, { id: row.id, attributes: customRunAttributes(values, row) })}
      done="Changed the commands"
    />
  );
}
