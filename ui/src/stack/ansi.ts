/*
 * Lines of a log with the colours that their program gave them. Everything else that a program can tell a terminal is left out: it
 * moves no cursor, sets no title, opens no link.
 */

export interface Style {
  /** 0–7, and 8–15 for the bright ones; absent: as text is. */
  color?: number;
  isBold?: boolean;
  isDim?: boolean;
  isItalic?: boolean;
  isUnderlined?: boolean;
}

export interface Span {
  text: string;
  style: Style;
}

// eslint-disable-next-line no-control-regex -- they are what it looks for
const COLOURS = /\u001b\[([\d;:]*)m/g;
/** Sequences that are no colours: cursors (CSI), titles and links (OSC), others of two characters. */
// eslint-disable-next-line no-control-regex -- they are what it looks for
const OTHERS = /\u001b\[[\d;:?<=>!]*[ -/]*[@-ln-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-Z\\^-~]/g;

function styled(style: Style, codes: string): Style {
  let next = style;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, isBold: true };
    else if (code === 2) next = { ...next, isDim: true };
    else if (code === 3) next = { ...next, isItalic: true };
    else if (code === 4) next = { ...next, isUnderlined: true };
    else if (code === 22) next = { ...next, isBold: false, isDim: false };
    else if (code === 23) next = { ...next, isItalic: false };
    else if (code === 24) next = { ...next, isUnderlined: false };
    else if (code >= 30 && code <= 37) next = { ...next, color: code - 30 };
    else if (code >= 90 && code <= 97) next = { ...next, color: code - 82 };
    else if (code === 39) next = without(next);
    else if (code === 38 || code === 48) {
      // Colours of 256: the first sixteen are those that there are here. What of three numbers or of a background follows is skipped.
      const color = numbers[at + 2];
      if (code === 38 && numbers[at + 1] === 5 && color !== undefined && color < 16) next = { ...next, color };
      at += numbers[at + 1] === 5 ? 2 : 4;
    }
  }
  return next;
}

function without(style: Style): Style {
  const next = { ...style };
  delete next.color;
  return next;
}

/** What a terminal would show of a line: a lone carriage return begins it anew. */
function overwritten(line: string): string {
  const end = line.replace(/\r+$/, '');
  const at = end.lastIndexOf('\r');
  return at < 0 ? end : end.slice(at + 1);
}

/** A line as spans, with the style in which it begins; and the style in which the next one does. */
export function spansOf(line: string, begins: Style): { spans: Span[]; ends: Style } {
  const spans: Span[] = [];
  let style = begins;
  let last = 0;
  const text = overwritten(line).replace(OTHERS, '');
  for (const found of text.matchAll(COLOURS)) {
    if (found.index > last) spans.push({ text: text.slice(last, found.index), style });
    style = styled(style, found[1] ?? '');
    last = found.index + found[0].length;
  }
  if (last < text.length) spans.push({ text: text.slice(last), style });
  return { spans, ends: style };
}

/** A line without any colour: what is searched and copied. */
export function plainOf(line: string): string {
  return overwritten(line).replace(OTHERS, '').replace(COLOURS, '');
}

export interface LogLine {
  raw: string;
  begins: Style;
}

/** Lines of a log that grows: no byte of it is lost, and a line that is not whole yet is shown as far as it came. */
export class LogText {
  /** All whole lines. The array is another one after each change. */
  lines: readonly LogLine[] = [];
  private open = '';
  private style: Style = {};

  push(text: string): void {
    const parts = (this.open + text).split('\n');
    this.open = parts.pop() ?? '';
    if (parts.length === 0) return;
    const whole = parts.map((raw) => {
      const line = { raw, begins: this.style };
      if (raw.includes('\u001b')) this.style = spansOf(raw, this.style).ends;
      return line;
    });
    this.lines = [...this.lines, ...whole];
  }

  /** All lines, the last one also where nothing ended it. */
  all(): readonly LogLine[] {
    return this.open === '' ? this.lines : [...this.lines, { raw: this.open, begins: this.style }];
  }
}
