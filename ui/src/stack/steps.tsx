import { Text, UnstyledButton } from '@mantine/core';

import { useNow } from '../lib/now';
import { took } from '../lib/text';
import { Command } from '../parts/action';
import { Empty, Panel } from '../parts/page';
import { State } from '../parts/state';
import { Name } from '../parts/text';
import { commands } from './commands';
import { Log } from './log';
import type { Run, Step } from './run-queries';
import { isOver, stages, stepStatuses } from './states';
import classes from './steps.module.css';

/** The step that is looked at unless somebody chose one: what runs, else what failed, else what ended last. */
function current(steps: Step[]): Step | undefined {
  return (
    steps.find(({ status }) => status === 'RUNNING') ??
    steps.find(({ status }) => status === 'FAILED') ??
    steps.findLast(({ status }) => status === 'SUCCESSFUL') ??
    steps[0]
  );
}

/** The commands of a run in order, and the log of one of them. */
export function Steps({ run, chosen, choose }: { run: Run; chosen: number | undefined; choose: (step: number) => void }) {
  const steps = (run.steps ?? []).flatMap((step) => step ?? []).sort((a, b) => a.index - b.index);
  const shown = steps.find(({ index }) => index === chosen) ?? current(steps);
  if (!shown)
    return (
      <Panel title="Steps">
        <Empty title="No steps yet">
          {isOver(run.status)
            ? 'The run ended before its code was put together.'
            : 'They are known as soon as its code is put together.'}
        </Empty>
      </Panel>
    );
  return (
    <Panel title="Steps">
      <div className={classes['steps']}>
        <ol className={classes['list']} aria-label="Steps of the run">
          {steps.map((step) => (
            <li key={step.id}>
              <UnstyledButton
                className={classes['step'] ?? ''}
                {...(step === shown && { 'aria-current': 'step' as const })}
                onClick={() => choose(step.index)}
              >
                <Text size="sm" fw={600} component="span">
                  <Name of={step.name} />
                </Text>
                <Text size="xs" c="dimmed" component="span">
                  <Duration step={step} isOver={isOver(run.status)} />
                </Text>
                <State look={stepStatuses[step.status]} />
                <Text size="xs" c="dimmed" component="span">
                  {stages[step.stage]}
                </Text>
              </UnstyledButton>
            </li>
          ))}
        </ol>
        <div style={{ minWidth: 0 }}>
          <div className={classes['command']}>
            <Name of={[shown.cmd, ...(shown.args ?? [])].join(' ')} />
            {shown.exitCode != null && (
              <Text component="span" size="xs" c="dimmed">
                {' '}
                ended with {shown.exitCode}
              </Text>
            )}
          </div>
          {shown.status === 'PENDING' ? (
            <Empty title="Not begun">Its log appears here as it is written.</Empty>
          ) : (
            <Log
              // A step that began again writes a log of its own.
              key={`${shown.id} ${shown.startedAt ?? ''}`}
              run={run.id}
              step={shown.index}
              name={`${run.stack?.name ?? 'run'}-${run.number}-${shown.name}`}
            />
          )}
        </div>
      </div>
      <div style={{ padding: 12 }} data-no-print>
        <Command line={commands.logs({ stack: run.stack?.name ?? '', number: run.number }, shown.index, !isOver(run.status))} />
      </div>
    </Panel>
  );
}

function Duration({ step, isOver: isEnded }: { step: Step; isOver: boolean }) {
  const now = useNow();
  if (step.startedAt == null) return null;
  // What a killed Job left behind ended, and nobody knows when.
  if (step.finishedAt == null && isEnded) return null;
  return took(step.startedAt, step.finishedAt ?? new Date(now).toISOString());
}
