import { useQuery } from '@tanstack/react-query';
import { IconArrowsSplit2 } from '@tabler/icons-react';

import type { ContextQuery } from '../generated/graphql';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Facts, Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { asRows, isOn, rowsOf, type Values } from '../parts/values';
import { paths } from '../paths';
import { importableStacksQuery } from '../service/configuration-queries';

type Context = NonNullable<ContextQuery['serviceContext']>;
export interface Taken {
  stackId: string;
  output: string;
  name: string;
  sensitive: boolean;
}

const asked = (values: Values): Taken[] =>
  rowsOf(values, 'imports').map((row) => {
    const output = (row['output'] ?? '').trim();
    const name = (row['name'] ?? '').trim();
    return { stackId: row['stack'] ?? '', output, name: name === '' ? output : name, sensitive: isOn(row, 'sensitive') };
  });

/** The outputs of stacks that a context takes, without their values. */
export function ContextImports({ context, save }: { context: Context; save: (imports: Taken[]) => Promise<unknown> }) {
  const stacks = useQuery(importableStacksQuery);
  const all = (context.imports ?? []).flatMap((one) => one ?? []);
  const seen = stacks.data ?? [];
  const known = all.flatMap(({ stack }) => (stack && !seen.some(({ id }) => id === stack.id) ? [stack] : []));
  const others = new Map([...seen, ...known].map(({ id, name }) => [id, name]));
  const options = [...others].map(([value, label]) => ({ value, label }));
  for (const { stackId } of all)
    if (!options.some(({ value }) => value === stackId)) options.push({ value: stackId, label: 'a stack that you may not see' });
  const command = (values: Values) => {
    const imports = asked(values);
    const begin = `plural cd contexts save ${quoted(context.name)}`;
    if (imports.length === 0) return `${begin} --no-imports`;
    const option = ({ stackId, output, name, sensitive }: Taken) => {
      const place = `${others.get(stackId) ?? 'STACK'}/${output}`;
      return `--import${sensitive ? '-sensitive' : ''} ${quoted(name === output ? place : `${name}=${place}`)}`;
    };
    return [begin, ...imports.map(option)].join(' ');
  };
  const initial = asRows(
    all.map(({ stackId, output, name, sensitive }) => ({
      stack: stackId,
      output,
      name: name === output ? '' : name,
      sensitive: sensitive === true ? 'yes' : '',
    })),
  );
  return (
    <Panel
      title="Outputs of stacks"
      aside={
        <Action
          key={initial}
          noun="contexts"
          label="Change"
          icon={IconArrowsSplit2}
          isReading={stacks.isPending}
          right={{ verb: 'update', thing: `context/${context.name}` }}
          explains="Every service that uses the context is rendered anew, now and whenever one of these outputs changes."
          fields={[
            {
              name: 'imports',
              label: 'Outputs that it takes',
              kind: 'list',
              each: 'output',
              initial,
              row: () => [
                { name: 'stack', label: 'Stack', kind: 'choice', isRequired: true, options },
                { name: 'output', label: 'Output', isRequired: true },
                { name: 'name', label: 'Name for templates', hint: 'The output’s when empty' },
                {
                  name: 'sensitive',
                  label: 'Also where it is sensitive',
                  kind: 'check',
                  hint: 'That needs your right to read the stack’s state, and makes this a context with secret values',
                },
              ],
            },
          ]}
          command={command}
          run={(values) => save(asked(values))}
          done="Changed the outputs"
        />
      }
    >
      {all.length === 0 ? (
        <Empty title="It takes no outputs">
          Outputs of stacks stand among its values, and come again with each apply that changes them.
        </Empty>
      ) : (
        <Facts
          facts={all.map((one): [string, React.ReactNode, 'wide'] => [
            one.name,
            <span key={one.name}>
              <Name of={one.output} /> of{' '}
              {one.stack == null ? (
                'a stack that is gone, or that you may not see'
              ) : (
                <RouteLink to={paths.stack(one.stack.name)}>
                  <Name of={one.stack.name} />
                </RouteLink>
              )}
              {one.sensitive === true && ', also where it is sensitive'}
            </span>,
            'wide',
          ])}
        />
      )}
    </Panel>
  );
}
