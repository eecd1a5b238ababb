import { ActionIcon, Button, Checkbox, Text, TextInput } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { IconChevronDown, IconChevronUp, IconDownload } from '@tabler/icons-react';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent } from 'react';

import { explain } from '../lib/client';
import { counted, size, visible } from '../lib/text';
import { Name } from '../parts/text';
import { LogText, plainOf, spansOf, type LogLine } from './ansi';
import classes from './log.module.css';
import { Tail } from './tail';

/** What is drawn of one line: the rest of a longer one is in the download. */
const LONGEST = 16_384;

interface LogProps {
  run: string;
  step: number;
  /** Of the file that is downloaded. */
  name: string;
}

/** The log of a step as its tool wrote it, with its colours, as it grows. */
export function Log({ run, step, name }: LogProps) {
  const tail = useMemo(() => new Tail(run, step), [run, step]);
  useEffect(() => {
    tail.start();
    return () => tail.stop();
  }, [tail]);
  const { lines, bytes, isWhole, error } = useSyncExternalStore(tail.subscribe, tail.snapshot);
  return <LinesOf lines={lines} bytes={bytes} isWhole={isWhole} error={error} name={`${name}.log`} what="the log" />;
}

/** A text that a tool wrote, which is all there. */
export function Written({ text, name, what }: { text: string; name: string; what: string }) {
  const lines = useMemo(() => {
    const read = new LogText();
    read.push(text);
    return read.all();
  }, [text]);
  return <LinesOf lines={lines} bytes={new Blob([text]).size} isWhole isStill name={name} what={what} />;
}

interface LinesProps {
  lines: readonly LogLine[];
  bytes: number;
  isWhole: boolean;
  /** It never grew: it is read from its beginning. */
  isStill?: boolean;
  error?: unknown;
  /** Of the file that is downloaded. */
  name: string;
  /** What is searched, in words. */
  what: string;
}

function LinesOf({ lines, bytes, isWhole, isStill = false, error, name, what }: LinesProps) {
  const [follows, setFollows] = useState(!isStill);
  const [wanted, setWanted] = useState('');
  const [at, setAt] = useState(0);
  const found = useMemo(() => find(lines, wanted), [lines, wanted]);
  const here = found[Math.min(at, found.length - 1)];
  const go = (by: number) => {
    if (found.length === 0) return;
    setFollows(false);
    setAt((Math.min(at, found.length - 1) + by + found.length) % found.length);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    go(event.shiftKey ? -1 : 1);
  };
  const download = () => {
    const address = URL.createObjectURL(
      new Blob(
        lines.map(({ raw }) => `${raw}\n`),
        { type: 'text/plain' },
      ),
    );
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const told = error === undefined ? undefined : explain(error);
  return (
    <div>
      <div className={classes['tools']} data-no-print>
        {!isStill && (
          <Checkbox
            size="xs"
            label="Follow"
            checked={follows}
            disabled={isWhole}
            onChange={({ currentTarget }) => setFollows(currentTarget.checked)}
          />
        )}
        <TextInput
          type="search"
          aria-label={`Search in ${what}`}
          placeholder={`Search in ${what}`}
          w={240}
          maxLength={500}
          value={wanted}
          onChange={({ currentTarget }) => {
            setWanted(currentTarget.value);
            setAt(0);
          }}
          onKeyDown={keys}
        />
        <ActionIcon variant="default" aria-label="Match before" disabled={found.length === 0} onClick={() => go(-1)}>
          <IconChevronUp size={14} />
        </ActionIcon>
        <ActionIcon variant="default" aria-label="Next match" disabled={found.length === 0} onClick={() => go(1)}>
          <IconChevronDown size={14} />
        </ActionIcon>
        <Text size="xs" c="dimmed" role="status">
          {wanted === ''
            ? ''
            : found.length === 0
              ? 'No line has this.'
              : `${Math.min(at, found.length - 1) + 1} of ${counted(found.length, 'line')}`}
        </Text>
        <Button variant="default" leftSection={<IconDownload size={14} />} onClick={download}>
          Download
        </Button>
      </div>
      <View lines={lines} sticks={follows && wanted === ''} found={found} here={here} isWhole={isWhole} />
      <div className={classes['foot']}>
        <span role="status">
          {counted(lines.length, 'line')}, {size(bytes)}
          {isWhole ? '' : ', more to come'}
        </span>
        {told && (
          <span role="alert">
            Cannot read on: <Name of={told.what} />. Trying again by itself.
          </span>
        )}
      </div>
    </div>
  );
}

/** Numbers of the lines with these words in them. */
function find(lines: readonly LogLine[], words: string): number[] {
  if (words === '') return [];
  const wanted = words.toLowerCase();
  return lines.flatMap(({ raw }, at) => (plainOf(raw).toLowerCase().includes(wanted) ? [at] : []));
}

function View({
  lines,
  sticks,
  found,
  here,
  isWhole,
}: {
  lines: readonly LogLine[];
  sticks: boolean;
  found: number[];
  here: number | undefined;
  isWhole: boolean;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 18,
    overscan: 20,
  });
  const marked = useMemo(() => new Set(found), [found]);
  useEffect(() => {
    if (sticks && isAtEnd.current && lines.length > 0) virtual.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [lines, sticks, virtual]);
  useEffect(() => {
    if (here !== undefined) virtual.scrollToIndex(here, { align: 'center' });
  }, [here, virtual]);
  return (
    <div
      ref={scroller}
      className={classes['view']}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label="Lines"
      onScroll={({ currentTarget }) => {
        isAtEnd.current = currentTarget.scrollHeight - currentTarget.scrollTop - currentTarget.clientHeight < 40;
      }}
    >
      {lines.length === 0 && (
        <p className={classes['none']}>{isWhole ? 'It wrote nothing.' : 'No lines yet. They appear here as they are written.'}</p>
      )}
      <div className={classes['lines']} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start, key }) => {
          const line = lines[index];
          return (
            line && (
              <div
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                data-found={index === here ? 'here' : marked.has(index) ? 'other' : undefined}
                className={classes['line']}
                style={{ transform: `translateY(${start}px)` }}
              >
                <span className={classes['number']}>{index + 1}</span>
                <bdi>
                  <Coloured line={line} />
                </bdi>
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}

function Coloured({ line }: { line: LogLine }) {
  const isCut = line.raw.length > LONGEST;
  const { spans } = spansOf(isCut ? line.raw.slice(0, LONGEST) : line.raw, line.begins);
  return (
    <>
      {spans.map(({ text, style }, at) => (
        <span
          key={at}
          className={classes['span']}
          data-color={style.color}
          data-bold={style.isBold === true || undefined}
          data-dim={style.isDim === true || undefined}
          data-italic={style.isItalic === true || undefined}
          data-underlined={style.isUnderlined === true || undefined}
        >
          {visible(text)}
        </span>
      ))}
      {isCut && <span className={classes['number']}>… {size(line.raw.length - LONGEST)} more in the download</span>}
    </>
  );
}
