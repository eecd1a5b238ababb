import {
  IconAlertTriangleFilled,
  IconArrowsExchange,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleDotted,
  IconCircleMinus,
  IconCirclePlus,
  IconCircleXFilled,
  IconClock,
  IconEye,
  IconPencil,
  IconPlayerPauseFilled,
  IconProgress,
  IconTrash,
} from '@tabler/icons-react';

import type { StackDriftAction, StackDriftStatus, StackStatus, StackType, StepStage, StepStatus } from '../generated/graphql';
import type { Look } from '../parts/state';

/** How far a run is. A plan that waits needs a person; what is queued or about to begin needs nobody. */
export const runStatuses: Record<StackStatus, Look> = {
  QUEUED: { word: 'Queued', tone: 'none', Icon: IconClock },
  PENDING: { word: 'Starting', tone: 'busy', Icon: IconCircleDashed },
  RUNNING: { word: 'Running', tone: 'busy', Icon: IconProgress },
  PENDING_APPROVAL: { word: 'Needs approval', tone: 'warn', Icon: IconPlayerPauseFilled },
  SUCCESSFUL: { word: 'Successful', tone: 'good', Icon: IconCircleCheckFilled },
  FAILED: { word: 'Failed', tone: 'bad', Icon: IconCircleXFilled },
  CANCELLED: { word: 'Cancelled', tone: 'none', Icon: IconCircleMinus },
};

export const noRun: Look = { word: 'No run yet', tone: 'none', Icon: IconCircleDotted };

export const stepStatuses: Record<StepStatus, Look> = {
  PENDING: { word: 'Not begun', tone: 'none', Icon: IconCircleDashed },
  RUNNING: { word: 'Running', tone: 'busy', Icon: IconProgress },
  SUCCESSFUL: { word: 'Successful', tone: 'good', Icon: IconCircleCheckFilled },
  FAILED: { word: 'Failed', tone: 'bad', Icon: IconCircleXFilled },
};

/** Nothing follows on it. */
export function isOver(status: StackStatus): boolean {
  return status === 'SUCCESSFUL' || status === 'FAILED' || status === 'CANCELLED';
}

export const types: Record<StackType, string> = {
  TERRAFORM: 'Terraform or OpenTofu',
  TERRAGRUNT: 'Terragrunt',
  ANSIBLE: 'Ansible',
  PULUMI: 'Pulumi',
  CUSTOM: 'Own commands',
};

/** The same in a narrow column. */
export const typeWords: Record<StackType, string> = { ...types, TERRAFORM: 'Terraform', CUSTOM: 'Custom' };

/** Tools whose state the console can keep. */
export const keepsState = (type: StackType): boolean => type === 'TERRAFORM' || type === 'TERRAGRUNT';

/** What a run is to do, as its API word. */
export type RunKind = 'APPLY' | 'DRY_RUN' | 'DESTROY' | 'DRIFT' | 'COMMANDS';
export const kinds: Record<RunKind, string> = {
  APPLY: 'Apply',
  DRY_RUN: 'Plan only',
  DESTROY: 'Destroy',
  DRIFT: 'Look for drift',
  COMMANDS: 'Commands',
};

/** How a stack stands by what the last look for drift found. */
export const driftStatuses: Record<StackDriftStatus, Look> = {
  UNCHECKED: { word: 'Not looked yet', tone: 'none', Icon: IconCircleDotted },
  IN_SYNC: { word: 'In sync', tone: 'good', Icon: IconCircleCheckFilled },
  DRIFTED: { word: 'Drifted', tone: 'warn', Icon: IconAlertTriangleFilled },
};

export const driftActions: Record<StackDriftAction, Look> = {
  UPDATED: { word: 'Changed', tone: 'warn', Icon: IconPencil },
  DELETED: { word: 'Gone', tone: 'bad', Icon: IconTrash },
};

export type RunTrigger = 'PULL_REQUEST' | 'CRON' | 'SPEC' | 'COMMIT' | 'UPSTREAM' | 'MANUAL';
export const triggers: Record<RunTrigger, string> = {
  PULL_REQUEST: 'a pull request',
  CRON: 'the schedule',
  SPEC: 'a change of the stack',
  COMMIT: 'a commit',
  UPSTREAM: 'other outputs of a stack that it depends on',
  MANUAL: 'a person',
};

export const stages: Record<StepStage, string> = {
  INIT: 'Initialise',
  PLAN: 'Plan',
  VERIFY: 'Verify',
  APPLY: 'Apply',
  DESTROY: 'Destroy',
};

/** What becomes of a resource. Red takes something away, whatever comes in its place. */
export type Fate = 'create' | 'update' | 'replace' | 'destroy' | 'forget' | 'read' | 'none';
export const fates: Record<Fate, Look> = {
  destroy: { word: 'Destroy', tone: 'bad', Icon: IconTrash },
  replace: { word: 'Replace', tone: 'bad', Icon: IconArrowsExchange },
  forget: { word: 'Forget', tone: 'warn', Icon: IconAlertTriangleFilled },
  update: { word: 'Change', tone: 'warn', Icon: IconPencil },
  create: { word: 'Create', tone: 'good', Icon: IconCirclePlus },
  read: { word: 'Read', tone: 'none', Icon: IconEye },
  none: { word: 'No change', tone: 'none', Icon: IconCircleDotted },
};
/** What takes something away first. */
export const fateOrder = ['destroy', 'replace', 'forget', 'update', 'create', 'read', 'none'] as const satisfies Fate[];

/** The image with the tool: one that somebody names, or that of its type or definition, of which a version may be named. */
export function imageOf(
  { image, version, tag }: { image?: string | null; version?: string | null; tag?: string | null },
  type: StackType | undefined,
  definition?: { name: string } | null,
): string {
  const which = [tag, version].find((one) => one != null && one !== '');
  if (image != null && image !== '') return which === undefined ? image : `${image}:${which}`;
  if (definition) return 'the one of its definition';
  if (type === 'CUSTOM') return 'none';
  return which === undefined ? 'the one of its type' : `the one of its type, version ${which}`;
}
