import { IconPencil } from '@tabler/icons-react';

import type { StepStage } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import type { Values } from '../parts/form';
import { Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import { follows } from './overview';
import type { StackOne } from './queries';

type Commands = StackOne['commands'] | undefined;

/** A command as a line: what a shell reads, or a program with its words. */
function line(cmd: string, args: readonly (string | null)[]): string {
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
    return [same ? { cmd: same.cmd, args: same.args, stage } : { cmd: 'sh', args: ['-c', script], stage }];
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
    one && one.stage !== 'PLAN' && one.stage !== 'APPLY' ? [{ cmd: one.cmd, args: one.args, stage: one.stage }] : [],
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

/** The commands of a stack that has no tool of its own. */
export function CommandsPanel({ stack }: { stack: StackOne }) {
  const shown = (all: Commands, stage?: StepStage) => {
    const some = (all ?? []).flatMap((one) => (one && (stage === undefined || one.stage === stage) ? [one] : []));
    return (
      some.length > 0 &&
      some.map((one, at) => (
        <div key={at}>
          <Name of={line(one.cmd, one.args ?? [])} />
        </div>
      ))
    );
  };
  return (
    <Panel
      title="Commands"
      aside={
        <Action
          noun="stack"
          label="Change"
          icon={IconPencil}
          right={stackRight(stack.name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains={`Runs run these and no others. ${follows(stack)}`}
          fields={customFields(stack)}
          command={(values) => commands.settings(stack.name, customAttributes(values, stack))}
          run={(values) => ask(Update, { id: stack.id, attributes: customAttributes(values, stack) })}
          done="Changed the commands"
        />
      }
    >
      <Facts
        facts={[
          ['Before', shown(stack.commands, 'INIT'), 'wide'],
          ['Plan', shown(stack.commands, 'PLAN'), 'wide'],
          ['Verify', shown(stack.commands, 'VERIFY'), 'wide'],
          ['Apply', shown(stack.commands, 'APPLY'), 'wide'],
          ['Destroy', shown(stack.deleteCommands) || 'no commands: it cannot be destroyed', 'wide'],
        ]}
      />
    </Panel>
  );
}
