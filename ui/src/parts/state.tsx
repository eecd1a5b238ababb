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

import type { ClusterState, ComponentState, ServiceDeploymentStatus } from '../generated/graphql';
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

export const clusterStates: Record<ClusterState, Look> = {
  SILENT: { word: 'Not connected', tone: 'bad', Icon: IconPlugConnectedX },
  REMOVING: { word: 'Being removed', tone: 'warn', Icon: IconTrash },
  OUTDATED: { word: 'Agent is outdated', tone: 'warn', Icon: IconAlertTriangleFilled },
  WAITING: { word: 'Waits for its agent', tone: 'none', Icon: IconCircleDashed },
  CONNECTED: { word: 'Connected', tone: 'good', Icon: IconCircleCheckFilled },
};

/** What needs somebody first: the order of lists and of counts. */
export const stateOrder = ['SILENT', 'REMOVING', 'OUTDATED', 'WAITING', 'CONNECTED'] as const satisfies ClusterState[];

/** A cluster as its agent's connection shows it. One that just lost its agent is counted among the connected for five minutes more. */
export function clusterState(cluster: { connected?: boolean | null; state?: ClusterState | null }): Look {
  const { state, connected } = cluster;
  if (state == null) return unknown;
  const isHeard = state === 'CONNECTED' || state === 'OUTDATED';
  return clusterStates[isHeard && connected === false ? 'SILENT' : state];
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
