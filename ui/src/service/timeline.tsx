import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { took, short } from '../lib/text';
import { Panel } from '../parts/page';
import { componentStates, State, type Look } from '../parts/state';
import { Ago, Name } from '../parts/text';
import { historyQuery } from './history-queries';
import type { Service } from './queries';
import classes from './timeline.module.css';

interface Step {
  name: string;
  look: Look;
  at?: string | null | undefined;
  /** Since the step before. */
  since?: string | null | undefined;
  note?: React.ReactNode;
}

const { RUNNING: done, PENDING: busy, FAILED: failed, PAUSED: held } = componentStates;
const ended: Look = { ...done, word: 'Done' };
const later: Look = { ...busy, word: 'Not yet', tone: 'none' };

/** From the commit to health: which steps are through, how long each took, where it is now. */
export function Timeline({ service, cluster }: { service: Service; cluster: string }) {
  const history = useQuery(historyQuery(cluster, service.name));
  const { revision, sync } = service;
  if (!revision) return null;
  const known = history.data?.revision;
  const plan = known?.id === revision.id ? known.plan : undefined;
  const rendering = (service.errors ?? []).find((error) => error?.warning !== true && error?.terminal === true);
  const isApplied = sync?.step === 'COMPLETE' || revision.healthyAt != null;
  const waves = sync?.waves ?? 0;
  const stepLook: Look =
    sync?.step === 'FAILED'
      ? failed
      : sync?.step === 'HELD'
        ? { ...held, word: 'Held' }
        : isApplied
          ? ended
          : sync?.step === 'RUNNING' || sync?.step === 'WAITING'
            ? { ...busy, word: 'Under way' }
            : later;
  const steps: Step[] = [
    {
      name: 'Commit',
      look: ended,
      note: revision.sha == null ? service.version : <code>{short(revision.sha)}</code>,
    },
    { name: 'Artifact', look: ended, at: revision.insertedAt, note: 'fetched and kept' },
    {
      name: 'Rendered',
      look: rendering ? failed : plan || isApplied || sync?.step != null ? ended : later,
      note: rendering ? <Name of={rendering.message} /> : undefined,
    },
    {
      name: waves > 1 ? `Waves ${sync?.wavesDone ?? 0} of ${waves}` : 'Applied',
      look: stepLook,
      at: plan?.insertedAt,
      since: revision.insertedAt,
      note: (sync?.waitingFor ?? []).map(
        (one, at) =>
          one && (
            <div key={at}>
              waits for {one.object.kind} <Name of={one.object.name} />
            </div>
          ),
      ),
    },
    ...(sync?.hooks ?? []).flatMap((hook): Step[] =>
      hook
        ? [
            {
              name: `Hook ${hook.object.name}`,
              look:
                hook.outcome === 'FAILED'
                  ? failed
                  : hook.outcome === 'SUCCEEDED'
                    ? ended
                    : hook.outcome === 'RUNNING'
                      ? { ...busy, word: 'Runs' }
                      : later,
              note: hook.message == null ? undefined : <Name of={hook.message} />,
            },
          ]
        : [],
    ),
    {
      name: 'Healthy',
      look:
        service.status === 'HEALTHY' || (revision.healthyAt != null && service.status !== 'FAILED')
          ? ended
          : service.status === 'FAILED'
            ? failed
            : service.status === 'PAUSED'
              ? { ...held, word: 'Held' }
              : later,
      at: revision.healthyAt,
      since: revision.insertedAt,
      note: service.componentStatus == null ? undefined : `${service.componentStatus} ready`,
    },
  ];
  return (
    <Panel title="The current revision, from commit to health">
      <ol className={classes['steps']}>
        {steps.map(({ name, look, at, since, note }) => (
          <li key={name} data-tone={look.tone}>
            <Text size="sm" fw={600}>
              <Name of={name} />
            </Text>
            <State look={look} />
            <Text size="xs" c="dimmed" component="div">
              {at != null && <Ago at={at} />}
              {at != null && since != null && `, after ${took(since, at)}`}
              {note !== undefined && <div>{note}</div>}
            </Text>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
