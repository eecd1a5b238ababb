import { Button, Group, Modal, Text, TextInput, UnstyledButton } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  IconBlocks,
  IconPlus,
  IconRoute,
  IconSearch,
  IconServer2,
  IconSettings,
  IconStack2,
  IconWand,
  type Icon,
} from '@tabler/icons-react';
import { useState, type KeyboardEvent } from 'react';

import { clustersQuery } from '../cluster/queries';
import { explain } from '../lib/client';
import { paths, settings } from '../paths';
import { Name } from '../parts/text';
import { catalogueQuery } from '../prautomation/catalogue-query';
import { servicesQuery } from '../service/queries';
import { titles } from '../settings/nouns';
import { stacksQuery } from '../stack/queries';
import classes from './palette.module.css';
import { places } from './shell';

interface Choice {
  id: string;
  /** Absent: the tour. */
  to?: string;
  name: string;
  what: string;
  icon: Icon;
}

/** Goes anywhere by name: pages at once, clusters and services as the server finds them. */
export default function Palette({ close, tour }: { close: () => void; tour: () => void }) {
  const [typed, setTyped] = useState('');
  const [q] = useDebouncedValue(typed.trim(), 80);
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const enabled = q !== '';
  const clusters = useInfiniteQuery({ ...clustersQuery({ q }, 8), enabled, placeholderData: keepPreviousData });
  const services = useInfiniteQuery({ ...servicesQuery({ q }, 12), enabled, placeholderData: keepPreviousData });
  const stacks = useInfiniteQuery({ ...stacksQuery({ q }, 8), enabled, placeholderData: keepPreviousData });
  const automations = useInfiniteQuery({ ...catalogueQuery({ q }, 8), enabled, placeholderData: keepPreviousData });
  const isAsking = [clusters, services, stacks, automations].some(({ isFetching }) => isFetching);
  const isSearching = typed.trim() !== q || (enabled && isAsking);
  const failed = [
    { what: 'clusters', list: clusters },
    { what: 'services', list: services },
    { what: 'stacks', list: stacks },
    { what: 'automations', list: automations },
  ].filter(({ list }) => enabled && list.isError);
  const wanted = typed.trim().toLowerCase();
  const choices: Choice[] = [
    ...places
      .filter(({ name }) => name.toLowerCase().includes(wanted))
      .map((place) => ({ ...place, id: place.to, what: 'Page' })),
    ...(wanted === '' ? [] : settings)
      .filter((noun) => noun !== 'global-services' && titles[noun].toLowerCase().includes(wanted))
      .map((noun) => ({ id: noun, to: paths.settings(noun), name: titles[noun], what: 'Settings', icon: IconSettings })),
    ...('connect a cluster'.includes(wanted) && wanted !== ''
      ? [{ id: 'connect', to: paths.connect(), name: 'Connect a cluster', what: 'Page', icon: IconPlus }]
      : []),
    ...('make a stack'.includes(wanted) && wanted !== ''
      ? [{ id: 'new-stack', to: paths.newStack(), name: 'Create a stack', what: 'Page', icon: IconPlus }]
      : []),
    ...('take the tour'.includes(wanted) && wanted !== ''
      ? [{ id: 'tour', name: 'Take the tour', what: 'Help', icon: IconRoute }]
      : []),
    ...(enabled ? (clusters.data ?? []) : []).map(({ id, handle }) => ({
      id,
      to: paths.cluster(handle ?? ''),
      name: handle ?? '',
      what: 'Cluster',
      icon: IconServer2,
    })),
    ...(enabled ? (services.data ?? []) : []).flatMap(({ id, name, cluster }) =>
      cluster?.handle == null
        ? []
        : [{ id, to: paths.service(cluster.handle, name), name: `${cluster.handle}/${name}`, what: 'Service', icon: IconStack2 }],
    ),
    ...(enabled ? (stacks.data ?? []) : []).map(({ id, name }) => ({
      id,
      to: paths.stack(name),
      name,
      what: 'Stack',
      icon: IconBlocks,
    })),
    ...(enabled ? (automations.data ?? []) : []).map(({ id, name }) => ({
      id,
      to: paths.automation(name),
      name,
      what: 'Automation',
      icon: IconWand,
    })),
  ];
  const chosen = Math.min(at, choices.length - 1);
  const go = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    if (choice.to === undefined) tour();
    else void navigate({ to: choice.to });
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(choices.length - 1, chosen + by)));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      go(choices[chosen]);
    }
  };
  return (
    <Modal opened onClose={close} withCloseButton={false} padding={0} size={560} yOffset="12dvh" aria-label="Go to">
      <TextInput
        data-autofocus
        role="combobox"
        aria-label="Go to a cluster, service or page"
        aria-expanded={choices.length > 0}
        aria-controls="palette"
        aria-activedescendant={choices[chosen] && `palette-${chosen}`}
        placeholder="Name of a cluster, service or page"
        size="sm"
        variant="unstyled"
        leftSection={<IconSearch size={16} aria-hidden />}
        value={typed}
        onChange={({ currentTarget }) => {
          setTyped(currentTarget.value);
          setAt(0);
        }}
        onKeyDown={keys}
        className={classes['input'] ?? ''}
      />
      <div id="palette" role="listbox" aria-label="Places" className={classes['list']}>
        {choices.map((choice, index) => (
          <UnstyledButton
            key={choice.id}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className={classes['choice'] ?? ''}
            onClick={() => go(choice)}
          >
            <choice.icon size={16} aria-hidden />
            <span>
              <Name of={choice.name} />
            </span>
            <Text size="xs" c="dimmed" ml="auto">
              {choice.what}
            </Text>
          </UnstyledButton>
        ))}
      </div>
      <Text size="sm" c="dimmed" px="md" role="status" className={classes['told'] ?? ''}>
        {isSearching ? 'Searching…' : choices.length === 0 && failed.length === 0 ? 'Nothing has this in its name.' : ''}
      </Text>
      {failed.map(({ what, list }) => {
        const told = explain(list.error);
        return (
          <Group key={what} role="alert" gap="sm" px="md" py="sm">
            <Text size="sm">
              Cannot search {what}: <Name of={told.what} />. {told.next}
            </Text>
            <Button variant="default" size="compact-xs" loading={list.isFetching} onClick={() => void list.refetch()}>
              Try again
            </Button>
          </Group>
        );
      })}
    </Modal>
  );
}
