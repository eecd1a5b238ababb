import { Code, Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconPlayerPlay, IconPlus, IconTrash } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { useNext } from '../lib/list';
import { visible } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';
import type { Values } from '../parts/values';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import {
  CreateCustomRun,
  customRunsQuery,
  DeleteCustomRun,
  StartCustomRun,
  type CustomRun,
  type Question,
} from './custom-queries';
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

const questionsOf = (row: CustomRun): Question[] => (row.configuration ?? []).flatMap((question) => question ?? []);

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
      <Group gap="xs" wrap="nowrap" justify="flex-end">
        <Start stack={stack} row={row} />
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
  const waits = stack.approval === true && (row.commands ?? []).some((command) => command?.approve === true);
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
              .map((command) => visible([command.cmd, ...(command.args ?? []).flatMap((word) => word ?? [])].join(' ')))
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

function Remove({ stack, row }: { stack: StackOne; row: CustomRun }) {
  const right =
    row.stack == null && row.project != null
      ? { verb: 'update', thing: `project/${row.project.name}` }
      : stackRight(stack.name, 'write');
  return (
    <Action
      noun="stack"
      isSmall
      isDangerous
      label={`Delete ${row.name}`}
      icon={IconTrash}
      right={right}
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

/** The program and its arguments, a line each, and the questions as the API takes them. */
function attributesOf(stack: StackOne, values: Values) {
  const [cmd = '', ...args] = (values['words'] ?? '').replace(/\n+$/, '').split('\n');
  const text = (values['questions'] ?? '').trim();
  let configuration: unknown = [];
  try {
    configuration = text === '' ? [] : JSON.parse(text);
  } catch {
    throw new Error('The questions are no JSON: write a list of objects, as in the example.');
  }
  if (!Array.isArray(configuration)) throw new Error('The questions must be a list: put [ and ] around them.');
  return {
    name: values['name'] ?? '',
    documentation: values['documentation'] ?? '',
    stackId: stack.id,
    commands: [{ cmd: cmd.trim(), args, approve: values['approve'] === 'yes' }],
    configuration: configuration as [],
  };
}

function Store({ stack }: { stack: StackOne }) {
  return (
    <Action
      noun="stack"
      isSmall
      label="Store commands"
      icon={IconPlus}
      right={stackRight(stack.name, 'write')}
      explains="Whoever may run commands in this stack starts them, with rights of their own. Several commands, or a folder, are stored by command line."
      fields={[
        { name: 'name', label: 'Name', isRequired: true },
        { name: 'documentation', label: 'What it is for' },
        {
          name: 'words',
          label: 'Command',
          kind: 'area',
          isRequired: true,
          hint: 'The program, and each argument on a line of its own. No shell reads it.',
          placeholder: 'tofu\nstate\nlist',
        },
        {
          name: 'questions',
          label: 'Questions',
          kind: 'area',
          hint: 'A JSON list. An answer is a variable of the environment, by the name of its question. Types: STRING, INT, BOOL, JSON, PASSWORD, ENUM with values, CLUSTER, PROJECT, GROUP, USER.',
          placeholder: '[{"type": "INT", "name": "SIZE", "default": "3", "documentation": "How many nodes"}]',
        },
        {
          name: 'approve',
          label: 'With the rights to apply, when people agreed',
          kind: 'check',
          hint: 'Where this stack needs approval, it waits for that.',
        },
      ]}
      command={(values) => commands.custom.create(stack.name, given(values), () => attributesOf(stack, values))}
      run={(values) => ask(CreateCustomRun, { attributes: attributesOf(stack, values) })}
      done="The commands are stored"
    />
  );
}

const given = (values: Values): string => ((values['name'] ?? '').trim() === '' ? 'NAME' : (values['name'] ?? '').trim());
