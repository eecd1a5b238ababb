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
