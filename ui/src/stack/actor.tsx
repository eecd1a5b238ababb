import { useQuery } from '@tanstack/react-query';
import { IconKey } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { meQuery } from '../lib/me';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { given } from '../parts/form';
import { Empty, Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import { follows } from './overview';
import type { StackOne } from './queries';

/** In whose name the applies of a stack ask the console: in your own, in nobody's, or in that of a service account. */
export function Actor({ stack }: { stack: StackOne }) {
  const me = useQuery(meQuery).data?.me;
  const { actor } = stack;
  const chosen = (values: Record<string, string>) => {
    const who = values['who'] ?? '';
    return who === 'account' ? (given(values, 'account') ?? '') : who;
  };
  return (
    <Panel
      title="Access to the console"
      aside={
        <Action
          key={actor?.id ?? ''}
          noun="stack"
          label="Change"
          icon={IconKey}
          right={stackRight(stack.name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains={`A token of the Job that applies reads the stack’s project and writes contexts there. ${follows(stack)}`}
          fields={[
            {
              name: 'who',
              label: 'Asks the console',
              kind: 'choice',
              initial: actor == null ? '' : actor.id === me?.id ? actor.id : 'account',
              options: [
                { value: '', label: 'in nobody’s name' },
                ...(me == null ? [] : [{ value: me.id, label: `in your name, ${me.email}` }]),
                { value: 'account', label: 'in the name of a service account' },
              ],
            },
            {
              name: 'account',
              label: 'Id of the service account',
              initial: actor == null || actor.id === me?.id ? '' : actor.id,
              hint: 'One that you may assume',
              when: (values) => values['who'] === 'account',
            },
          ]}
          command={(values) => commands.update(stack.name, `--actor ${quoted(chosen(values))}`)}
          run={(values) => ask(Update, { id: stack.id, attributes: { actorId: chosen(values) } })}
          done="Changed in whose name it asks"
        />
      }
    >
      {actor == null ? (
        <Empty title="No token">The commands of its runs ask the console for nothing.</Empty>
      ) : (
        <Facts facts={[['In the name of', <Name key="actor" of={actor.email} />]]} />
      )}
    </Panel>
  );
}
