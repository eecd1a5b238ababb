import { Button, Group, Select, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Xterm } from '@xterm/xterm';
import { IconTerminal2 } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';

import { quoted, visible } from '../lib/text';
import { Command } from '../parts/action';
import { Panel } from '../parts/page';
import { openTerminal } from '../parts/terminal';
import { Name } from '../parts/text';
import { rightQuery, WhyNot } from './act';
import { podsKind } from './known';
import { listAt, textAt, type KubeObject } from './objects';
import { kubePath } from './request';

/** A terminal in a container. */
export default function Terminal({ handle, pod, container }: { handle: string; pod: KubeObject; container: string | undefined }) {
  const names = ['containers', 'ephemeralContainers'].flatMap((list) =>
    listAt(pod, 'spec', list).flatMap((spec) => textAt(spec, 'name') ?? []),
  );
  const [chosen, setChosen] = useState(container !== undefined && names.includes(container) ? container : (names[0] ?? ''));
  const [command, setCommand] = useState('');
  const [session, setSession] = useState(0);
  const { name, namespace = '' } = pod.metadata;
  const right = { verb: 'create', kind: podsKind, namespace, name, subresource: 'exec' };
  const may = useQuery(rightQuery(handle, right));
  const line = `kubectl -n ${quoted(namespace)} exec -it ${quoted(name)} -c ${quoted(chosen)} -- ${command.trim() === '' ? 'sh' : command.trim()}`;
  return (
    <Panel
      title="Terminal"
      aside={
        <Group gap="sm">
          {names.length > 1 && (
            <Select
              aria-label="Container"
              data={names}
              value={chosen}
              allowDeselect={false}
              onChange={(one) => setChosen(one ?? '')}
            />
          )}
          <TextInput
            aria-label="Command"
            placeholder="Command (sh)"
            value={command}
            maxLength={1000}
            onChange={({ currentTarget }) => setCommand(currentTarget.value)}
          />
          {may.data?.allowed === false ? (
            <WhyNot cluster={handle} label="Open" right={right} />
          ) : (
            <Button leftSection={<IconTerminal2 size={14} />} loading={may.isPending} onClick={() => setSession(session + 1)}>
              {session === 0 ? 'Open' : 'Open anew'}
            </Button>
          )}
        </Group>
      }
    >
      {session > 0 && (
        <Session
          key={session}
          path={kubePath(handle, podsKind, { namespace, name, subresource: 'exec' })}
          container={chosen}
          command={command.trim() === '' ? ['sh'] : command.trim().split(/\s+/)}
        />
      )}
      <div style={{ padding: 12 }}>
        <Text size="xs" c="dimmed" mb="sm">
          What you do here is in the audit log, and recorded where the cluster records. Ctrl Shift Escape leaves the terminal.
        </Text>
        <Command line={line} />
      </div>
    </Panel>
  );
}

type State = { at: 'opens' } | { at: 'open' } | { at: 'over'; words: string; isWell: boolean };

const STDIN = 0;
const STATUS = 3;
const RESIZE = 4;
/** Bytes that are not drawn yet. */
const MOST_WAITING = 8 * 1024 * 1024;

function Session({ path, container, command }: { path: string; container: string; command: string[] }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<State>({ at: 'opens' });
  // Each session has its own: it is made anew by its key.
  const first = useRef({ path, container, command });
  useEffect(() => {
    if (!place.current) return;
    return connect(place.current, first.current, setState);
  }, []);
  return (
    <>
      <div style={{ height: 'min(60vh, 560px)', padding: 8, background: '#1d2126' }}>
        <div ref={place} style={{ height: '100%', overflow: 'hidden' }} />
      </div>
      <Text size="sm" p="sm" role={state.at === 'over' && !state.isWell ? 'alert' : 'status'}>
        {state.at === 'opens' && 'Connecting.'}
        {state.at === 'open' && 'Connected.'}
        {state.at === 'over' && (
          <>
            Ended: <Name of={state.words} />
          </>
        )}
      </Text>
    </>
  );
}

interface Wanted {
  path: string;
  container: string;
  command: string[];
}

/** Opens a terminal and its socket. Returns how to end both. */
function connect(place: HTMLElement, { path, container, command }: Wanted, tell: (state: State) => void): () => void {
  const terminal = new Xterm({
    fontSize: 13,
    fontFamily: 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace',
    scrollback: 5000,
    screenReaderMode: true,
    theme: { background: '#1d2126', foreground: '#e6e8ea' },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  // A program may neither name the window, nor make links, nor touch the clipboard, whatever a later version of the library does by itself.
  for (const code of [0, 1, 2, 8, 52]) terminal.parser.registerOscHandler(code, () => true);
  openTerminal(terminal, place);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== 'Escape' || !event.ctrlKey || !event.shiftKey) return true;
    terminal.blur();
    place.closest('section')?.querySelector<HTMLElement>('button, input')?.focus();
    return false;
  });

  const query = new URLSearchParams({ container, stdin: 'true', stdout: 'true', stderr: 'true', tty: 'true' });
  for (const argument of command) query.append('command', argument);
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${window.location.host}${path}?${query.toString()}`, [
    'v5.channel.k8s.io',
    'v4.channel.k8s.io',
  ]);
  socket.binaryType = 'arraybuffer';
  const encoder = new TextEncoder();
  const send = (channel: number, bytes: Uint8Array) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.send(message);
  };
  const resize = () => {
    fit.fit();
    send(RESIZE, encoder.encode(JSON.stringify({ Width: terminal.cols, Height: terminal.rows })));
  };
  let waiting = 0;
  let isBehind = false;
  let isOver = false;
  let wasOpen = false;
  const over = (words: string, isWell: boolean) => {
    if (isOver) return;
    isOver = true;
    terminal.options.disableStdin = true;
    tell({ at: 'over', words, isWell });
  };
  const input = terminal.onData((text) => send(STDIN, encoder.encode(text)));
  const binary = terminal.onBinary((text) =>
    send(
      STDIN,
      Uint8Array.from(text, (char) => char.charCodeAt(0)),
    ),
  );
  socket.onopen = () => {
    wasOpen = true;
    tell({ at: 'open' });
    resize();
    terminal.focus();
  };
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>) => {
    // The protocol has no text; an array of as many bytes as a text says would be made of it.
    if (typeof data === 'string') return;
    const bytes = new Uint8Array(data);
    const channel = bytes[0];
    const rest = bytes.subarray(1);
    if (channel === STATUS) {
      const status = textOfStatus(new TextDecoder().decode(rest));
      over(status.words, status.isWell);
      socket.close(1000);
    } else if (channel === 1 || channel === 2) {
      // It came faster than it can be drawn: memory has an end, and nobody reads that fast.
      if (waiting > MOST_WAITING) {
        isBehind = true;
        return;
      }
      if (isBehind) terminal.write('\r\n\u001b[7m some of it is left out here \u001b[0m\r\n');
      isBehind = false;
      waiting += rest.length;
      terminal.write(rest, () => {
        waiting -= rest.length;
      });
    }
  };
  socket.onclose = ({ code, reason }) => {
    if (code === 1000) over('the program ended', true);
    else if (wasOpen)
      over(
        `the connection to the cluster is lost${reason === '' ? '' : ` (${visible(reason)})`}, or a right or your session ended. What ran there may have ended too`,
        false,
      );
    else
      over(
        'the cluster opened no terminal. Its agent may not be connected, or you may not open one: a role with exec on the cluster is needed',
        false,
      );
  };
  const observer = new ResizeObserver(() => resize());
  observer.observe(place);
  return () => {
    observer.disconnect();
    input.dispose();
    binary.dispose();
    isOver = true;
    socket.close(1000);
    terminal.dispose();
  };
}

function textOfStatus(text: string): { words: string; isWell: boolean } {
  try {
    const status: unknown = JSON.parse(text);
    const isWell = textAt(status, 'status') === 'Success';
    return { words: isWell ? 'the program ended' : (textAt(status, 'message') ?? 'the program failed'), isWell };
  } catch {
    return { words: visible(text), isWell: false };
  }
}
