import type { RolloutState } from '../generated/graphql';
import { componentStates, type Look } from '../parts/state';

/** What a rollout does, in words and a sign. */
export const rollouts: Record<RolloutState, Look> = {
  COMPLETE: { ...componentStates.RUNNING, word: 'Complete' },
  HALTED: { ...componentStates.PAUSED, word: 'Halted' },
  PROGRESSING: { ...componentStates.PENDING, word: 'Rolling out' },
  SOAKING: { ...componentStates.PENDING, word: 'Soaking' },
  UNDOING: { ...componentStates.PENDING, word: 'Being undone' },
  UNDONE: { ...componentStates.FAILED, word: 'Undone' },
};
