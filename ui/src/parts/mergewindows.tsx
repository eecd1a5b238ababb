import { Text } from '@mantine/core';

import type { SyncWindowKind } from '../generated/graphql';
import { lasting } from '../lib/text';
import { Name } from './text';

export interface MergeWindow {
  kind?: SyncWindowKind | null;
  schedule?: string | null;
  duration?: number | null;
  timeZone?: string | null;
}

/** Times in which pull requests are merged, or are not. */
export function MergeWindows({ windows }: { windows: MergeWindow[] }) {
  return (
    <>
      {windows.map(({ kind, schedule, duration, timeZone }, at) => (
        <Text key={at} size="sm">
          {kind === 'DENY' ? 'Not for ' : 'For '}
          {lasting(`${String(duration ?? 0)}s`)} from <Name of={`${schedule ?? ''} ${timeZone ?? ''}`} />
        </Text>
      ))}
    </>
  );
}
