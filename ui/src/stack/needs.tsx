import { useQuery } from '@tanstack/react-query';
import { IconArrowsSplit2 } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { asRows, pairs, rowsOf, type Field, type Values } from '../parts/values';
import { importableStacksQuery } from '../service/configuration-queries';
import { commands, stackRight } from './commands';
import { NeededFact, taken } from './dependencies';
import { Update } from './mutations';
import { follows } from './overview';
import { outputNamesQuery, type StackOne } from './queries';

/** `address` and `token=network_token`, one a line: an output, and the variable that it becomes. */
const outputsOf = (row: Values) =>
  pairs(row, 'outputs').map(({ name, value }) => ({ output: name, variable: value === '' ? name : value }));

export const needsAttributes = (values: Values) => ({
  dependencies: rowsOf(values, 'needs').map((row) => ({ stackId: row['stack'] ?? '', outputs: outputsOf(row) })),
});

/** What a stack gives to others, by name. */
function Outputs({ of }: { of: string }) {
  const query = useQuery(outputNamesQuery(of));
  const names = (query.data ?? []).map(({ name }) => name);
  return (
    <>
      One a line: OUTPUT, or OUTPUT=VARIABLE for another name.{' '}
      {query.isSuccess &&
        (names.length === 0 ? (
          'It has no outputs yet.'
        ) : (
          <>
            It has <Name of={names.join(', ')} />.
          </>
        ))}
    </>
  );
}

/** The stacks that one depends on, as a form asks for them: of these `options`. */
export const needsField = (
  options: { value: string; label: string }[],
  nameOf: (id: string | undefined) => string | undefined,
  initial = '',
): Field => ({
  name: 'needs',
  label: 'Stacks that it depends on',
  kind: 'list',
  each: 'dependency',
  initial,
  row: (rows, at) => {
    const name = nameOf(rows[at]?.['stack']);
    const elsewhere = new Set(rows.flatMap((row, other) => (other === at ? [] : [row['stack']])));
    return [
      {
        name: 'stack',
        label: 'Stack',
        kind: 'choice',
        isRequired: true,
        options: options.filter(({ value }) => !elsewhere.has(value)),
        hint: 'Sensitive outputs need your right to read its state',
      },
      {
        name: 'outputs',
        label: 'Outputs that it takes as variables',
        kind: 'area',
        hint:
          name === undefined ? (
            'One a line: OUTPUT, or OUTPUT=VARIABLE for another name. None when empty: only the order counts'
          ) : (
            <Outputs of={name} />
          ),
      },
    ];
  },
});

/** Each of them as an option. */
export const needsOptions = (values: Values, nameOf: (id: string | undefined) => string | undefined): string[] =>
  needsAttributes(values).dependencies.map(({ stackId, outputs }) => {
    const taking = outputs.map(({ output, variable }) => (output === variable ? output : `${output}=${variable}`)).join(',');
    return `--depends-on ${quoted(`${nameOf(stackId) ?? 'STACK'}${taking === '' ? '' : `:${taking}`}`)}`;
  });

/** The stacks that one depends on, and what it takes from them: changed by right. */
export function Needs({ stack }: { stack: StackOne }) {
  const stacks = useQuery(importableStacksQuery);
  const upstream = (stack.dependencies ?? []).flatMap((one) => one ?? []);
  const others = (stacks.data ?? []).filter(({ id }) => id !== stack.id);
  const known = upstream.flatMap(({ stack: other }) => (other && !others.some(({ id }) => id === other.id) ? [other] : []));
  const nameOf = (id: string | undefined) => [...others, ...known].find((one) => one.id === id)?.name;
  const hidden = upstream.filter(({ stack: other }) => other == null);
  const options = [
    ...[...others, ...known].map(({ id, name }) => ({ value: id, label: name })),
    ...hidden.map(({ stackId }) => ({ value: stackId, label: 'a stack that you may not see' })),
  ];
  const initial = asRows(
    upstream.map(({ stackId, outputs }) => ({
      stack: stackId,
      outputs: (outputs ?? [])
        .flatMap((one) => (one ? [one.output === one.variable ? one.output : `${one.output}=${one.variable}`] : []))
        .join('\n'),
    })),
  );
  const command = (values: Values) => {
    const { dependencies } = needsAttributes(values);
    if (dependencies.length === 0) return commands.update(stack.name, '--depends-on-none');
    // One that nobody here may see has no name to give.
    if (dependencies.some(({ stackId }) => stackId !== '' && nameOf(stackId) === undefined))
      return commands.settings(stack.name, { dependencies });
    return commands.update(stack.name, ...needsOptions(values, nameOf));
  };
  return (
    <Panel
      title="Dependencies on other stacks"
      aside={
        <Action
          key={initial}
          noun="stack"
          label="Change"
          icon={IconArrowsSplit2}
          isReading={stacks.isPending}
          right={stackRight(stack.name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains={`Its runs wait until these are applied, and are made anew when an output that it takes changes. ${follows(stack)}`}
          fields={[needsField(options, nameOf, initial)]}
          command={command}
          run={(values) => ask(Update, { id: stack.id, attributes: needsAttributes(values) })}
          done="Changed the dependencies"
        />
      }
    >
      {upstream.length === 0 ? (
        <Empty title="It depends on no stack">
          A stack may take outputs of others as its variables. It is applied after them, and destroyed before them.
        </Empty>
      ) : (
        <Facts
          facts={upstream.map((one): [string, React.ReactNode, 'wide'] => [
            taken(one.outputs) === '' ? 'After' : 'Takes of',
            <NeededFact key={one.stackId} of={one} />,
            'wide',
          ])}
        />
      )}
    </Panel>
  );
}
