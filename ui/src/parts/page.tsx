import { Breadcrumbs, Button, Code, Group, Paper, Skeleton, Stack, Text, Title } from '@mantine/core';
import { IconAlertTriangle, IconRefresh } from '@tabler/icons-react';
import { useDocumentTitle } from '@mantine/hooks';
import { useId, type ReactNode } from 'react';

import { explain } from '../lib/client';
import { visible } from '../lib/text';
import classes from './page.module.css';
import { Ago, Name, RouteLink } from './text';

interface PageProps {
  title: string;
  /** What this is in: links from the outermost to the innermost. */
  within?: { name: string; to: string }[];
  /** Beside the title: its state. */
  state?: ReactNode;
  actions?: ReactNode;
  /** As high as the window: the page scrolls its table and not itself. */
  isFull?: boolean;
  children: ReactNode;
}

/** What every page begins with. */
export function Page({ title, within = [], state, actions, isFull = false, children }: PageProps) {
  useDocumentTitle(`${visible(title)} · Plural`);
  return (
    <div className={classes['page']} data-full={isFull || undefined}>
      {within.length > 0 && (
        <nav aria-label="Breadcrumbs">
          <Breadcrumbs separatorMargin={6} fz="sm">
            {within.map(({ name, to }) => (
              <RouteLink key={to} to={to}>
                <Name of={name} />
              </RouteLink>
            ))}
          </Breadcrumbs>
        </nav>
      )}
      <Group justify="space-between" gap="sm" align="center">
        <Group gap="md" align="center" data-tour="state">
          <Title order={1}>
            <Name of={title} />
          </Title>
          {state}
        </Group>
        {actions !== undefined && (
          <Group gap="sm" data-no-print data-tour="actions">
            {actions}
          </Group>
        )}
      </Group>
      {children}
    </div>
  );
}

interface PanelProps {
  title: string;
  aside?: ReactNode;
  /** The name by which the tour finds it. */
  tour?: string;
  children: ReactNode;
}

/** A part of a page with a heading. */
export function Panel({ title, aside, tour, children }: PanelProps) {
  const id = useId();
  return (
    <Paper withBorder component="section" aria-labelledby={id} className={classes['panel']} data-tour={tour}>
      <Group justify="space-between" gap="sm" className={classes['head']}>
        <Title order={2} id={id}>
          {title}
        </Title>
        {aside}
      </Group>
      <div className={classes['body']}>{children}</div>
    </Paper>
  );
}

interface FaultProps {
  error: unknown;
  what: string;
  retry?: () => void;
  /** When what is shown below was read, in milliseconds. */
  asOf?: number;
}

/** What went wrong, and what to do next. The other parts of the page go on. */
export function Fault({ error, what, retry, asOf }: FaultProps) {
  const told = explain(error);
  return (
    <div role="alert" className={classes['fault']} data-fault>
      <IconAlertTriangle size={18} aria-hidden />
      <Stack gap={4}>
        <Text size="sm" fw={600}>
          {asOf === undefined ? 'Cannot show' : 'Cannot read again'} {what}: <Name of={told.what} />
        </Text>
        <Text size="sm">
          {asOf !== undefined && (
            <>
              What you see is as of <Ago at={new Date(asOf).toISOString()} />.{' '}
            </>
          )}
          {told.next}
        </Text>
        {told.requestId !== undefined && (
          <Text size="xs" c="dimmed">
            Request <Code>{told.requestId}</Code>
          </Text>
        )}
        {retry && (
          <Button variant="default" leftSection={<IconRefresh size={14} />} onClick={retry} w="fit-content">
            Try again
          </Button>
        )}
      </Stack>
    </div>
  );
}

/** Nothing is there: says why, and how to change that. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={classes['empty']}>
      <Text fw={600}>{title}</Text>
      {children !== undefined && (
        <Text size="sm" c="dimmed" component="div" maw={560}>
          {children}
        </Text>
      )}
    </div>
  );
}

/** Lines in place of what is being read. */
export function Waiting({ lines = 4 }: { lines?: number }) {
  return (
    <Stack gap="sm" p="md" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <Skeleton key={line} height={14} width={`${90 - ((line * 17) % 50)}%`} />
      ))}
    </Stack>
  );
}

/** Facts as term and value; a wide one has lines of its own. */
export function Facts({ facts }: { facts: [term: string, value: ReactNode, width?: 'wide'][] }) {
  return (
    <dl className={classes['facts']}>
      {facts.map(
        ([term, value, width], at) =>
          value !== null &&
          value !== undefined &&
          value !== false &&
          value !== '' && (
            // A term may be there twice, and a fact that comes later must not take the state of another.
            <div key={`${at} ${term}`} data-wide={width === 'wide' || undefined}>
              <dt>{term}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
