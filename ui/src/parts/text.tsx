import { Anchor, Text, Tooltip } from '@mantine/core';
import { defaultParseSearch, Link } from '@tanstack/react-router';
import { IconExternalLink } from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';

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

/** One for all: making one costs more than all else about an age, and a table has dozens. */
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

/** How long ago, with the exact time in the reader's zone at hand. What shows that is made when a pointer first comes near. */
export function Ago({ at, absent = '–' }: { at: string | null | undefined; absent?: string }) {
  const now = useNow();
  const [isNear, setNear] = useState(false);
  if (at == null)
    return (
      <Text component="span" size="sm" c="dimmed">
        {absent}
      </Text>
    );
  const time = (
    <time dateTime={at} {...(!isNear && { onMouseEnter: () => setNear(true) })}>
      {ago(at, now)} ago
    </time>
  );
  if (!isNear) return time;
  const moment = new Date(at);
  return (
    <Tooltip label={Number.isNaN(moment.getTime()) ? at : EXACT.format(moment)} openDelay={300}>
      {time}
    </Tooltip>
  );
}

/** How long until something is to happen, with the exact time at hand. */
export function Until({ at }: { at: string }) {
  const now = useNow();
  const isPast = Date.parse(at) <= now;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {isPast ? 'now' : `in ${ago(new Date(now).toISOString(), Date.parse(at))}`}
    </time>
  );
}
