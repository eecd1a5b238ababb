import { Text } from '@mantine/core';
import { useElementSize, useMergedRef } from '@mantine/hooks';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useMemo, useRef, type KeyboardEvent, type ReactNode } from 'react';

import { useNow } from '../lib/now';
import { ago, visible } from '../lib/text';
import { Waiting } from '../parts/page';
import { useFollow } from './go';
import classes from './grid.module.css';
import type { Column, Row } from './listing';
import { Word } from './word';

const HEIGHT = 32;

export interface GridProps {
  label: string;
  columns: Column[];
  rows: Row[];
  /** A name of a column; `-` before it for the other way round. Nothing: the server's order. */
  sort?: string | undefined;
  onSort?: (sort: string | undefined) => void;
  hasNamespaces: boolean;
  /** Also columns that kubectl shows with `-o wide`, and as wide as they are. */
  isWide?: boolean;
  isWaiting: boolean;
  isShort?: boolean;
  to: (row: Row) => string;
  empty: ReactNode;
  foot?: ReactNode;
}

interface Shown {
  name: string;
  description: string;
  /** In a row's cells; the namespace stands in none. */
  index: number | undefined;
  track: string;
  width: number;
}

/** Rows as the server prints them. Only those in sight are drawn. Arrow keys and j, k move; Enter opens. */
export function Grid(props: GridProps) {
  const {
    label,
    columns,
    rows,
    sort,
    onSort,
    hasNamespaces,
    isWide = false,
    isWaiting,
    isShort = false,
    to,
    empty,
    foot,
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize<HTMLDivElement>();
  const ref = useMergedRef(scroller, sized);
  const follow = useFollow();
  const now = useNow();
  const sorted = useMemo(() => inOrder(rows, columns, sort), [rows, columns, sort]);
  const shown = useMemo(() => fitting(columns, hasNamespaces, isWide, width), [columns, hasNamespaces, isWide, width]);
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 8,
    initialRect: { width: 1000, height: 800 },
  });
  const template = shown.map(({ track }) => track).join(' ');
  const least = isWide ? shown.reduce((sum, one) => sum + one.width + 12, 12) : undefined;

  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey || sorted.length === 0) return;
    event.preventDefault();
    const index = document.activeElement?.closest<HTMLElement>('[data-index]')?.dataset['index'];
    const from = index === undefined ? (by > 0 ? -1 : 0) : Number(index);
    const next = Math.min(sorted.length - 1, Math.max(0, from + by));
    virtual.scrollToIndex(next);
    const focus = (tries: number) => {
      const link = scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`);
      if (link) link.focus();
      else if (tries > 0) requestAnimationFrame(() => focus(tries - 1));
    };
    requestAnimationFrame(() => focus(10));
  };
  return (
    <div className={classes['frame']} data-short={isShort || undefined}>
      <div ref={ref} className={classes['scroller']} tabIndex={0} onKeyDown={move} role="region" aria-label={`${label}, scrolls`}>
        <div
          role="table"
          aria-label={label}
          aria-rowcount={sorted.length + 1}
          aria-busy={isWaiting}
          {...(least !== undefined && { style: { minWidth: least } })}
        >
          <div role="rowgroup" className={classes['head']}>
            <div role="row" className={classes['row']} style={{ gridTemplateColumns: template }} aria-rowindex={1}>
              {shown.map((column) => (
                <Head key={column.index ?? 'namespace'} column={column} sort={sort} onSort={onSort} />
              ))}
            </div>
          </div>
          <div role="rowgroup" className={classes['rows']} style={{ height: virtual.getTotalSize() }} onClick={follow}>
            {virtual.getVirtualItems().map(({ index, start }) => {
              const row = sorted[index];
              return (
                row && (
                  <Line key={row.uid} row={row} index={index} start={start} shown={shown} template={template} to={to} now={now} />
                )
              );
            })}
          </div>
        </div>
        {sorted.length === 0 && (isWaiting ? <Waiting lines={8} /> : empty)}
      </div>
      {foot !== undefined && sorted.length > 0 && (
        <Text size="xs" c="dimmed" className={classes['foot'] ?? ''} component="div">
          {foot}
        </Text>
      )}
    </div>
  );
}

function Head({ column, sort, onSort }: { column: Shown; sort: string | undefined; onSort: GridProps['onSort'] }) {
  const { name, description } = column;
  const direction = sort === name ? 'ascending' : sort === `-${name}` ? 'descending' : 'none';
  const next = { none: name, ascending: `-${name}`, descending: undefined }[direction];
  return (
    <div role="columnheader" aria-sort={direction} title={visible(description.split('. ')[0] ?? '').slice(0, 200)}>
      {onSort ? (
        <button type="button" className={classes['sort']} onClick={() => onSort(next)}>
          <bdi>{visible(name)}</bdi>
          <span aria-hidden>{{ none: '', ascending: '↑', descending: '↓' }[direction]}</span>
        </button>
      ) : (
        <bdi>{visible(name)}</bdi>
      )}
    </div>
  );
}

interface LineProps {
  row: Row;
  index: number;
  start: number;
  shown: Shown[];
  template: string;
  to: (row: Row) => string;
  now: number;
}

const Line = memo(function Line({ row, index, start, shown, template, to, now }: LineProps) {
  return (
    <div
      role="row"
      data-index={index}
      aria-rowindex={index + 2}
      className={classes['row']}
      style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
    >
      {shown.map((column, at) => {
        const text = column.index === undefined ? row.namespace : String(row.cells[column.index] ?? '');
        return (
          <div key={column.index ?? 'namespace'} role="cell" title={text.length > 24 ? visible(text) : undefined}>
            {at === 0 ? (
              // eslint-disable-next-line no-restricted-syntax -- an address that this page made
              <a href={to(row)}>
                <bdi>{visible(text === '' ? row.name : text)}</bdi>
              </a>
            ) : column.name === 'Age' && row.created !== '' ? (
              ago(row.created, now)
            ) : (
              <Word column={column.name} text={text} />
            )}
          </div>
        );
      })}
    </div>
  );
});

/** Which columns there is room for: the name, then from the left; the age stays as long as anything. */
function fitting(columns: Column[], hasNamespaces: boolean, isWide: boolean, width: number): Shown[] {
  const all: Shown[] = columns.flatMap(({ name, description, isWide: needsWide }, index) =>
    needsWide && !isWide ? [] : { name, description, index, ...measure(name, index) },
  );
  if (hasNamespaces) all.splice(1, 0, { name: 'Namespace', description: '', index: undefined, ...measure('Namespace', 1) });
  if (isWide || width === 0) return all;
  const age = all.find(({ name }) => name === 'Age');
  const wanted = [
    all[0],
    all.find(({ name }) => name === 'Status'),
    all.find(({ name }) => name === 'Ready'),
    age,
    ...all,
  ].filter((one) => one !== undefined);
  const chosen = new Set<Shown>();
  let used = 24;
  for (const one of new Set(wanted)) {
    used += one.width + 12;
    if (used > width && chosen.size > 0) continue;
    chosen.add(one);
  }
  return all.filter((one) => chosen.has(one));
}

function measure(name: string, index: number): { track: string; width: number } {
  if (index === 0) return { track: 'minmax(150px, 2.4fr)', width: 150 };
  if (name === 'Age' || name === 'Ready' || name === 'Restarts') return { track: '80px', width: 80 };
  if (name === 'Namespace') return { track: 'minmax(110px, 1fr)', width: 110 };
  // As wide as `ImagePullBackOff` with its sign.
  if (name === 'Status') return { track: 'minmax(150px, 1fr)', width: 150 };
  const width = Math.min(200, Math.max(90, name.length * 9));
  return { track: `minmax(${width}px, 1fr)`, width };
}

/** Numbers before words, `3/4` by its first number, ages by when it was made. */
function inOrder(rows: Row[], columns: Column[], sort: string | undefined): Row[] {
  if (sort === undefined) return rows;
  const isDown = sort.startsWith('-');
  const name = isDown ? sort.slice(1) : sort;
  const index = columns.findIndex((column) => column.name === name);
  if (index < 0 && name !== 'Namespace') return rows;
  const keyed = rows.map((row): [string | number, Row] => {
    if (name === 'Age') return [-Date.parse(row.created) || 0, row];
    if (index < 0) return [row.namespace, row];
    const cell = row.cells[index] ?? '';
    if (typeof cell === 'number') return [cell, row];
    return [/^\d+(\.\d+)?%?(\/\d+)?( \(.*\))?$/.test(cell) ? Number.parseFloat(cell) : cell, row];
  });
  keyed.sort(([a], [b]) => {
    if (a === b) return 0;
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    return a < b ? -1 : 1;
  });
  const sorted = keyed.map(([, row]) => row);
  return isDown ? sorted.reverse() : sorted;
}
