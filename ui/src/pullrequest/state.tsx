import {
  IconCircleXFilled,
  IconGitMerge,
  IconGitPullRequest,
  IconGitPullRequestClosed,
  IconKey,
  IconKeyOff,
  IconProgress,
} from '@tabler/icons-react';

import type { PrPhase, PrStatus, PullRequestSecretState } from '../generated/graphql';
import { unknown, type Look } from '../parts/state';

export const statuses: Record<PrStatus, Look> = {
  OPEN: { word: 'Open', tone: 'busy', Icon: IconGitPullRequest },
  MERGED: { word: 'Merged', tone: 'good', Icon: IconGitMerge },
  CLOSED: { word: 'Closed', tone: 'none', Icon: IconGitPullRequestClosed },
};
export const unopened: Record<Exclude<PrPhase, 'OPENED'>, Look> = {
  PENDING: { word: 'Being opened', tone: 'busy', Icon: IconProgress },
  FAILED: { word: 'Not opened', tone: 'bad', Icon: IconCircleXFilled },
};
/** How far the Secret of a pull request is. */
export const secrets: Record<PullRequestSecretState, Look> = {
  WAITING: { word: 'Waits for the merge', tone: 'busy', Icon: IconProgress },
  DUE: { word: 'Being written', tone: 'busy', Icon: IconProgress },
  WRITTEN: { word: 'In its cluster', tone: 'good', Icon: IconKey },
  FORGOTTEN: { word: 'Forgotten', tone: 'none', Icon: IconKeyOff },
  DELETING: { word: 'Being deleted', tone: 'busy', Icon: IconProgress },
  DELETED: { word: 'Deleted', tone: 'none', Icon: IconKeyOff },
};

/** How a pull request stands, or how far the console is with opening it. */
export function lookOf({ status, phase }: { status?: PrStatus | null; phase?: PrPhase | null }): Look {
  if (status != null) return statuses[status];
  return phase === 'PENDING' || phase === 'FAILED' ? unopened[phase] : unknown;
}
