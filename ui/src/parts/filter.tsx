import { Button, Kbd, Select, TextInput, UnstyledButton } from '@mantine/core';
import { useDebouncedCallback, useHotkeys } from '@mantine/hooks';
import { IconSearch, IconX } from '@tabler/icons-react';
import { useMemo, useRef, useState, type ReactNode } from 'react';

import { visible } from '../lib/text';
import classes from './filter.module.css';
import { Name } from './text';

/** Milliseconds without a key press until the server is asked: keys that are struck one after another are one question. What is asked
 * for an earlier text is cancelled. */
const DEBOUNCE = 60;
/** After so many without one, the first key press is asked for at once: most often it is the only one, or the next comes later than the
 * answer. */
const QUIET = 400;

/** Searches at the server as one types; `/` goes to it. */
export function Search({
  label,
  value,
  onChange,
  hasKey = true,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Of several on a page, `/` goes to one. */
  hasKey?: boolean;
}) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const struckAt = useRef(-Infinity);
  // What this box told and the address does not show yet: by the time it does, more may be typed.
  const [told, setTold] = useState<string[]>([]);
  if (value !== known) {
    setKnown(value);
    const at = told.indexOf(value);
    setTold(at < 0 ? [] : told.slice(at + 1));
    // The address changed without this box: back, or a link.
    if (at < 0) setTyped(value);
  }
  const say = (text: string) => {
    const next = text.trim();
    if (next === (told.at(-1) ?? value)) return;
    setTold([...told, next]);
    onChange(next);
  };
  const tell = useDebouncedCallback(say, DEBOUNCE);
  useHotkeys(hasKey ? [['/', () => input.current?.focus()]] : []);
  return (
    <TextInput
      ref={input}
      type="search"
      aria-label={label}
      placeholder={label}
      value={typed}
      maxLength={200}
      leftSection={<IconSearch size={14} aria-hidden />}
      rightSection={hasKey && <Kbd size="xs">/</Kbd>}
      className={classes['search'] ?? ''}
      onChange={({ currentTarget }) => {
        const now = performance.now();
        const isFirst = now - struckAt.current > QUIET;
        struckAt.current = now;
        setTyped(currentTarget.value);
        if (isFirst) say(currentTarget.value);
        else tell(currentTarget.value);
      }}
    />
  );
}

interface Choice<Value extends string> {
  value: Value | undefined;
  label: ReactNode;
  count?: number | undefined;
}

/** One of a few: how many there are of each, and which is shown. What there is none of is dimmed and keeps its place: choices that come and
 * go would move the others away from under the hand. */
export function Facets<Value extends string>(props: {
  label: string;
  choices: Choice<Value>[];
  value: Value | undefined;
  onChange: (value: Value | undefined) => void;
  /** The counts are still to come. */
  isWaiting?: boolean;
}) {
  const { value: chosen } = props;
  const isKnown = chosen === undefined || props.choices.some(({ value }) => value === chosen);
  return (
    <div role="group" aria-label={props.label} aria-busy={props.isWaiting} className={classes['facets']}>
      {props.choices.map(({ value, label, count }) => (
        <UnstyledButton
          key={value ?? 'all'}
          className={classes['facet'] ?? ''}
          aria-pressed={props.value === value}
          data-none={count === 0 || undefined}
          onClick={() => props.onChange(value)}
        >
          {label}
          {count !== undefined && <span className={classes['count']}>{count.toLocaleString('en')}</span>}
        </UnstyledButton>
      ))}
      {!isKnown && (
        // An address may name what there is none of: it is a filter all the same, and can be taken away.
        <UnstyledButton
          className={classes['facet'] ?? ''}
          aria-pressed
          aria-label={`Remove the unknown filter ${visible(chosen)}`}
          onClick={() => props.onChange(undefined)}
        >
          <bdi>{visible(chosen)}</bdi> (unknown)
          <IconX size={14} aria-hidden />
        </UnstyledButton>
      )}
    </div>
  );
}

/** Several choices side by side: they come to the next line together, and share what there is of it. */
export function Choices({ children }: { children: ReactNode }) {
  return <div className={classes['choices']}>{children}</div>;
}

/** A filter that came with the address, and how to be rid of it. */
export function Only({ what, of, end }: { what: string; of: string; end: () => void }) {
  return (
    <Button
      variant="default"
      size="xs"
      rightSection={<IconX size={12} />}
      aria-label={`${what} ${visible(of)}: show all`}
      onClick={end}
    >
      {what}: <Name of={of} />
    </Button>
  );
}

/** One of many: which there are, with how many rows each has. */
export function Choose<Value extends string>(props: {
  label: string;
  choices: { value: Value; label: string; count?: number }[];
  value: Value | undefined;
  onChange: (value: Value | undefined) => void;
}) {
  const { label, choices, value, onChange } = props;
  // What the address names stays to be seen where nothing has it any more.
  const isKnown = value === undefined || choices.some((choice) => choice.value === value);
  // A thousand of them are written and indexed once, not with each key press in the search beside.
  const data = useMemo(
    () => [
      ...choices.map((choice) => ({
        value: choice.value,
        label: `${visible(choice.label)}${choice.count === undefined ? '' : ` (${choice.count.toLocaleString('en')})`}`,
      })),
      ...(isKnown ? [] : [{ value, label: visible(value) }]),
    ],
    [choices, isKnown, value],
  );
  return (
    <Select
      aria-label={label}
      placeholder={label}
      value={value ?? null}
      searchable={choices.length > 10}
      clearable
      className={classes['choice'] ?? ''}
      comboboxProps={{ width: 'max-content' }}
      data={data}
      onChange={(next) => onChange((next ?? undefined) as Value | undefined)}
    />
  );
}
