import { useNavigate } from '@tanstack/react-router';
import { IconArrowBackUp, IconFileDiff, IconPlayerPause, IconPlayerPlay, IconTrash, IconUnlink } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { Action } from '../parts/action';
import { isOn, type Field } from '../parts/values';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { ExecAction } from './exec';
import { Goes } from './goes';
import { Delete, Detach, Restore, Trigger, Update } from './mutations';
import type { StackOne } from './queries';
import type { RunKind } from './states';

/** What may be done to a stack now. */
export function StackActions({ stack }: { stack: StackOne }) {
  const navigate = useNavigate();
  const { id, name } = stack;
  const right = (verb: string) => stackRight(name, verb);
  const leaves = stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.';
  const noSource =
    stack.git == null ? 'The console knows no code of this stack: give it a repository under Settings first.' : undefined;
  const run = (kind: RunKind) => async () => {
    const { triggerRun } = await ask(Trigger, { id, dryRun: kind === 'DRY_RUN', destroy: kind === 'DESTROY' });
    if (triggerRun) await navigate({ to: paths.stackRun(name, triggerRun.id) });
  };
  return (
    <>
      <Action
        noun="stack"
        label="Plan and apply"
        icon={IconPlayerPlay}
        right={right('write')}
        unless={leaves ?? noSource}
        explains={
          stack.approval === true
            ? 'Plans what the newest commit says. A plan that changes something waits for approval, and exactly that plan is applied.'
            : 'Plans what the newest commit says and applies that plan at once: this stack needs no approval.'
        }
        command={commands.run(name, 'APPLY')}
        run={run('APPLY')}
        done="The run is made"
      />
      <Action
        noun="stack"
        label="Plan only"
        icon={IconFileDiff}
        right={right('write')}
        unless={leaves ?? noSource}
        explains="Says what would change, and changes nothing, whatever anybody approves."
        command={commands.run(name, 'DRY_RUN')}
        run={run('DRY_RUN')}
        done="The plan is made"
      />
      <ExecAction stack={stack} unless={leaves ?? noSource} />
      {stack.deletedAt == null ? (
        <DeleteActions stack={stack} run={run('DESTROY')} noSource={noSource} />
      ) : (
        <Action
          noun="stack"
          label="Restore"
          icon={IconArrowBackUp}
          right={right('delete')}
          explains="Takes the deletion back. The run that destroys it is cancelled while it is queued or waits; what is destroyed by then stays so."
          command={commands.restore(name)}
          run={() => ask(Restore, { id })}
          done={`${name} is kept`}
        />
      )}
    </>
  );
}

/** Pause and resume: what makes runs besides people. */
export function PauseAction({ stack }: { stack: StackOne }) {
  const { id, name, paused } = stack;
  const leaves = stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.';
  return (
    <Action
      key={String(paused)}
      noun="stack"
      label={paused ? 'Resume' : 'Pause'}
      icon={paused ? IconPlayerPlay : IconPlayerPause}
      right={stackRight(name, 'update')}
      unless={leaves}
      explains={
        paused
          ? 'New commits make runs again.'
          : 'Commits make no runs until somebody resumes it. Runs by hand go on, and so does what runs now.'
      }
      command={commands.update(name, `--paused ${String(!paused)}`)}
      run={() => ask(Update, { id, attributes: { paused: !paused } })}
      done={paused ? `Resumed ${name}` : `Paused ${name}`}
    />
  );
}

/** Who depends on a stack has no say in whether it goes. */
const leaving: Field = {
  name: 'leaves',
  label: 'Leave stacks that depend on it and services and contexts that import its outputs without it',
  kind: 'check',
  when: (values) => values['how'] !== 'keep',
};

function DeleteActions({ stack, run, noSource }: { stack: StackOne; run: () => Promise<void>; noSource: string | undefined }) {
  const { id, name, stateVersion: state } = stack;
  const kept =
    stack.protect || stack.lock
      ? stack.protect
        ? 'It is protected: remove the protection under Settings first.'
        : 'Its state is locked: somebody may be changing it at this moment.'
      : undefined;
  const forget = state && state.resources !== 0 ? { forget: state.id } : {};
  if (noSource !== undefined)
    return (
      <Action
        noun="stack"
        isDangerous
        label="Delete"
        icon={IconTrash}
        right={stackRight(name, 'delete')}
        unless={kept}
        explains={(values) => <Goes stack={stack} isDestroyed={false} isLeaving={isOn(values, 'leaves')} />}
        fields={[leaving]}
        confirm={name}
        command={(values) => commands.remove(name, isOn(values, 'leaves'))}
        run={async (values) => {
          await ask(Delete, { id, ...forget, ...(isOn(values, 'leaves') && { leaveDependents: true }) });
        }}
        done={`${name} is deleted`}
      />
    );
  return (
    <>
      <Action
        noun="stack"
        isDangerous
        label="Destroy and delete"
        icon={IconTrash}
        right={stackRight(name, 'delete')}
        unless={kept}
        explains={(values) => (
          <Goes stack={stack} isDestroyed isKept={values['how'] === 'keep'} isLeaving={isOn(values, 'leaves')} />
        )}
        fields={[
          {
            name: 'how',
            label: 'What goes',
            kind: 'choice',
            isRequired: true,
            initial: 'delete',
            options: [
              { value: 'delete', label: 'everything that it made, and then the stack' },
              { value: 'keep', label: 'everything that it made: the stack stays' },
            ],
          },
          leaving,
        ]}
        confirm={name}
        command={(values) =>
          values['how'] === 'keep' ? commands.run(name, 'DESTROY') : commands.remove(name, isOn(values, 'leaves'))
        }
        run={async (values) => {
          if (values['how'] === 'keep') await run();
          else await ask(Delete, { id, ...(isOn(values, 'leaves') && { leaveDependents: true }) });
        }}
        done={`${name} is being removed`}
      />
      <Action
        noun="stack"
        isDangerous
        label="Detach"
        icon={IconUnlink}
        right={stackRight(name, 'delete')}
        unless={kept}
        explains={(values) => <Goes stack={stack} isDestroyed={false} isLeaving={isOn(values, 'leaves')} />}
        fields={[leaving]}
        confirm={name}
        command={(values) => commands.detach(name, isOn(values, 'leaves'))}
        run={async (values) => {
          await ask(Detach, { id, ...forget, ...(isOn(values, 'leaves') && { leaveDependents: true }) });
        }}
        done={`${name} is forgotten`}
      />
    </>
  );
}
