import { quoted } from '../lib/text';
import type { RunKind } from './states';

/** Attributes that are no option of their own, as the command reads them. */
const read = (begin: string, attributes: unknown): string =>
  `${begin} --settings - <<'SETTINGS'\n${JSON.stringify(attributes, null, 2)}\nSETTINGS`;

/** Every command line of a stack that these pages show, so that an option that moves is moved in one place. */
export const commands = {
  list: 'plural cd stacks list',
  create: 'plural cd stacks create --help',
  runs: (name: string) => `plural cd stacks runs ${quoted(name)}`,
  run: (name: string, kind: RunKind) =>
    kind === 'DRY_RUN'
      ? `plural cd stacks plan ${quoted(name)}`
      : `plural cd stacks trigger ${quoted(name)}${kind === 'DESTROY' ? ' --destroy' : ''}`,
  waiting: 'plural cd stacks waiting',
  approve: (run: string, digest: string) => `plural cd stacks approve ${run} --digest ${digest}`,
  reject: (run: string, reason: string) => `plural cd stacks reject ${run} --reason ${quoted(reason === '' ? 'REASON' : reason)}`,
  cancel: (run: string) => `plural cd stacks cancel ${run}`,
  restart: (run: string) => `plural cd stacks restart ${run}`,
  describeRun: (run: string) => `plural cd stacks run ${run}`,
  logs: (run: string, follows: boolean) => `plural cd stacks logs ${run}${follows ? ' --follow' : ''}`,
  outputs: (name: string) => `plural cd stacks outputs ${quoted(name)}`,
  update: (name: string, ...options: string[]) => `plural cd stacks update ${quoted(name)} ${options.join(' ')}`,
  settings: (name: string, attributes: unknown) => read(`plural cd stacks update ${quoted(name)}`, attributes),
  remove: (name: string) => `plural cd stacks delete ${quoted(name)}`,
  detach: (name: string) => `plural cd stacks detach ${quoted(name)}`,
  restore: (name: string) => `plural cd stacks restore ${quoted(name)}`,
  genBackend: (name: string) => `plural cd stacks gen-backend ${quoted(name)}`,
  state: {
    list: (name: string) => `plural cd stacks state list ${quoted(name)}`,
    diff: (name: string, from: number, to: number) => `plural cd stacks state diff ${quoted(name)} ${from} ${to}`,
    restore: (name: string, version: string) => `plural cd stacks state restore ${quoted(name)} ${version}`,
    accept: (name: string, version: string) => `plural cd stacks state accept ${quoted(name)} ${version}`,
    unlock: (name: string) => `plural cd stacks state unlock ${quoted(name)}`,
  },
} as const;

/** What a person may be asked for, as `plural auth can-i` takes it. */
export const stackRight = (name: string, verb: string) => ({ verb, thing: `stack/${name}` });
