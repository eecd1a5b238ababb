import { Group, Stack, Text } from '@mantine/core';
import { IconLockOpen } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { counted, lasting, short, size } from '../lib/text';
import { Action, Copy } from '../parts/action';
import { Empty, Facts, Panel } from '../parts/page';
import { State } from '../parts/state';
import { Ago, Name, Outside, RouteLink, Until } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { Dependencies } from './dependencies';
import { Unlock } from './mutations';
import type { RunRow, StackOne } from './queries';
import { imageOf, kinds, runStatuses, triggers, types } from './states';
import { Summary } from './summary';
import { StackTags } from './table';

/** What a stack is made of, what is known of its state, and what its newest run did. */
export function Overview({ stack }: { stack: StackOne }) {
  return (
    <Stack gap="md">
      <Newest stack={stack} />
      <Made stack={stack} />
      <Dependencies stack={stack} />
      <OfState stack={stack} />
    </Stack>
  );
}

export const runsOf = (stack: StackOne): RunRow[] => (stack.newest?.edges ?? []).flatMap((edge) => edge?.node ?? []);

function Newest({ stack }: { stack: StackOne }) {
  const [newest] = runsOf(stack);
  if (!newest)
    return (
      <Panel title="Newest run">
        <Empty title="No run yet">
          {stack.git == null
            ? 'The console knows no code of it: only its state is kept here. A repository and a cluster under Settings change that.'
            : 'Plan and apply makes the first one.'}
        </Empty>
      </Panel>
    );
  return (
    <Panel title="Newest run">
      <Facts
        facts={[
          [
            'Run',
            <RouteLink key="run" to={paths.stackRun(stack.name, newest.id)} strong>
              #{newest.number}, {kinds[newest.kind].toLowerCase()}
            </RouteLink>,
          ],
          ['Status', <State key="s" look={runStatuses[newest.status]} />],
          ['Why', newest.error != null && <Name of={newest.error} />, 'wide'],
          ['Plan', newest.plan && <Summary plan={newest.plan} />],
          [
            'Made by',
            newest.trigger === 'MANUAL' ? <Name of={newest.author} /> : <span key="t">{triggers[newest.trigger]}</span>,
          ],
          [
            'Commit',
            newest.sha != null && (
              <>
                <code>{short(newest.sha)}</code> {newest.message != null && <Name of={newest.message} />}
              </>
            ),
          ],
          ['Made', <Ago key="at" at={newest.createdAt} />],
        ]}
      />
    </Panel>
  );
}

function Made({ stack }: { stack: StackOne }) {
  const { git, repository, cluster, configuration } = stack;
  return (
    <Panel title="What it is made of">
      <Facts
        facts={[
          ['Tool', types[stack.type]],
          ['Tags', (stack.tags ?? []).length > 0 && <StackTags key="tags" tags={stack.tags} />],
          [
            'Repository',
            repository && (
              <>
                <Outside address={repository.url} />
                {repository.error != null && (
                  <div role="alert">
                    Cannot be fetched: <Name of={repository.error} />
                  </div>
                )}
              </>
            ),
          ],
          ['Folder', git && <Name of={`${git.folder === '' ? 'the root' : git.folder} at ${git.ref}`} />],
          ['Working folder', stack.workdir != null && stack.workdir !== '' && <Name of={stack.workdir} />],
          [
            'Runs on',
            cluster && (
              <>
                <RouteLink to={paths.cluster(cluster.handle ?? '')}>
                  <Name of={cluster.handle ?? ''} />
                </RouteLink>
                {cluster.connected === false && ', whose agent is not connected'}
              </>
            ),
          ],
          ['Image', <Name key="image" of={imageOf(configuration, stack.type, stack.definition)} />],
          ['Approval', approvalOf(stack)],
          [
            'Applied',
            stack.sha != null && (
              <>
                <code>{short(stack.sha)}</code> <Copy text={stack.sha} label="Copy the commit" />{' '}
                <Ago at={stack.lastSuccessfulAt} />
              </>
            ),
          ],
          ['Commits', stack.git != null && (stack.paused ? 'make no runs: it is paused' : 'make runs')],
          [
            'Schedule',
            stack.cron && (
              <>
                <Name of={`${stack.cron.crontab} ${stack.cron.timeZone ?? 'UTC'}`} /> makes runs
                {stack.cron.autoApprove && ', whose plans need no approval'}
                {stack.cron.nextAt != null && (
                  <>
                    ; next <Until at={stack.cron.nextAt} />
                  </>
                )}
                {stack.cron.error != null && (
                  <div role="alert">
                    The last one was not made: <Name of={stack.cron.error} />
                  </div>
                )}
              </>
            ),
            'wide',
          ],
          ['Project', stack.project && <Name of={stack.project.name} />],
          ['Deletion', stack.protect && 'is refused: it is protected'],
          ['Made', <Ago key="at" at={stack.insertedAt} />],
          ['Changed', <Ago key="ch" at={stack.updatedAt} />],
        ]}
      />
    </Panel>
  );
}

/** What a change of what runs are made from brings about. */
export function follows(stack: Pick<StackOne, 'git' | 'paused'>): string {
  if (stack.git == null) return 'Runs go by it, once there is code to run.';
  return stack.paused ? 'The next run goes by it: the stack is paused.' : 'A run plans with it at once.';
}

/** Who has to agree, in words. */
export function approvalOf(
  stack: Pick<StackOne, 'approval' | 'requiredApprovals' | 'forbidSelfApproval' | 'approvalExpiry' | 'commandApproval'>,
): string {
  if (stack.approval !== true) return 'not needed: a plan is applied at once';
  return [
    `${counted(Math.max(1, stack.requiredApprovals), 'person').replace('persons', 'people')} for each plan that changes something`,
    stack.forbidSelfApproval && 'not who started the run, last changed the stack or wrote its code',
    stack.approvalExpiry != null && stack.approvalExpiry !== '' && `within ${lasting(stack.approvalExpiry)}`,
    stack.commandApproval && 'and for all commands that somebody runs on demand',
  ]
    .filter((part) => typeof part === 'string')
    .join(', ');
}

function OfState({ stack }: { stack: StackOne }) {
  const { stateVersion: state, lock } = stack;
  if (!state && !lock)
    return (
      <Panel title="State">
        <Empty title="No state yet">
          {stack.manageState === false
            ? 'Its tool keeps it elsewhere.'
            : 'Its first version appears here with the first apply, or when a tool of yours writes to the stack’s backend.'}
        </Empty>
      </Panel>
    );
  return (
    <Panel
      title="State"
      aside={
        <Text size="sm" component="span">
          <RouteLink to={paths.stack(stack.name)} search={{ tab: 'state' }}>
            All versions
          </RouteLink>
        </Text>
      }
    >
      <Facts
        facts={[
          ['Serial', state && state.serial],
          [
            'Resources',
            state && (state.resources == null ? 'not known: its tool encrypted it' : state.resources.toLocaleString('en')),
          ],
          ['Size', state && size(state.size)],
          ['Written by', state && <Name of={state.author} />],
          ['Written', state && <Ago at={state.insertedAt} />],
          [
            'Lock',
            lock ? (
              <Group gap="sm" key="lock">
                <span>
                  held by <Name of={lock.author} />: {lock.operation === '' ? 'a change' : <Name of={lock.operation} />},{' '}
                  <Name of={lock.who} />, <Ago at={lock.insertedAt} />
                </span>
                <Action
                  noun="stack"
                  isSmall
                  isDangerous
                  label="Force unlock"
                  icon={IconLockOpen}
                  right={stackRight(stack.name, 'state-write')}
                  explains={
                    <>
                      Ends the lock that <Name of={lock.author} /> holds. Do so only when its tool is gone for good: it may be
                      changing infrastructure at this moment. What it still writes is kept as a rejected version.
                    </>
                  }
                  confirm={stack.name}
                  command={commands.state.unlock(stack.name)}
                  run={() => ask(Unlock, { stack: stack.id, lock: lock.id })}
                  done="The lock is ended"
                />
              </Group>
            ) : (
              'nobody holds it'
            ),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}
