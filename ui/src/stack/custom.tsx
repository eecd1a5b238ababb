import { useInfiniteQuery } from '@tanstack/react-query';
import { IconPencil } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import type { StackAttributes, StepStage } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { given, type Field, type Values } from '../parts/form';
import { Facts, Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { definitionsQuery } from '../stackdefinition/queries';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import { follows } from './overview';
import type { StackOne } from './queries';

type Commands = StackOne['commands'] | undefined;

/** A command as a line: what a shell reads, or a program with its words. */
export function line(cmd: string, args: readonly (string | null)[]): string {
  const [first, script, ...more] = args;
  if (cmd === 'sh' && first === '-c' && script != null && more.length === 0) return script;
  return [cmd, ...args].map((word) => quoted(word ?? '')).join(' ');
}

const ofStage = (all: Commands, stage: StepStage): string =>
  (all ?? []).flatMap((one) => (one?.stage === stage ? [line(one.cmd, one.args ?? [])] : [])).join('\n');

/** One command of a shell a line, of a stage. One that stays as it is stays what it is. */
function commandsOf(values: Values, name: string, stage: StepStage, known: Commands) {
  return (values[name] ?? '').split('\n').flatMap((text) => {
    const script = text.trim();
    if (script === '') return [];
    const same = (known ?? []).find((one) => one?.stage === stage && line(one.cmd, one.args ?? []) === script);
    return [
      same
        ? { cmd: same.cmd, args: same.args, stage, requireApproval: same.requireApproval }
        : { cmd: 'sh', args: ['-c', script], stage },
    ];
  });
}

export const customFields = (of: { commands?: Commands; deleteCommands?: Commands }) => [
  {
    name: 'plan',
    label: 'Commands that say what would change, one a line',
    kind: 'area' as const,
    initial: ofStage(of.commands, 'PLAN'),
    placeholder: './dns diff',
    hint: 'A shell reads each of them',
  },
  {
    name: 'apply',
    label: 'Commands that do it, one a line',
    kind: 'area' as const,
    isRequired: true,
    initial: ofStage(of.commands, 'APPLY'),
    placeholder: './dns push',
  },
  {
    name: 'destroy',
    label: 'Commands that undo it, one a line',
    kind: 'area' as const,
    initial: (of.deleteCommands ?? []).flatMap((one) => (one ? [line(one.cmd, one.args ?? [])] : [])).join('\n'),
    hint: 'Without them the stack cannot be destroyed',
  },
];

export const customAttributes = (values: Values, of: { commands?: Commands; deleteCommands?: Commands }) => {
  const edited = [...commandsOf(values, 'plan', 'PLAN', of.commands), ...commandsOf(values, 'apply', 'APPLY', of.commands)];
  // Those of other stages are not asked for here, and stay.
  const others = (of.commands ?? []).flatMap((one) =>
    one && one.stage !== 'PLAN' && one.stage !== 'APPLY'
      ? [{ cmd: one.cmd, args: one.args, stage: one.stage, requireApproval: one.requireApproval }]
      : [],
  );
  return { commands: [...others, ...edited], deleteCommands: commandsOf(values, 'destroy', 'DESTROY', of.deleteCommands) };
};

/** The same for a stack that is made, as options. */
export const customOptions = (values: Values): string[] =>
  (['plan', 'apply', 'destroy'] as const).flatMap((name) =>
    (values[name] ?? '')
      .split('\n')
      .filter((text) => text.trim() !== '')
      .map((text) => `--${name}-command ${quoted(text.trim())}`),
  );

/** The commands of each stage, as facts. */
export function commandFacts(of: { commands?: Commands; deleteCommands?: Commands }): [string, ReactNode, 'wide'][] {
  const shown = (all: Commands, stage?: StepStage) => {
    const some = (all ?? []).flatMap((one) => (one && (stage === undefined || one.stage === stage) ? [one] : []));
    return (
      some.length > 0 &&
      some.map((one, at) => (
        <div key={at}>
          <Name of={line(one.cmd, one.args ?? [])} />
          {one.requireApproval && ' (waits for people)'}
        </div>
      ))
    );
  };
  return [
    ['Before', shown(of.commands, 'INIT'), 'wide'],
    ['Plan', shown(of.commands, 'PLAN'), 'wide'],
    ['Verify', shown(of.commands, 'VERIFY'), 'wide'],
    ['Apply', shown(of.commands, 'APPLY'), 'wide'],
    ['Destroy', shown(of.deleteCommands) || 'no commands: it cannot be destroyed', 'wide'],
  ];
}

interface Named {
  id: string;
  name: string;
}

/** What a stack may take its commands from, and its own commands where it takes none. */
export const definedFields = (
  of: { commands?: Commands; deleteCommands?: Commands; definition?: Named | null },
  definitions: Named[],
): Field[] => {
  const { definition } = of;
  const all = definition && !definitions.some(({ id }) => id === definition.id) ? [...definitions, definition] : definitions;
  return [
    {
      name: 'definition',
      label: 'Definition that it takes its commands from',
      kind: 'choice',
      initial: definition?.id ?? '',
      options: all.map(({ id, name }) => ({ value: id, label: name })),
      hint: 'Commands of its own when empty. Definitions are made under Settings, Stack definitions',
    },
    ...customFields(of).map((field): Field => ({ ...field, when: (values) => given(values, 'definition') === null })),
  ];
};

export const definedAttributes = (
  values: Values,
  of: { commands?: Commands; deleteCommands?: Commands },
): Pick<StackAttributes, 'definitionId' | 'commands' | 'deleteCommands'> => {
  const definitionId = given(values, 'definition');
  return definitionId === null
    ? { definitionId: '', ...customAttributes(values, of) }
    : { definitionId, commands: [], deleteCommands: [] };
};

type Looks = readonly ({ cmd: string; args?: readonly (string | null)[] | null; stage: StepStage } | null)[] | null | undefined;
interface Looked {
  driftSchedule?: { commands?: Looks } | null;
}

/** What looks for drift of such a stack, as a form asks for it: the definition of its commands has none of that. */
export const lookField = (of: Looked): Field => ({
  name: 'look',
  label: 'Commands that look for drift, one a line',
  kind: 'area',
  initial: (of.driftSchedule?.commands ?? []).flatMap((one) => (one ? [line(one.cmd, one.args ?? [])] : [])).join('\n'),
  placeholder: './dns drift',
  hint: 'They change nothing, and print a line “drift: updated ADDRESS” or “drift: deleted ADDRESS” for what something else changed',
});

/** One that stays as it is stays what it is. Nothing where there are none, and were none. */
export const lookAttributes = (values: Values, of: Looked): Pick<StackAttributes, 'drift'> => {
  const known = (of.driftSchedule?.commands ?? []).flatMap((one) => one ?? []);
  const commands = (values['look'] ?? '').split('\n').flatMap((text) => {
    const script = text.trim();
    if (script === '') return [];
    const same = known.find((one) => line(one.cmd, one.args ?? []) === script);
    if (!same) return [{ cmd: 'sh', args: ['-c', script] }];
    // One without a stage is told as one of the stage APPLY, which no look has.
    return [{ cmd: same.cmd, args: [...(same.args ?? [])], ...(same.stage !== 'APPLY' && { stage: same.stage }) }];
  });
  return commands.length === 0 && known.length === 0 ? {} : { drift: { commands } };
};

/** The commands of a stack that has no tool of its own. */
export function CommandsPanel({ stack }: { stack: StackOne }) {
  const definitions = useInfiniteQuery(definitionsQuery).data ?? [];
  const { definition } = stack;
  const attributes = (values: Values) => ({ ...definedAttributes(values, stack), ...lookAttributes(values, stack) });
  const looks = stack.driftSchedule?.commands ?? [];
  return (
    <Panel
      title="Commands"
      aside={
        <Action
          key={`${definition?.id ?? ''} ${lookField(stack).initial ?? ''}`}
          noun="stack"
          label="Change"
          icon={IconPencil}
          right={stackRight(stack.name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains={`Runs run these and no others. ${follows(stack)}`}
          fields={[...definedFields(stack, definitions), lookField(stack)]}
          command={(values) => commands.settings(stack.name, attributes(values))}
          run={(values) => ask(Update, { id: stack.id, attributes: attributes(values) })}
          done="Changed the commands"
        />
      }
    >
      <Facts
        facts={[
          [
            'Definition',
            definition && (
              <RouteLink to={paths.setting('stack-definitions', definition.name)}>
                <Name of={definition.name} />
              </RouteLink>
            ),
          ],
          ...commandFacts(definition ? { commands: definition.steps, deleteCommands: definition.deleteSteps } : stack),
          [
            'Look for drift',
            looks.length === 0
              ? 'no commands: nobody can look'
              : looks.map((one, at) => one && <Name key={at} of={line(one.cmd, one.args ?? [])} />),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}
