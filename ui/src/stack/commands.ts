import { quoted } from '../lib/text';
import type { RunKind } from './states';

/** A run as the command line names it: `network/12`. */
export interface RunName {
  stack: string;
  number: number;
}
const runName = ({ stack, number }: RunName): string => quoted(`${stack}/${number}`);

/** Attributes that are no option of their own, as the command reads them. */
const read = (begin: string, attributes: unknown): string =>
  `${begin} --settings - <<'SETTINGS'\n${JSON.stringify(attributes, null, 2)}\nSETTINGS`;

/** Commands under a name, with their questions, as the command reads them. */
const readCommands = (begin: string, stored: unknown): string =>
  `${begin} --file - <<'COMMANDS'\n${JSON.stringify(stored, null, 2)}\nCOMMANDS`;

/** Every command line of a stack that these pages show, so that an option that moves is moved in one place. */
export const commands = {
  list: 'plural cd stacks list',
  create: 'plural cd stacks create --help',
  runs: (name: string, isAll = false) => `plural cd stacks runs ${quoted(name)}${isAll ? ' --all' : ''}`,
  run: (name: string, kind: RunKind) =>
    kind === 'DRY_RUN'
      ? `plural cd stacks plan ${quoted(name)}`
      : kind === 'DRIFT'
        ? `plural cd stacks drift ${quoted(name)} --now`
        : `plural cd stacks trigger ${quoted(name)}${kind === 'DESTROY' ? ' --destroy' : ''}`,
  drift: (name: string) => `plural cd stacks drift ${quoted(name)}`,
  lookForDrift: (name: string) => `plural cd stacks drift ${quoted(name)} --now`,
  exec: (name: string, words: string[], options: { dir: string | null; isApproved: boolean }) =>
    [
      `plural cd stacks exec ${quoted(name)}`,
      ...(options.dir === null ? [] : [`--dir ${quoted(options.dir)}`]),
      ...(options.isApproved ? ['--approve'] : []),
      '--',
      ...(words.length === 0 ? ['COMMAND'] : words.map(quoted)),
    ].join(' '),
  custom: {
    create: (stack: string, { name, ...stored }: { name: string }) =>
      readCommands(`plural cd stacks commands create ${quoted(name === '' ? 'NAME' : name)} --stack ${quoted(stack)}`, stored),
    update: (custom: { id: string; name: string }, { name, ...stored }: { name: string }) =>
      readCommands(
        `plural cd stacks commands update ${custom.id}${name === custom.name ? '' : ` --name ${quoted(name)}`}`,
        stored,
      ),
    run: (
      stack: string,
      custom: { id: string },
      questions: readonly { name: string; type: string }[],
      answers: Record<string, string>,
    ) => {
      const isSecret = (name: string) => questions.some((question) => question.name === name && question.type === 'PASSWORD');
      return [
        `plural cd stacks commands run ${custom.id} --stack ${quoted(stack)}`,
        ...Object.entries(answers).map(([name, value]) =>
          isSecret(name) ? `--secret-answer ${quoted(name)}` : `--answer ${quoted(`${name}=${value}`)}`,
        ),
      ].join(' ');
    },
    remove: (custom: { id: string }) => `plural cd stacks commands delete ${custom.id}`,
  },
  waiting: 'plural cd stacks waiting',
  approve: (run: RunName, digest: string) => `plural cd stacks approve ${runName(run)} --digest ${digest}`,
  reject: (run: RunName, reason: string) =>
    `plural cd stacks reject ${runName(run)} --reason ${quoted(reason === '' ? 'REASON' : reason)}`,
  cancel: (run: RunName) => `plural cd stacks cancel ${runName(run)}`,
  planPull: (name: string, url: string) => `plural cd stacks plan ${quoted(name)} --pull-request ${quoted(url)}`,
  release: (name: string, url: string, sha: string) =>
    `plural cd stacks release ${quoted(name)} --pull-request ${quoted(url)} --commit ${sha}`,
  restart: (run: RunName) => `plural cd stacks restart ${runName(run)}`,
  describeRun: (run: RunName) => `plural cd stacks run ${runName(run)}`,
  logs: (run: RunName, step: number, follows: boolean) =>
    `plural cd stacks logs ${runName(run)} --step ${step}${follows ? ' --follow' : ''}`,
  outputs: (name: string, output?: string) =>
    `plural cd stacks outputs ${quoted(name)}${output === undefined ? '' : ` ${quoted(output)}`}`,
  update: (name: string, ...options: string[]) => `plural cd stacks update ${quoted(name)} ${options.join(' ')}`,
  settings: (name: string, attributes: unknown) => read(`plural cd stacks update ${quoted(name)}`, attributes),
  remove: (name: string, leaves: boolean) => `plural cd stacks delete ${quoted(name)}${leaves ? ' --leave-dependents' : ''}`,
  detach: (name: string, leaves: boolean) => `plural cd stacks detach ${quoted(name)}${leaves ? ' --leave-dependents' : ''}`,
  restore: (name: string) => `plural cd stacks restore ${quoted(name)}`,
  genBackend: (name: string) => `plural cd stacks gen-backend ${quoted(name)}`,
  state: {
    list: (name: string) => `plural cd stacks state list ${quoted(name)}`,
    diff: (name: string, from: number, to: number) => `plural cd stacks state diff ${quoted(name)} ${from} ${to}`,
    restore: (name: string, version: string) => `plural cd stacks state restore ${quoted(name)} ${version}`,
    accept: (name: string, version: string) => `plural cd stacks state accept ${quoted(name)} ${version}`,
    pull: (name: string) => `plural cd stacks state pull ${quoted(name)}`,
    unlock: (name: string) => `plural cd stacks state unlock ${quoted(name)}`,
  },
} as const;

/** What a person may be asked for, as `plural auth can-i` takes it. */
export const stackRight = (name: string, verb: string) => ({ verb, thing: `stack/${name}` });
