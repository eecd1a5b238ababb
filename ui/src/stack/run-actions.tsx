import { Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconBan, IconCheck, IconRefresh, IconX } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { counted } from '../lib/text';
import { Action } from '../parts/action';
import { Name } from '../parts/text';
import { paths } from '../paths';
import { commands, stackRight } from './commands';
import { Approve, Cancel, Reject, Restart } from './mutations';
import type { Run } from './run-queries';
import { isOver } from './states';
import { Summary } from './summary';

interface Asked {
  plan: { digest: string } | null;
  requiredApprovals: number;
  approvals: ({ digest: string } | null)[] | null;
}

/** Number of approvals of the current plan. */
export function agreed({ plan, approvals }: Pick<Asked, 'plan' | 'approvals'>): number {
  return (approvals ?? []).filter((one) => one?.digest === plan?.digest).length;
}

/** Number of approvals that are still missing. */
export function missingOf(run: Asked): number {
  return Math.max(0, run.requiredApprovals - agreed(run));
}

/** Approve or reject the plan that is shown. */
function Decide({ run, stack }: { run: Run; stack: string }) {
  const { plan } = run;
  const queries = useQueryClient();
  if (!plan) return null;
  /** The counter in the navigation depends on it. */
  const decided = () => queries.invalidateQueries({ queryKey: ['stack waiting'] });
  const right = stackRight(stack, 'approve');
  const missing = missingOf(run);
  const named = { stack, number: run.number };
  const destroys = plan.destroy > 0;
  return (
    <>
      <Action
        // Another plan needs its own confirmation: the open one closes.
        key={plan.digest}
        noun="stack"
        label="Approve"
        icon={IconCheck}
        isDangerous={destroys}
        right={right}
        explains={
          <>
            <Text size="sm" mb={4}>
              {run.kind === 'DESTROY' ? 'This run destroys everything that ' : 'Exactly this plan of '}
              <Name of={stack} />
              {run.kind === 'DESTROY' ? ' made' : ', and no other, is applied'}, run {run.number}:
            </Text>
            <Summary plan={plan} />
            <Text size="sm" mt="sm">
              {missing > 1
                ? `After you, ${counted(missing - 1, 'more approval').replace('1 more approval', 'one more approval')} ${missing === 2 ? 'is' : 'are'} needed.`
                : 'Yours is the last approval that is needed: it is applied at once.'}
            </Text>
            <Text size="xs" c="dimmed" mt="sm" style={{ overflowWrap: 'anywhere' }}>
              Digest of the plan: <code>{plan.digest}</code>
            </Text>
          </>
        }
        {...(destroys && { confirm: stack })}
        command={commands.approve(named, plan.digest)}
        run={async () => {
          await ask(Approve, { id: run.id, digest: plan.digest });
          await decided();
        }}
        done="Approved the plan"
      />
      <Action
        noun="stack"
        label="Reject"
        icon={IconX}
        right={right}
        explains="The run ends, and nothing is changed. Whoever made it reads the reason."
        fields={[{ name: 'reason', label: 'Why', kind: 'area', isRequired: true }]}
        command={({ reason = '' }) => commands.reject(named, reason.trim())}
        run={async ({ reason = '' }) => {
          await ask(Reject, { id: run.id, reason: reason.trim() });
          await decided();
        }}
        done="Rejected the plan"
      />
    </>
  );
}

/** The actions on a run that are possible now. */
export function RunActions({ run, stack }: { run: Run; stack: string }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const right = stackRight(stack, 'write');
  return (
    <>
      {run.status === 'PENDING_APPROVAL' && <Decide run={run} stack={stack} />}
      {!isOver(run.status) && (
        <Action
          noun="stack"
          isDangerous
          label="Cancel"
          icon={IconBan}
          right={right}
          unless={run.cancelAsked ? 'It is asked to end already: its tool gets the time that it needs.' : undefined}
          explains={
            run.status === 'RUNNING'
              ? run.phase === 'APPLY'
                ? 'Its tool is asked to stop, and gets its time to write down what it changed. What is changed by then stays so.'
                : 'Its tool is asked to stop. Nothing was changed.'
              : 'It ends at once. Nothing was changed by it since it waits.'
          }
          command={commands.cancel({ stack, number: run.number })}
          run={async () => {
            await ask(Cancel, { id: run.id });
            await queries.invalidateQueries({ queryKey: ['stack waiting'] });
          }}
          done="Asked for the end of the run"
        />
      )}
      {isOver(run.status) && run.kind !== 'COMMANDS' && run.pullRequest == null && (
        <Action
          noun="stack"
          label="Run again"
          icon={IconRefresh}
          right={right}
          explains="Makes a new run of the same kind, of the stack as it is now: with its newest commit, settings and state. It plans anew."
          command={commands.restart({ stack, number: run.number })}
          run={async () => {
            const { restartStackRun: next } = await ask(Restart, { id: run.id });
            if (next) await navigate({ to: paths.stackRun(stack, next.id) });
          }}
          done="Made a new run"
        />
      )}
    </>
  );
}
