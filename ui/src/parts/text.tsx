import { Anchor, Text, Tooltip } from '@mantine/core';
import { defaultParseSearch, Link } from '@tanstack/react-router';
import { IconExternalLink } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { useNow } from '../lib/now';
import { ago, visible, webAddress } from '../lib/text';
import classes from './text.module.css';

/** A name or a message from a fleet: its own direction, nothing hidden, never markup. */
export function Name({ of }: { of: string }) {
  return <bdi>{visible(of)}</bdi>;
}

/** A link to a page of this console; addresses come from `paths`. */
export function RouteLink({
  to,
  search = {},
  children,
  strong = false,
}: {
  to: string;
  search?: Record<string, string>;
  children: ReactNode;
  strong?: boolean;
}) {
  // Some addresses of `paths` have a query of their own.
  const [path = '', query] = to.split('?');
  return (
    <Link
      to={path}
      search={{ ...(query !== undefined && defaultParseSearch(query)), ...search } as never}
      className={strong ? classes.strong : classes.link}
    >
      {children}
    </Link>
  );
}

/** A link to somewhere else, if the address is one that a browser may open; else its text. */
export function Outside({ address, children }: { address: string; children?: ReactNode }) {
  const safe = webAddress(address);
  const shown = children ?? <Name of={address} />;
  if (safe === undefined) return <>{shown}</>;
  return (
    // eslint-disable-next-line no-restricted-syntax -- the one place that checked it
    <Anchor href={safe} target="_blank" rel="noopener noreferrer">
      {shown} <IconExternalLink size={12} aria-label="(opens in a new tab)" />
    </Anchor>
  );
}

/** How long ago, with the exact time in the reader's zone at hand. */
export function Ago({ at, absent = '–' }: { at: string | null | undefined; absent?: string }) {
  const now = useNow();
  if (at == null)
    return (
      <Text component="span" size="sm" c="dimmed">
        {absent}
      </Text>
    );
  const exact = new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' });
  return (
    <Tooltip label={exact} openDelay={300}>
      <time dateTime={at}>{ago(at, now)} ago</time>
    </Tooltip>
  );
}
