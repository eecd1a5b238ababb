import { useNavigate } from '@tanstack/react-router';
import { IconTerminal2 } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { Action } from '../parts/action';
import { given, isOn, type Values } from '../parts/values';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { Exec } from './mutations';
import type { StackOne } from './queries';

/** The program and its arguments: a line each, so that no shell has to take them apart. */
const wordsOf = (values: Values): string[] => {
  const lines = (values['words'] ?? '').replace(/\n+$/, '').split('\n');
  return lines.length === 1 && lines[0]?.trim() === '' ? [] : lines;
};

/** A command of one's own in the environment of a stack. */
export function ExecAction({ stack, unless }: { stack: StackOne; unless: string | undefined }) {
  const navigate = useNavigate();
  const { id, name } = stack;
  const asks = stack.approval === true;
  return (
    <Action
      noun="stack"
      label="Run a command"
      icon={IconTerminal2}
      right={stackRight(name, 'exec')}
      unless={unless}
      explains="It runs where the runs of this stack do, on its newest commit, with its variables and files. It reads the state. It writes the state only if you may write the stack and, where plans need approval, after people approved it. Whoever reads the stack or the audit log sees the command: refer to secrets by the names of their variables."
      fields={[
        {
          name: 'words',
          label: 'Command',
          kind: 'area',
          isRequired: true,
          hint: 'The program, and each argument on a line of its own. No shell reads it.',
          placeholder: 'tofu\nstate\nlist',
        },
        { name: 'dir', label: 'Folder', hint: 'Below the one in which the tool runs.' },
        ...(asks
          ? [
              {
                name: 'approve',
                label: 'With the rights to apply',
                kind: 'check' as const,
                hint: stack.commandApproval
                  ? 'Without them it changes nothing of the state. It waits until somebody approves it, with or without.'
                  : 'It waits until somebody approves it. Otherwise it runs at once, and changes nothing of the state.',
              },
            ]
          : []),
      ]}
      command={(values) =>
        commands.exec(name, wordsOf(values), { dir: given(values, 'dir'), isApproved: isOn(values, 'approve') })
      }
      run={async (values) => {
        const [cmd = '', ...args] = wordsOf(values);
        const command = { cmd: cmd.trim(), args, dir: given(values, 'dir'), approve: isOn(values, 'approve') };
        const { createOnDemandRun: made } = await ask(Exec, { stackId: id, commands: [command] });
        if (made) await navigate({ to: paths.stackRun(name, made.id) });
      }}
      done="The run is made"
    />
  );
}
