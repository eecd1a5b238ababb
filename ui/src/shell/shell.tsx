import {
  AppShell,
  Burger,
  Button,
  Group,
  Menu,
  NavLink,
  Popover,
  Stack,
  Text,
  UnstyledButton,
  useMantineColorScheme,
  VisuallyHidden,
} from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import {
  IconBlocks,
  IconChecklist,
  IconFileSearch,
  IconHelp,
  IconHome,
  IconLogout,
  IconMoon,
  IconSearch,
  IconServer2,
  IconSettings,
  IconStack2,
  IconSun,
  IconSunMoon,
  IconUser,
  IconWand,
  IconWorld,
  type Icon,
} from '@tabler/icons-react';
import { lazy, Suspense, useCallback, useEffect, useState } from 'react';

import { useConnection } from '../lib/connection';
import { isLong } from '../lib/list';
import { listen } from '../lib/live';
import { meQuery } from '../lib/me';
import { useNow } from '../lib/now';
import { ago, visible } from '../lib/text';
import { paths } from '../paths';
import { waitingCountQuery } from '../stack/waiting';
import { Offer } from '../tour/offer';
import { isNew, remember } from '../tour/seen';
import classes from './shell.module.css';

const Palette = lazy(() => import('./palette'));
const Help = lazy(() => import('../tour/help'));
const Tour = lazy(() => import('../tour/tour'));

/** The places of the console. `g` and then the letter goes there. */
export const places: { name: string; to: string; icon: Icon; key: string }[] = [
  { name: 'Fleet', to: paths.home(), icon: IconHome, key: 'h' },
  { name: 'Clusters', to: paths.clusters(), icon: IconServer2, key: 'c' },
  { name: 'Services', to: paths.services(), icon: IconStack2, key: 's' },
  { name: 'Stacks', to: paths.stacks(), icon: IconBlocks, key: 't' },
  { name: 'Approvals', to: paths.approvals(), icon: IconChecklist, key: 'p' },
  { name: 'Self-service', to: paths.selfService(), icon: IconWand, key: 'n' },
  { name: 'Global services', to: paths.settings('global-services'), icon: IconWorld, key: 'l' },
  { name: 'Audit', to: paths.audit(), icon: IconFileSearch, key: 'a' },
  { name: 'Settings', to: paths.settings(), icon: IconSettings, key: 'e' },
];

/** When nothing else is to be done, as soon as the page has all that it asked for. Returns how to give up. */
function readLater(read: () => Promise<void>, isBusy: () => boolean): () => void {
  const timer = window.setInterval(() => {
    if (isBusy()) return;
    window.clearInterval(timer);
    // Safari has no such callback.
    if ('requestIdleCallback' in window) window.requestIdleCallback(() => void read());
    else void read();
  }, 250);
  return () => window.clearInterval(timer);
}

/** What is around every page; `readAhead` reads the scripts of pages that one may go to next. */
export function Shell({ readAhead }: { readAhead: () => Promise<void> }) {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const [finds, setFinds] = useState(false);
  const queries = useQueryClient();
  const pathname = useRouterState({ select: ({ location }) => location.pathname });
  useEffect(() => listen(queries), [queries]);
  useEffect(() => readLater(readAhead, () => queries.isFetching() > 0), [readAhead, queries]);
  useEffect(() => close(), [pathname, close]);
  useHotkeys([['mod+K', () => setFinds(true)]], []);
  useGo();
  const tour = useTour();
  const global = paths.settings('global-services');
  const here = (to: string) => {
    if (to === '/') return pathname === '/';
    if (to === global || pathname.startsWith(global)) return to === global && pathname.startsWith(global);
    if (to === paths.clusters() && pathname === paths.connect()) return true;
    if (to === paths.stacks() && [paths.newStack(), paths.stackGraph()].includes(pathname)) return true;
    return pathname.startsWith(`/${to.split('/')[1] ?? ''}`);
  };
  return (
    <AppShell header={{ height: 48 }} navbar={{ width: 200, breakpoint: 'sm', collapsed: { mobile: !isOpen } }} padding={0}>
      <AppShell.Header className={classes['bar'] ?? ''}>
        <a className={classes['skip']} href="#main">
          To the content
        </a>
        <Group h="100%" px="lg" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
            <Text fw={600} component={Link} to={paths.home()} c="inherit" td="none">
              Plural
            </Text>
          </Group>
          <UnstyledButton
            aria-label="Go to a cluster, service or page"
            className={classes['find'] ?? ''}
            onClick={() => setFinds(true)}
            data-tour="find"
          >
            <IconSearch size={14} aria-hidden />
            <span className={classes['words']}>Go to a cluster, service or page</span>
            <span className={classes['keys']}>Ctrl K</span>
          </UnstyledButton>
          <Group gap="sm" wrap="nowrap">
            <AsOf />
            <HelpMenu isTouring={tour.isOn} start={tour.start} />
            <UserMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" aria-label="Places" className={classes['bar'] ?? ''}>
        {places.map(({ name, to, icon: Sign, key }) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={name}
            leftSection={<Sign size={16} aria-hidden />}
            rightSection={to === paths.approvals() && <Waiting />}
            active={here(to)}
            {...(here(to) && { 'aria-current': 'page' as const })}
            aria-keyshortcuts={`g ${key}`}
            className={classes['place'] ?? ''}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <Lost />
        <Outlet />
      </AppShell.Main>
      {tour.isOffered && pathname === paths.home() && <Offer start={tour.start} decline={tour.end} />}
      <Suspense>{finds && <Palette close={() => setFinds(false)} tour={tour.start} />}</Suspense>
      <Suspense>{tour.isOn && <Tour end={tour.end} />}</Suspense>
    </AppShell>
  );
}

/** The tour for who is new: offered until it was taken or declined, and to be had again from Help and by Ctrl K. */
function useTour() {
  const user = useQuery(meQuery).data?.me?.id;
  const navigate = useNavigate();
  const [isOn, setOn] = useState(false);
  const [isSeen, setSeen] = useState(false);
  const start = useCallback(() => {
    setOn(true);
    void navigate({ to: paths.home() });
  }, [navigate]);
  const end = useCallback(() => {
    setOn(false);
    setSeen(true);
    if (user !== undefined) remember(user);
    // What began it may be gone; this is where it begins again.
    document.querySelector<HTMLElement>('[data-tour="help"]')?.focus();
  }, [user]);
  return { isOn, isOffered: !isOn && !isSeen && user !== undefined && isNew(user), start, end };
}

/** `g` and then a letter. */
function useGo(): void {
  const navigate = useNavigate();
  useEffect(() => {
    let isGoing = false;
    const hear = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && event.target.closest('input, textarea, [contenteditable]') !== null;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const place = isGoing ? places.find(({ key }) => key === event.key) : undefined;
      isGoing = event.key === 'g';
      if (place) void navigate({ to: place.to });
    };
    window.addEventListener('keydown', hear);
    return () => window.removeEventListener('keydown', hear);
  }, [navigate]);
}

/** How many runs wait for somebody's word; nothing where none does, or where nobody knows. */
function Waiting() {
  const count = useQuery(waitingCountQuery).data ?? '';
  if (count === '') return null;
  return (
    <Text component="span" size="xs" fw={600} style={{ color: 'var(--tone-warn)' }}>
      {count}
      <VisuallyHidden> wait</VisuallyHidden>
    </Text>
  );
}

function AsOf() {
  const { isLive, heardAt } = useConnection();
  const now = useNow();
  return (
    // As wide as it becomes: what is in the middle of the bar stays there while seconds are counted.
    <Text
      size="xs"
      c="dimmed"
      visibleFrom="sm"
      miw={96}
      ta="right"
      style={{ fontVariantNumeric: 'tabular-nums' }}
      title="Whether this page hears of changes by itself"
    >
      {isLive ? 'Live' : `As of ${ago(new Date(heardAt).toISOString(), now)} ago`}
    </Text>
  );
}

/** The connection is lost: what one sees may be old. */
function Lost() {
  const { isReachable, heardAt } = useConnection();
  const now = useNow();
  const queries = useQueryClient();
  useEffect(() => {
    if (isReachable) return;
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'hidden') return;
      void queries.refetchQueries({ type: 'active', predicate: (query) => !isLong(query) });
    }, 5000);
    return () => window.clearInterval(timer);
  }, [isReachable, queries]);
  if (isReachable) return null;
  return (
    <div role="alert" className={classes['lost']}>
      The console cannot be reached. What you see is {ago(new Date(heardAt).toISOString(), now)} old. Trying again every 5
      seconds.
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => void queries.refetchQueries({ type: 'active', predicate: (query) => !isLong(query) })}
      >
        Try now
      </Button>
    </div>
  );
}

function HelpMenu({ isTouring, start }: { isTouring: boolean; start: () => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover
      opened={isOpen}
      onChange={setOpen}
      position="bottom-end"
      width={340}
      shadow="sm"
      trapFocus
      // The tour has the focus then.
      returnFocus={!isTouring}
    >
      <Popover.Target>
        <Button variant="default" px="sm" aria-label="Help" data-tour="help" onClick={() => setOpen(!isOpen)}>
          <IconHelp size={16} aria-hidden />
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          <Button
            data-autofocus
            onClick={() => {
              setOpen(false);
              start();
            }}
          >
            Take the tour
          </Button>
          <Suspense>{isOpen && <Help />}</Suspense>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function UserMenu() {
  const me = useQuery(meQuery).data?.me;
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const schemes = [
    ['light', 'Light', IconSun],
    ['dark', 'Dark', IconMoon],
    ['auto', 'As the system', IconSunMoon],
  ] as const;
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconUser size={14} aria-hidden />}
          aria-label="Your account"
          className={classes['account'] ?? ''}
        >
          <span className={classes['words']}>
            <bdi>{visible(me?.name ?? '…')}</bdi>
          </span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <bdi>{visible(me?.email ?? '')}</bdi>
          {me?.roles?.admin === true && ', administrator'}
        </Menu.Label>
        {schemes.map(([scheme, word, Sign]) => (
          <Menu.Item
            key={scheme}
            leftSection={<Sign size={14} aria-hidden />}
            onClick={() => setColorScheme(scheme)}
            rightSection={colorScheme === scheme ? <Text size="xs">chosen</Text> : null}
          >
            {word}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <form method="post" action="/auth/sign-out">
          <Menu.Item type="submit" leftSection={<IconLogout size={14} aria-hidden />} closeMenuOnClick={false}>
            Sign out
          </Menu.Item>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}
