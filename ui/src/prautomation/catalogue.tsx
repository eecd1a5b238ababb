import { Button, Group, Text } from '@mantine/core';
import { useElementSize, useMergedRef } from '@mantine/hooks';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';

import type { PrRole } from '../generated/graphql';
import { explain } from '../lib/client';
import { useNext, type Next, type RowOf } from '../lib/list';
import { counted, visible } from '../lib/text';
import { Facets, Search } from '../parts/filter';
import { Empty, Page, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { catalogueQuery, type Catalogue } from './catalogue-query';
import classes from './catalogue.module.css';
import { roleChoices, roles, signOf } from './roles';

type Card = RowOf<typeof Catalogue>;

const route = getRouteApi('/self-service');

/** What one can have changed in a repository by filling in a form. */
export function CataloguePage() {
  const { q, role } = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({
    ...catalogueQuery({ role, q }),
    placeholderData: keepPreviousData,
  });
  const next = useNext(list);
  const cards = list.data ?? [];
  return (
    <Page
      title="Self-service"
      isFull
      actions={<RouteLink to={paths.settings('pull-requests')}>Pull requests that were opened</RouteLink>}
    >
      <Group gap="sm">
        <Search
          label="Search in automations"
          value={q ?? ''}
          onChange={(typed) =>
            void navigate({ search: (old) => ({ ...old, q: typed === '' ? undefined : typed }), replace: true })
          }
        />
        <Facets<PrRole>
          label="For"
          value={role}
          onChange={(chosen) => void navigate({ search: (old) => ({ ...old, role: chosen }), replace: true })}
          choices={roleChoices}
        />
      </Group>
      <Shown query={list} what="automations">
        {list.isPending ? (
          <Waiting lines={8} />
        ) : cards.length === 0 ? (
          <None isFiltered={q !== undefined || role !== undefined} />
        ) : (
          <Cards cards={cards} next={next} />
        )}
      </Shown>
    </Page>
  );
}

function None({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No automations match">Nothing has this in its name and is for this, as far as you may see.</Empty>
  ) : (
    <Empty title="No automations yet">
      An automation asks a few questions and opens a pull request with the right files in the right repository. Whoever may write
      a project adds one under <RouteLink to={paths.settings('pr-automations')}>Automations of pull requests</RouteLink>. By
      command line: <code>plural pr automations create --file FILE --connection NAME</code>
    </Empty>
  );
}

/** Pixels of a card with what is around it. */
const HIGH = 142;
const WIDE = 320;

/** Cards side by side, of which those in sight are drawn. */
function Cards({ cards, next: { more, failed } }: { cards: Card[]; next: Next }) {
  const scroller = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize<HTMLDivElement>();
  const ref = useMergedRef(scroller, sized);
  const columns = width === 0 ? 3 : Math.max(1, Math.floor(width / WIDE));
  const virtual = useVirtualizer({
    count: Math.ceil(cards.length / columns),
    getScrollElement: () => scroller.current,
    estimateSize: () => HIGH,
    overscan: 4,
    initialRect: { width: 1000, height: 800 },
  });
  const rows = virtual.getVirtualItems();
  const last = ((rows.at(-1)?.index ?? 0) + 1) * columns;
  useEffect(() => {
    if (more && last >= cards.length - 30) more();
  }, [more, last, cards.length]);
  return (
    <>
      <div ref={ref} className={classes['scroller']} tabIndex={0} role="region" aria-label="Automations, scrolls">
        <ul className={classes['cards']} style={{ height: virtual.getTotalSize() }}>
          {rows.flatMap(({ index, start }) =>
            cards.slice(index * columns, (index + 1) * columns).map((card, at) => (
              <li
                key={card.id}
                className={classes['card']}
                style={{ height: HIGH, width: `${100 / columns}%`, left: `${(100 * at) / columns}%`, top: start }}
              >
                <Automation card={card} />
              </li>
            )),
          )}
        </ul>
      </div>
      {failed && (
        <Group role="alert" gap="sm">
          <Text size="sm">
            Cannot read more: <Name of={explain(failed.error).what} />. {explain(failed.error).next}
          </Text>
          <Button variant="default" size="compact-xs" loading={failed.isAsking} onClick={failed.retry}>
            Try again
          </Button>
        </Group>
      )}
      <Text size="xs" c="dimmed" role="status">
        {counted(cards.length, 'automation')}
        {more && ' read, more below'}
      </Text>
    </>
  );
}

function Automation({ card: { name, role, addon, identifier, documentation, project } }: { card: Card }) {
  const sign = signOf(role);
  const facts = [
    role == null ? undefined : roles[role],
    addon ?? undefined,
    identifier ?? 'a repository that you name',
    project?.name,
  ];
  return (
    <Link to={paths.automation(name)} preload={false} className={classes['link'] ?? ''} title={visible(name)}>
      <sign.Icon size={26} aria-hidden className={classes['sign']} />
      <span className={classes['name']}>
        <Name of={name} />
      </span>
      <span className={classes['facts']}>
        <Name of={facts.flatMap((fact) => (fact === undefined || fact === '' ? [] : [fact])).join(' · ')} />
      </span>
      <span className={classes['told']}>
        <Name of={documentation ?? ''} />
      </span>
    </Link>
  );
}
