import { Button, Group, Text, UnstyledButton } from '@mantine/core';
import { useElementSize, useMergedRef } from '@mantine/hooks';
import {
  flexRender,
  getCoreRowModel,
  useReactTable,
  type Column,
  type ColumnDef,
  type Row as TableRow,
  type RowData,
} from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { memo, useEffect, useMemo, useRef, type KeyboardEvent, type ReactNode } from 'react';

import { explain } from '../lib/client';
import { PAGE, PAGES_READ_AGAIN, type Next } from '../lib/list';
import { turned, type SortWord } from '../lib/sort';
import { counted } from '../lib/text';
import { Waiting } from './page';
import classes from './table.module.css';
import { Name } from './text';

declare module '@tanstack/react-table' {
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- the library's shape
  interface ColumnMeta<TData extends RowData, TValue> {
    /** Width of the column, as a track of a CSS grid. */
    track: string;
    /** Shown from this width of the table on, in pixels. */
    from?: number;
    isNumber?: boolean;
    /** The end tells one from another: where it is too long, its beginning is left out. */
    isCutAtStart?: boolean;
    /** The server sorts by it. */
    isSorted?: boolean;
    /** Whether a row says nothing in it. Where none of the rows does, the others get its width. */
    isBlank?: (row: TData) => boolean;
  }
}

export type Columns<Row> = ColumnDef<Row>[];

interface TableProps<Row> {
  /** What the rows are, for people who hear the page. */
  label: string;
  rows: Row[];
  columns: Columns<Row>;
  id: (row: Row) => string;
  /** How many there are in all, if known. */
  total?: number;
  isWaiting?: boolean;
  /** In place of rows where there are none. */
  empty: ReactNode;
  /** How it goes on below the last row, if it is read in pages. */
  next?: Next;
  /** As high as its rows: for a few of them inside of a panel. */
  isShort?: boolean;
  /** Rows are as high as what they say, which goes on over lines: for text that somebody has to read to its end. */
  isTall?: boolean;
  /** Without names of columns where it is empty, and says why. */
  hasHead?: boolean;
  /** The order that the server was asked for, and how to ask for another. */
  sort?: { word: SortWord | undefined; onChange: (word: SortWord | undefined) => void };
}

const ROW = 36;
/** Width of a column in which no row says anything: its name is readable, no more. */
const BLANK = 'minmax(90px, 0.2fr)';

/** A dense table that draws only the rows in sight. Arrow keys and j, k move; Enter opens. */
export function Table<Row>({
  label,
  rows,
  columns,
  id,
  total,
  isWaiting = false,
  empty,
  next,
  isShort = false,
  isTall = false,
  hasHead = true,
  sort,
}: TableProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const { ref: sized, width } = useElementSize<HTMLDivElement>();
  const ref = useMergedRef(scroller, sized);
  const table = useReactTable({ data: rows, columns, getCoreRowModel: getCoreRowModel(), getRowId: id });
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    initialRect: { width: 1000, height: 800 },
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const more = next?.more;
  useEffect(() => {
    if (more && last >= rows.length - 30) more();
  }, [more, last, rows.length]);

  const leaves = table.getAllLeafColumns();
  const shown = useMemo(
    () => leaves.filter(({ columnDef }) => width === 0 || (columnDef.meta?.from ?? 0) <= width),
    [leaves, width],
  );
  const tracks = useMemo(
    () =>
      shown
        .map(({ columnDef: { meta } }) => {
          const isBlank = meta?.isBlank;
          return isBlank !== undefined && rows.length > 0 && rows.every(isBlank) ? BLANK : (meta?.track ?? '1fr');
        })
        .join(' '),
    [shown, rows],
  );

  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    // Keys of a dialog or a popover that a cell opened bubble here, too: it is a child in React, not in the page.
    if (!(event.target instanceof Node) || scroller.current?.contains(event.target) !== true) return;
    event.preventDefault();
    const at = (document.activeElement?.closest('[data-index]') as HTMLElement | null)?.dataset['index'];
    const next = Math.min(rows.length - 1, Math.max(0, at === undefined ? 0 : Number(at) + by));
    virtual.scrollToIndex(next);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${next}"] a, [data-index="${next}"] button`)?.focus(),
    );
  };

  const isLong = next !== undefined && rows.length > PAGES_READ_AGAIN * PAGE;
  const rowModel = table.getRowModel().rows;
  return (
    <div className={classes['frame']} data-short={isShort || undefined} data-tall={isTall || undefined}>
      <div ref={ref} className={classes['scroller']} tabIndex={0} onKeyDown={move} role="region" aria-label={`${label}, scrolls`}>
        <div role="table" aria-label={label} aria-rowcount={(total ?? rows.length) + 1} aria-busy={isWaiting}>
          <div role="rowgroup" className={classes['head']} hidden={!hasHead}>
            <div role="row" className={classes['row']} style={{ gridTemplateColumns: tracks }} aria-rowindex={1}>
              {table.getLeafHeaders().map(
                (header) =>
                  shown.includes(header.column) && (
                    <div
                      key={header.id}
                      role="columnheader"
                      data-number={header.column.columnDef.meta?.isNumber}
                      {...(sort &&
                        header.column.columnDef.meta?.isSorted === true && { 'aria-sort': sorted(header.id, sort.word) })}
                    >
                      {sort && header.column.columnDef.meta?.isSorted === true ? (
                        <UnstyledButton
                          className={classes['sort'] ?? ''}
                          onClick={() => sort.onChange(turned(header.id, sort.word))}
                        >
                          {flexRender(header.column.columnDef.header, header.getContext())}
                          {sort.word === header.id && <IconArrowUp size={12} aria-hidden />}
                          {sort.word === `-${header.id}` && <IconArrowDown size={12} aria-hidden />}
                        </UnstyledButton>
                      ) : (
                        flexRender(header.column.columnDef.header, header.getContext())
                      )}
                    </div>
                  ),
              )}
            </div>
          </div>
          <div role="rowgroup" className={classes['rows']} style={{ height: virtual.getTotalSize() }}>
            {items.map(({ index, start }) => {
              const row = rowModel[index];
              return (
                row && (
                  <Line
                    key={row.id}
                    row={row}
                    index={index}
                    start={start}
                    shown={shown}
                    tracks={tracks}
                    measure={isTall ? virtual.measureElement : undefined}
                  />
                )
              );
            })}
          </div>
        </div>
        {rows.length === 0 && (isWaiting ? <Waiting lines={8} /> : empty)}
        {next?.failed && <Failed {...next.failed} />}
      </div>
      {rows.length > 0 && (!isShort || isLong) && (
        <Group gap="sm" className={classes['foot'] ?? ''}>
          <Text size="xs" c="dimmed" role="status">
            {total === undefined
              ? counted(rows.length, 'row')
              : `${rows.length.toLocaleString('en')} of ${counted(total, 'row')}`}
            {total === undefined && more && ' read, more below'}
            {isLong && '. So many are not read again by themselves.'}
          </Text>
          {isLong && (
            <Button variant="default" size="compact-xs" onClick={next.again}>
              Read again
            </Button>
          )}
        </Group>
      )}
    </div>
  );
}

interface LineProps<Row> {
  row: TableRow<Row>;
  index: number;
  start: number;
  shown: Column<Row>[];
  tracks: string;
  /** Told of the row, where its height is its own. */
  measure: ((row: HTMLElement | null) => void) | undefined;
}

/** One row. Drawn again only when it, its place or its columns are others: a page that asks for other rows is drawn several times before
 * they are there, and its links and ages cost more than all the rest. */
const Line = memo(function Line<Row>({ row, index, start, shown, tracks, measure }: LineProps<Row>) {
  return (
    <div
      ref={measure}
      role="row"
      data-index={index}
      aria-rowindex={index + 2}
      className={classes['row']}
      style={{ gridTemplateColumns: tracks, transform: `translateY(${start}px)` }}
    >
      {row.getVisibleCells().map(
        (cell) =>
          shown.includes(cell.column) && (
            <div
              key={cell.id}
              role="cell"
              data-number={cell.column.columnDef.meta?.isNumber}
              data-cut-at-start={cell.column.columnDef.meta?.isCutAtStart}
            >
              {flexRender(cell.column.columnDef.cell, cell.getContext())}
            </div>
          ),
      )}
    </div>
  );
}) as <Row>(props: LineProps<Row>) => ReactNode;

function sorted(column: string, word: SortWord | undefined): 'ascending' | 'descending' | 'none' {
  if (word === column) return 'ascending';
  return word === `-${column}` ? 'descending' : 'none';
}

/** In the place of the rows that could not be read. */
function Failed({ error, retry, isAsking }: NonNullable<Next['failed']>) {
  const told = explain(error);
  return (
    <Group role="alert" gap="sm" className={classes['failed'] ?? ''}>
      <Text size="sm">
        Cannot read more: <Name of={told.what} />. {told.next}
        {told.requestId !== undefined && <> Request {told.requestId}.</>}
      </Text>
      <Button variant="default" size="compact-xs" loading={isAsking} onClick={retry}>
        Try again
      </Button>
    </Group>
  );
}
