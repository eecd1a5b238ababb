import { useQuery } from '@tanstack/react-query';
import { IconEye } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { lasting, quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import type { Values } from '../parts/values';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import type { StackOne } from './queries';

const Connections = graphql(/* GraphQL */ `
  query StackConnections {
    scmConnections(first: 200) {
      edges {
        node {
          id
          name
          type
        }
      }
    }
  }
`);

const at = (values: Values, field: string): string => (values[field] ?? '').trim();

/** What is other than before: a connection that one may not see stays where it is not chosen anew. */
const changed = ({ interval, connection }: StackOne, values: Values) => ({
  ...(at(values, 'interval') !== (interval ?? '') && { interval: at(values, 'interval') }),
  ...(at(values, 'connection') !== (connection?.id ?? '') && { connectionId: at(values, 'connection') }),
});

/** How often the code of a stack is looked at, and through which connection its pull requests are planned. */
export function Follow({ stack }: { stack: StackOne }) {
  const { id, name, interval, connection } = stack;
  const found = useQuery({
    queryKey: ['stack', 'connections'],
    queryFn: async ({ signal }) => (await ask(Connections, {}, signal)).scmConnections,
  });
  const nodes = (found.data?.edges ?? []).flatMap((edge) => (edge?.node && edge.node.type !== 'PLAIN' ? [edge.node] : []));
  const connections = connection && !nodes.some((one) => one.id === connection.id) ? [...nodes, connection] : nodes;
  const nameOf = (chosen: string) => connections.find((one) => one.id === chosen)?.name ?? '';
  return (
    <Panel
      title="How its code is followed"
      aside={
        <Action
          key={`${interval ?? ''} ${connection?.id ?? ''}`}
          noun="stack"
          label="Change"
          icon={IconEye}
          right={stackRight(name, 'update')}
          unless={
            stack.git == null
              ? 'It has no code: give it a repository first.'
              : stack.deletedAt == null
                ? undefined
                : 'The stack is being destroyed and deleted.'
          }
          explains="No run begins by this. A webhook has the code looked at whatever the interval is."
          fields={[
            {
              name: 'interval',
              label: 'Its code is looked at every',
              initial: interval ?? '',
              placeholder: '5m',
              hint: '30s, 5m, 1h30m; as often as the console fetches the repository when empty',
            },
            {
              name: 'connection',
              label: 'Its pull requests are planned through',
              kind: 'choice',
              initial: connection?.id ?? '',
              options: [
                { value: '', label: 'each connection that may touch the repository' },
                ...connections.map((one) => ({ value: one.id, label: one.name })),
              ],
            },
          ]}
          command={(values) => {
            const { interval: every, connectionId } = changed(stack, values);
            return commands.update(
              name,
              ...(every === undefined ? [] : [`--interval=${quoted(every)}`]),
              ...(connectionId === undefined ? [] : [`--connection=${quoted(nameOf(connectionId))}`]),
            );
          }}
          run={(values) => ask(Update, { id, attributes: changed(stack, values) })}
          done={`Changed how the code of ${name} is followed`}
        />
      }
    >
      <Facts
        facts={[
          ['Looked at', interval == null ? 'as often as the console fetches the repository' : `every ${lasting(interval)}`],
          [
            'Pull requests',
            connection ? (
              <>
                are planned through <Name of={connection.name} />
              </>
            ) : (
              'are planned through each connection that may touch the repository, unless one is named that you may not see'
            ),
          ],
        ]}
      />
    </Panel>
  );
}
