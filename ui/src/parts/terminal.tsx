import '@xterm/xterm/css/xterm.css';

import { Terminal } from '@xterm/xterm';

import { nonce } from '../lib/page';

/**
 * Opens a terminal. The library makes style sheets while it does, and sets colours by attribute when it draws: the first need the
 * page's nonce, and the second the object model, or the policy does not apply them.
 */
export function openTerminal(terminal: Terminal, place: HTMLElement): void {
  /* eslint-disable @typescript-eslint/no-deprecated -- one overload of it is deprecated, and all of them pass here */
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string) {
    if (name === 'style') this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
  const make = document.createElement.bind(document);
  document.createElement = (tag: string, options?: ElementCreationOptions) => {
    const element = make(tag, options);
    if (tag === 'style') element.nonce = nonce;
    return element;
  };
  try {
    terminal.open(place);
  } finally {
    delete (document as Partial<Document>).createElement;
  }
  /* eslint-enable @typescript-eslint/no-deprecated */
}

/** A terminal that shows and does not act: no links, no clipboard, no titles of the window. */
export function makeTerminal(cols: number, rows: number): Terminal {
  return new Terminal({
    cols: Math.min(500, Math.max(20, cols)),
    rows: Math.min(200, Math.max(5, rows)),
    disableStdin: true,
    fontSize: 13,
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
    linkHandler: { activate: () => undefined },
    screenReaderMode: true,
    scrollback: 5000,
    theme: { background: '#16191d', foreground: '#e6e9ec' },
  });
}
