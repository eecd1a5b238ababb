import { IconArrowUpCircle, IconCircleCheckFilled, IconCircleDashed, IconGitPullRequest, IconTrash } from '@tabler/icons-react';

import type { PrInstanceState } from '../generated/graphql';
import { unknown, type Look } from '../parts/state';

export const states: Record<PrInstanceState, Look> = {
  ACTIVE: { word: 'There', tone: 'good', Icon: IconCircleCheckFilled },
  PENDING: { word: 'Not merged yet', tone: 'busy', Icon: IconGitPullRequest },
  ABANDONED: { word: 'Not merged', tone: 'none', Icon: IconCircleDashed },
  REMOVED: { word: 'Taken away', tone: 'none', Icon: IconTrash },
};
export const outdated: Look = { word: 'Out of date', tone: 'warn', Icon: IconArrowUpCircle };
export const isState = (word: string | undefined): word is PrInstanceState => word !== undefined && word in states;

/** How something that was generated stands; of what is there, whether its automation has another version. */
export function lookOf(instance: { state?: PrInstanceState | null; outdated?: boolean | null }): Look {
  if (instance.outdated === true) return outdated;
  return instance.state == null ? unknown : states[instance.state];
}

/** Its version beside the newest one. */
export function versionOf(instance: { revision?: number | null; automation?: { revision?: number | null } | null }): string {
  const now = instance.revision ?? undefined;
  const newest = instance.automation?.revision ?? undefined;
  if (now === undefined) return '–';
  return newest === undefined || newest === now ? `${now}` : `${now} of ${newest}`;
}
