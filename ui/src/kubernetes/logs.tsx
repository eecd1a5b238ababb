import { Button, Checkbox, MultiSelect, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { IconDownload } from '@tabler/icons-react';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';

import { counted, quoted, visible } from '../lib/text';
import { Command } from '../parts/action';
import { Empty, Panel, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Name } from '../parts/text';
import { Trouble } from './frame';
import { podsKind } from './known';
import classes from './logs.module.css';
import { listAt, textAt } from './objects';
import { someQuery } from './queries';
import { MOST_LINES, Tail, type LogLine, type Source } from './tail';

interface LogsProps {
  handle: string;
  namespace: string;
  /** Of one pod, or of all with these labels. */
  pod?: string;
  labels?: string;
  container: string | undefined;
}

const SINCE = [
  { value: '', label: 'Last lines' },
  { value: '60', label: 'Last minute' },
  { value: '900', label: 'Last 15 minutes' },
  { value: '3600', label: 'Last hour' },
  { value: '86400', label: 'Last day' },
];
/** Pods whose containers are known at most. */
const MOST_PODS = 200;
/** Containers that are read at most. */
const MOST_SOURCES = 100;

/** What containers write, as they write it. */
export default function Logs({ handle, namespace, pod, labels, container }: LogsProps) {
  const target =
    pod === undefined
      ? { namespace, query: { labelSelector: labels === '' ? undefined : labels } }
      : { namespace, query: { fieldSelector: `metadata.name=${pod}` } };
  const pods = useQuery(someQuery(handle, podsKind, target, false, MOST_PODS));
  const all = useMemo(
    () =>
      (pods.data ?? []).flatMap((one) =>
        ['initContainers', 'containers', 'ephemeralContainers'].flatMap((list) =>
          listAt(one, 'spec', list).map((spec) => ({
            pod: one.metadata.name,
            container: textAt(spec, 'name') ?? '',
            isMain: list === 'containers',
          })),
        ),
      ),
    [pods.data],
  );
  if (pods.isPending) return <Waiting lines={10} />;
  if (held(pods) === undefined) return <Trouble handle={handle} error={pods.error} what="its pods" />;
  if (all.length === 0) return <Empty title="No pods">Logs appear here when there are pods.</Empty>;
  const isCut = (pods.data?.length ?? 0) >= MOST_PODS;
  return <Shown {...{ handle, namespace, pod, labels, all, isCut, container }} />;
}

interface ShownProps {
  handle: string;
  namespace: string;
  pod: string | undefined;
  labels: string | undefined;
  all: (Source & { isMain: boolean })[];
  /** There may be more pods. */
  isCut: boolean;
  container: string | undefined;
}

function Shown({ handle, namespace, pod, labels, all, isCut, container }: ShownProps) {
  const [follows, setFollows] = useState(true);
  const [previous, setPrevious] = useState(false);
  const [since, setSince] = useState('');
  const [filter, setFilter] = useState('');
  const [negates, setNegates] = useState(false);
  const [hasTimes, setHasTimes] = useState(false);
  const names = [...new Set(all.map((one) => one.container))];
  const main = [...new Set(all.filter(({ isMain }) => isMain).map((one) => one.container))];
  const [chosen, setChosen] = useState<string[]>(container !== undefined && names.includes(container) ? [container] : main);
  const wanted = all.filter((one) => chosen.includes(one.container));
  const sources = wanted.slice(0, MOST_SOURCES);
  const tail = useMemo(
    () =>
      new Tail({
        cluster: handle,
        namespace,
        previous,
        sinceSeconds: since === '' ? undefined : Number(since),
        tailLines: since === '' ? Math.max(20, Math.floor(2000 / Math.max(1, all.length))) : 10_000,
      }),
    // The number of pods changes while one reads; what was read stays.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [handle, namespace, previous, since],
  );
  const asked = sources.map((one) => `${one.pod}/${one.container}`).join(' ');
  useEffect(() => {
    tail.follow(
      asked.split(' ').flatMap((one) => {
        const [from, name] = one.split('/');
        return from !== undefined && name !== undefined ? { pod: from, container: name } : [];
      }),
      follows && !previous,
    );
  }, [tail, asked, follows, previous]);
  useEffect(() => () => tail.end(), [tail]);
  const { lines: read, dropped, troubles, polled } = useSyncExternalStore(tail.subscribe, tail.snapshot);
  const lines = useMemo(
    () => read.filter(({ source }) => chosen.includes(source.slice(source.indexOf('/') + 1))),
    [read, chosen],
  );
  const match = useMemo(() => matcher(filter), [filter]);
  const shown = useMemo(
    () => (filter === '' || match === undefined ? lines : lines.filter((line) => match(line.text) !== negates)),
    [lines, filter, match, negates],
  );
  const download = () => {
    const text = shown.map(({ at, source, text: line }) => `${at} ${source} ${line}\n`);
    const address = URL.createObjectURL(new Blob(text, { type: 'text/plain' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = `${pod ?? 'pods'}.log`;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const what = pod === undefined ? `-l ${quoted(labels ?? '')} --max-log-requests 40` : quoted(pod);
  const only = chosen.length === 1 ? `-c ${quoted(chosen[0] ?? '')}` : '--all-containers';
  const flags = [follows && !previous ? ' -f' : '', previous ? ' -p' : '', since === '' ? '' : ` --since=${since}s`].join('');
  return (
    <Panel title="Logs">
      <div className={classes['tools']} data-no-print>
        <Checkbox
          size="xs"
          label="Follow"
          checked={follows}
          disabled={previous}
          onChange={({ currentTarget }) => setFollows(currentTarget.checked)}
        />
        <Checkbox
          size="xs"
          label="Before the last restart"
          checked={previous}
          onChange={({ currentTarget }) => setPrevious(currentTarget.checked)}
        />
        <Select
          aria-label="Since"
          data={SINCE}
          value={since}
          w={140}
          allowDeselect={false}
          onChange={(value) => setSince(value ?? '')}
        />
        {names.length > 1 && (
          <MultiSelect size="xs" aria-label="Containers" data={names} value={chosen} maw={320} onChange={setChosen} />
        )}
        <TextInput
          aria-label="Only lines with"
          placeholder="Only lines with… or /regular expression/"
          w={260}
          maxLength={500}
          value={filter}
          error={match === undefined}
          {...(match === undefined && { title: 'This is no regular expression: all lines are shown' })}
          onChange={({ currentTarget }) => setFilter(currentTarget.value)}
        />
        <Checkbox
          size="xs"
          label="Lines without it"
          checked={negates}
          onChange={({ currentTarget }) => setNegates(currentTarget.checked)}
        />
        <Checkbox
          size="xs"
          label="Times"
          checked={hasTimes}
          onChange={({ currentTarget }) => setHasTimes(currentTarget.checked)}
        />
        <Button variant="default" leftSection={<IconDownload size={14} />} onClick={download}>
          Download
        </Button>
      </div>
      <View
        key={`${previous} ${since}`}
        lines={shown}
        hasSources={sources.length > 1}
        hasTimes={hasTimes}
        sticks={follows}
        none={
          lines.length > 0
            ? 'No line matches.'
            : previous
              ? 'The run before left no lines.'
              : 'No lines yet. They appear here as the containers write them.'
        }
      />
      <div className={classes['foot']}>
        <span role="status">
          {shown.length === lines.length ? counted(lines.length, 'line') : `${shown.length} of ${counted(lines.length, 'line')}`}
          {` of ${counted(sources.length, 'container')}`}
        </span>
        {dropped > 0 && <span>older lines are not kept, {MOST_LINES.toLocaleString('en')} at most</span>}
        {wanted.length > sources.length && <span>{wanted.length - sources.length} containers more are not read</span>}
        {isCut && <span>only the first {MOST_PODS} pods are looked at</span>}
        {polled > 0 && (
          <span>{counted(polled, 'container')} asked every few seconds: the browser holds few connections open</span>
        )}
        {troubles.slice(0, 3).map((trouble) => (
          <span key={trouble} role="alert">
            <Name of={trouble} />
          </span>
        ))}
      </div>
      {labels !== '' && (
        <div style={{ padding: 12 }} data-no-print>
          <Command line={`kubectl -n ${quoted(namespace)} logs ${what} ${only}${flags}`} />
        </div>
      )}
    </Panel>
  );
}

/** Words, or an expression between slashes; nothing for one that cannot be read, as while it is typed. */
function matcher(filter: string): ((text: string) => boolean) | undefined {
  const expression = /^\/(.+)\/(i?)$/.exec(filter);
  if (expression) {
    try {
      const compiled = new RegExp(expression[1] ?? '', expression[2]);
      // Expressions take longer the longer a line is; the rest of one that is so long is not looked at.
      return (text) => compiled.test(text.slice(0, 2000));
    } catch {
      return undefined;
    }
  }
  const wanted = filter.toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}

function View({
  lines,
  hasSources,
  hasTimes,
  sticks,
  none,
}: {
  lines: LogLine[];
  hasSources: boolean;
  hasTimes: boolean;
  sticks: boolean;
  /** In place of lines where there are none. */
  none: string;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 18,
    overscan: 20,
    getItemKey: (index) => lines[index]?.id ?? index,
  });
  useEffect(() => {
    if (sticks && isAtEnd.current && lines.length > 0) virtual.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [lines, sticks, virtual]);
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
      {lines.length === 0 && <p className={classes['none']}>{none}</p>}
      <div className={classes['lines']} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start, key }) => {
          const line = lines[index];
          return (
            line && (
              <div
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                data-level={line.level}
                className={classes['line']}
                style={{ transform: `translateY(${start}px)` }}
              >
                {hasTimes && <span className={classes['source']}>{visible(line.at.slice(0, 23))} </span>}
                {hasSources && (
                  <span className={classes['source']}>
                    <Name of={line.source} />{' '}
                  </span>
                )}
                <bdi>{visible(line.text)}</bdi>
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}
