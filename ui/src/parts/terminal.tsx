import '@xterm/xterm/css/xterm.css';

import { Terminal } from '@xterm/xterm';

import { nonce } from '../lib/page';

/** A document whose style elements carry the page's nonce: the terminal makes some, which the policy would not apply. */
function withNonce(): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === 'createElement')
        return (tag: string, options?: ElementCreationOptions) => {
          const element = target.createElement(tag, options);
          if (tag.toLowerCase() === 'style') element.nonce = nonce;
          return element;
        };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
    },
  });
}

/** A terminal that shows and does not act: no links, no clipboard, no titles of the window. */
export function makeTerminal(cols: number, rows: number): Terminal {
  return new Terminal({
    cols: Math.min(500, Math.max(20, cols)),
    rows: Math.min(200, Math.max(5, rows)),
    documentOverride: withNonce(),
    disableStdin: true,
    fontSize: 13,
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
    linkHandler: { activate: () => undefined },
    screenReaderMode: true,
    scrollback: 5000,
    theme: { background: '#16191d', foreground: '#e6e9ec' },
  });
}
