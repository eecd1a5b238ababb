// eslint-disable-next-line no-control-regex -- they are what it looks for
const MARKS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text from a fleet with what would hide or reorder it made visible: controls, zero widths, marks of direction. */
export function visible(text: string): string {
  return text.replace(MARKS, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The address, if it is one that a browser may open: no `javascript:`, no `data:`. */
export function webAddress(address: string): string | undefined {
  try {
    const url = new URL(address);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** An argument for a POSIX shell. */
export function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}

/** `3 services`, `1 service`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

const STEPS: [limit: number, divisor: number, unit: string][] = [
  [60, 1, 's'],
  [3600, 60, 'min'],
  [86_400, 3600, 'h'],
  [Infinity, 86_400, 'd'],
];

/** How long ago: `5 s`, `3 min`, `2 h`, `9 d`. */
export function ago(from: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(from)) / 1000));
  const [, divisor, unit] = STEPS.find(([limit]) => seconds < limit) ?? [0, 86_400, 'd'];
  return `${Math.floor(seconds / divisor)} ${unit}`;
}

/** `0fae123` of a commit. */
export function short(sha: string): string {
  return sha.slice(0, 7);
}

/** How long from one to the other: `3 s`, `2 min 5 s`. */
export function took(from: string, to: string): string {
  return span(Math.max(0, Math.round((Date.parse(to) - Date.parse(from)) / 1000)));
}

/** A time that the API answers in seconds, `86400s`, in words. */
export function lasting(time: string): string {
  const seconds = /^(\d+)s$/.exec(time)?.[1];
  return seconds === undefined ? time : span(Number(seconds)).replace(/ 0 (s|min|h)$/, '');
}

function span(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** `1.2 MB` */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB'];
  let at = 0;
  let value = bytes;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at] ?? 'GB'}`;
}
