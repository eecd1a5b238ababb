import type { StepStage } from '../generated/graphql';
import { quoted } from '../lib/text';
import { asRows, rowsOf, type Field, type Values } from '../parts/values';
import { line } from './custom';

interface Hook {
  cmd: string;
  args?: readonly (string | null)[] | null;
  afterStage: StepStage;
}
type Hooks = readonly (Hook | null)[] | null | undefined;

const stages: StepStage[] = ['INIT', 'PLAN', 'VERIFY', 'APPLY', 'DESTROY'];
const some = (hooks: Hooks): Hook[] => (hooks ?? []).flatMap((hook) => hook ?? []);
const asked = (values: Values) =>
  rowsOf(values, 'hooks').map((row) => ({
    stage: stages.find((stage) => stage === row['stage']) ?? 'APPLY',
    command: (row['command'] ?? '').trim(),
  }));

/** Commands that run after a stage, as a form asks for them. */
export const hookField = (hooks: Hooks, hint: string): Field => ({
  name: 'hooks',
  label: 'Hooks',
  kind: 'list',
  each: 'hook',
  hint,
  initial: asRows(some(hooks).map(({ cmd, args, afterStage }) => ({ stage: afterStage, command: line(cmd, args ?? []) }))),
  row: () => [
    {
      name: 'stage',
      label: 'After',
      kind: 'choice',
      isRequired: true,
      initial: 'APPLY',
      options: stages.map((value) => ({ value, label: value.toLowerCase() })),
    },
    { name: 'command', label: 'Command', isRequired: true, placeholder: './tell-the-team', hint: 'A shell reads it' },
  ],
});

/** One that stays as it is stays what it is; a shell reads the others. */
export const hooksOf = (values: Values, hooks: Hooks) =>
  asked(values).map(({ stage, command }) => {
    const same = some(hooks).find((hook) => hook.afterStage === stage && line(hook.cmd, hook.args ?? []).trim() === command);
    return same
      ? { cmd: same.cmd, args: [...(same.args ?? [])], afterStage: stage }
      : { cmd: 'sh', args: ['-c', command], afterStage: stage };
  });

/** The same as options; where none is left, the one that takes those of before away. */
export const hookOptions = (values: Values, hooks: Hooks): string[] => {
  const all = asked(values);
  if (all.length === 0) return some(hooks).length === 0 ? [] : ['--no-hooks'];
  return all.map(({ stage, command }) => `--hook ${quoted(`${stage.toLowerCase()}=${command}`)}`);
};
