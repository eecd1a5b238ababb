import { Text } from '@mantine/core';
import {
  IconAlertTriangleFilled,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleDotted,
  IconCircleXFilled,
  IconPlayerPauseFilled,
  IconPlugConnectedX,
  IconProgress,
  IconTrash,
  type Icon,
} from '@tabler/icons-react';

import type { ComponentState, ServiceDeploymentStatus } from '../generated/graphql';
import classes from './state.module.css';

/** What colours mean, everywhere: red is broken, amber waits for a person or soon breaks, blue is on its way, green is well, grey is unknown. */
export type Tone = 'bad' | 'warn' | 'busy' | 'good' | 'none';

export interface Look {
  word: string;
  tone: Tone;
  Icon: Icon;
}

export const serviceStatuses: Record<ServiceDeploymentStatus, Look> = {
  FAILED: { word: 'Failed', tone: 'bad', Icon: IconCircleXFilled },
  PAUSED: { word: 'Needs approval', tone: 'warn', Icon: IconPlayerPauseFilled },
  STALE: { word: 'Stale', tone: 'busy', Icon: IconProgress },
  SYNCED: { word: 'Synced', tone: 'none', Icon: IconCircleDashed },
  HEALTHY: { word: 'Healthy', tone: 'good', Icon: IconCircleCheckFilled },
};

/** Worst first: the order of lists and of counts. */
export const statusOrder = ['FAILED', 'PAUSED', 'STALE', 'SYNCED', 'HEALTHY'] as const satisfies ServiceDeploymentStatus[];

export const componentStates: Record<ComponentState, Look> = {
  FAILED: { word: 'Failed', tone: 'bad', Icon: IconCircleXFilled },
  PAUSED: { word: 'Waits', tone: 'warn', Icon: IconPlayerPauseFilled },
  PENDING: { word: 'Pending', tone: 'busy', Icon: IconProgress },
  RUNNING: { word: 'Running', tone: 'good', Icon: IconCircleCheckFilled },
};

export const unknown: Look = { word: 'Unknown', tone: 'none', Icon: IconCircleDotted };

/** A cluster as its agent's connection shows it. */
export function clusterState(cluster: {
  connected?: boolean | null;
  pingedAt?: string | null;
  deletedAt?: string | null;
  agentOutdated?: boolean | null;
}): Look {
  if (cluster.deletedAt != null) return { word: 'Being removed', tone: 'warn', Icon: IconTrash };
  if (cluster.pingedAt == null) return { word: 'Waits for its agent', tone: 'none', Icon: IconCircleDashed };
  if (cluster.connected !== true) return { word: 'Not connected', tone: 'bad', Icon: IconPlugConnectedX };
  if (cluster.agentOutdated === true) return { word: 'Agent is outdated', tone: 'warn', Icon: IconAlertTriangleFilled };
  return { word: 'Connected', tone: 'good', Icon: IconCircleCheckFilled };
}

/** A state: an icon, a word and a colour, never a colour alone. */
export function State({ look }: { look: Look }) {
  return (
    <Text component="span" size="sm" className={classes['state']} data-tone={look.tone}>
      <look.Icon size={15} aria-hidden className={classes['icon']} />
      <span>{look.word}</span>
    </Text>
  );
}
