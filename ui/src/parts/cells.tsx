import type { ReactNode } from 'react';

import { paths, type Setting } from '../paths';
import { Name, RouteLink } from './text';

/** Widths of columns that lists share. */
export const tracks = {
  wide: { track: 'minmax(140px, 2fr)' },
  mid: { track: 'minmax(100px, 1fr)', from: 620 },
  when: { track: '100px', from: 480, isNumber: true },
} as const;

/** Text of a fleet in a cell. */
export const text = (value: string | null | undefined): ReactNode => (value == null || value === '' ? '–' : <Name of={value} />);

/** Its name, as a link to its page. */
export function Linked({ noun, id, name }: { noun: Setting; id: string; name: string }) {
  return (
    <RouteLink to={paths.setting(noun, id)} strong>
      <Name of={name} />
    </RouteLink>
  );
}
