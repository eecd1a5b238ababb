import { ActionIcon, Checkbox, Group, Select, Slider, Text } from '@mantine/core';
import type { Terminal } from '@xterm/xterm';
import { IconPlayerPauseFilled, IconPlayerPlayFilled, IconRefresh } from '@tabler/icons-react';
import { useEffect, useMemo, useRef, useState } from 'react';

import { Panel } from '../parts/page';
import { makeTerminal, openTerminal } from '../parts/terminal';
import { parseCast, withoutPauses } from './cast';
import classes from './player.module.css';

const clock = (seconds: number) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

/** Plays an asciicast: from any moment on, faster or slower, without its pauses. */
export default function Player({ cast }: { cast: string }) {
  const [isCut, setCut] = useState(true);
  const whole = useMemo(() => parseCast(cast), [cast]);
  const film = useMemo(() => (isCut ? withoutPauses(whole) : whole), [whole, isCut]);
  const place = useRef<HTMLDivElement>(null);
  const terminal = useRef<Terminal>(null);
  /** How many events are shown already. */
  const shown = useRef(0);
  const [at, setAt] = useState(0);
  const [speed, setSpeed] = useState('1');
  const [isPlaying, setPlaying] = useState(false);

  useEffect(() => {
    if (!place.current) return;
    const made = makeTerminal(film.width, film.height);
    openTerminal(made, place.current);
    terminal.current = made;
    shown.current = 0;
    return () => {
      terminal.current = null;
      made.dispose();
    };
  }, [film]);

  useEffect(() => {
    const screen = terminal.current;
    if (!screen) return;
    const until = film.events.findIndex((event) => event.at > at);
    const end = until === -1 ? film.events.length : until;
    if (end < shown.current) {
      screen.reset();
      screen.resize(film.width, film.height);
      shown.current = 0;
    }
    for (const event of film.events.slice(shown.current, end)) {
      if (event.kind === 'o') screen.write(event.text);
      const [cols, rows] = event.kind === 'r' ? event.text.split('x').map(Number) : [];
      if (cols && rows) screen.resize(Math.min(500, cols), Math.min(200, rows));
    }
    shown.current = end;
  }, [at, film]);

  useEffect(() => {
    if (!isPlaying) return;
    let before = performance.now();
    const timer = window.setInterval(() => {
      const now = performance.now();
      const passed = ((now - before) / 1000) * Number(speed);
      before = now;
      setAt((old) => {
        const next = Math.min(film.seconds, old + passed);
        if (next >= film.seconds) setPlaying(false);
        return next;
      });
    }, 50);
    return () => window.clearInterval(timer);
  }, [isPlaying, speed, film]);

  return (
    <Panel
      title="What was shown"
      aside={
        <Group gap="sm">
          <Checkbox
            size="xs"
            label="Without pauses"
            checked={isCut}
            onChange={({ currentTarget }) => {
              setCut(currentTarget.checked);
              setAt(0);
            }}
          />
          <Select
            aria-label="Speed"
            w={90}
            allowDeselect={false}
            value={speed}
            onChange={(next) => setSpeed(next ?? '1')}
            data={['0.5', '1', '2', '4', '16'].map((value) => ({ value, label: `${value} ×` }))}
          />
        </Group>
      }
    >
      <div ref={place} className={classes['screen']} data-testid="screen" />
      <Group gap="sm" p="sm" wrap="nowrap">
        <ActionIcon
          variant="default"
          aria-label={isPlaying ? 'Pause' : 'Play'}
          onClick={() => {
            if (!isPlaying && at >= film.seconds) setAt(0);
            setPlaying(!isPlaying);
          }}
        >
          {isPlaying ? <IconPlayerPauseFilled size={14} /> : <IconPlayerPlayFilled size={14} />}
        </ActionIcon>
        <ActionIcon variant="default" aria-label="From the beginning" onClick={() => setAt(0)}>
          <IconRefresh size={14} />
        </ActionIcon>
        <Slider
          flex={1}
          thumbLabel="Moment"
          min={0}
          max={Math.max(0.1, film.seconds)}
          step={0.1}
          value={at}
          label={clock}
          onChange={setAt}
        />
        <Text size="xs" c="dimmed" role="timer" style={{ fontVariantNumeric: 'tabular-nums' }}>
          {clock(at)} of {clock(film.seconds)}
        </Text>
      </Group>
    </Panel>
  );
}
