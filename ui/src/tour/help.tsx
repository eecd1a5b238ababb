import { Text } from '@mantine/core';

import { Command } from '../parts/action';
import { places } from '../shell/shell';
import classes from './help.module.css';

const keys: [keys: string, does: string][] = [
  ['Ctrl K, ⌘ K', 'Go to a cluster, a service or a page'],
  ['/', 'Search'],
  ['j, k', 'Next and previous row; Enter opens it'],
  ...places.map(({ name, key }): [string, string] => [`g, then ${key}`, name]),
];

/** Keys, and where more is written. */
export default function Help() {
  return (
    <>
      <div className={classes['onKeyboard']}>
        <Text size="sm" fw={600}>
          Keys
        </Text>
        <dl className={classes['keys']}>
          {keys.map(([pressed, does]) => (
            <div key={pressed}>
              <dt>{pressed}</dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
      </div>
      <Text size="sm" fw={600}>
        Documentation
      </Text>
      <Text size="sm">
        It comes with the sources: <code>docs/README.md</code> finds the page for a task, <code>docs/web-console</code> has one
        for each area of these pages.
      </Text>
      <Command line="plural --help" caption="Every command, with examples" />
    </>
  );
}
