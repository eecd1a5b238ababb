/*
 * Days and a time of day as cron's five fields, and back: what most windows are. Everything else is written as cron has it, and read by the
 * server.
 */

export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
/** As cron counts them. */
const NUMBERS: Record<string, number> = { sun: 0, mon: 1, tue: 2, wed: 3, thu: 4, fri: 5, sat: 6 };

/** Days of the week, in order from Monday, and a time of day: `22:00`. */
export interface Daily {
  days: string[];
  at: string;
}

const two = (number: number) => String(number).padStart(2, '0');

/** The number of a day that cron writes as `mon` or `1`; Sunday is 0 and 7. */
function dayOf(word: string): number | undefined {
  const number = NUMBERS[word.toLowerCase()] ?? (/^[0-7]$/.test(word) ? Number(word) : undefined);
  return number;
}

/** The days that a field of cron means; nothing where it has steps, or is none. */
function daysOf(field: string): string[] | undefined {
  const found = new Set<number>();
  for (const part of field === '*' ? ['0-6'] : field.split(',')) {
    const [from = '', to = from, ...more] = part.split('-');
    const first = dayOf(from);
    const last = dayOf(to);
    if (first === undefined || last === undefined || first > last || more.length > 0) return undefined;
    for (let day = first; day <= last; day += 1) found.add(day % 7);
  }
  return DAYS.filter((day) => found.has(NUMBERS[day] ?? 0));
}

/** Days and a time, where a schedule is no more than that. */
export function dailyOf(schedule: string): Daily | undefined {
  const [minute = '', hour = '', day, month, weekdays = '', ...more] = schedule.trim().split(/\s+/);
  const isTime = /^\d{1,2}$/.test(minute) && /^\d{1,2}$/.test(hour) && Number(minute) < 60 && Number(hour) < 24;
  const days = daysOf(weekdays);
  if (!isTime || day !== '*' || month !== '*' || more.length > 0 || days === undefined) return undefined;
  return { days, at: `${two(Number(hour))}:${two(Number(minute))}` };
}

/** Hours and minutes of `22:00`. */
function timeOf(text: string): [hour: number, minute: number] | undefined {
  const [, hour = '', minute = ''] = /^(\d{1,2}):(\d{2})$/.exec(text.trim()) ?? [];
  return hour === '' || Number(hour) > 23 || Number(minute) > 59 ? undefined : [Number(hour), Number(minute)];
}

export const timeFault = (text: string) => (timeOf(text) === undefined ? 'Must be a time of day, as 22:00.' : undefined);

/** As cron writes it: `0 22 * * mon-fri`. */
export function scheduleOf({ days, at }: Daily): string {
  const [hour, minute] = timeOf(at) ?? [0, 0];
  const chosen = DAYS.map((day) => days.includes(day));
  const runs: string[] = [];
  for (let first = 0; first < DAYS.length; first += 1) {
    if (chosen[first] !== true) continue;
    let last = first;
    while (chosen[last + 1] === true) last += 1;
    // Cron's Sunday comes before its Monday: a run that ends with it has it by itself.
    const end = last === 6 && first < 6 ? 5 : last;
    runs.push(end > first ? `${DAYS[first] ?? ''}-${DAYS[end] ?? ''}` : (DAYS[first] ?? ''));
    if (end < last) runs.push('sun');
    first = last;
  }
  return `${minute} ${hour} * * ${chosen.every(Boolean) ? '*' : runs.join(',')}`;
}

const UNITS: [unit: string, seconds: number][] = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
];

/** `4h 30m`, as it is typed. */
export function lengthOf(seconds: number): string {
  let rest = seconds;
  const parts = UNITS.flatMap(([unit, of]) => {
    const count = Math.floor(rest / of);
    rest -= count * of;
    return count === 0 ? [] : [`${count}${unit}`];
  });
  return parts.length === 0 ? '0s' : parts.join(' ');
}

/** Seconds of `4h 30m` or `90m`; nothing where it is no length. */
export function secondsOf(text: string): number | undefined {
  const found = /^(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m(?:in)?)?\s*(?:(\d+)\s*s)?$/.exec(text.trim());
  if (!found || text.trim() === '') return undefined;
  return UNITS.reduce((sum, [, of], at) => sum + Number(found[at + 1] ?? 0) * of, 0);
}

/** The shortest and the longest time that a window is open, in seconds. */
const [SHORTEST, LONGEST] = [60, 7 * 86_400];

export function lengthFault(text: string): string | undefined {
  const seconds = secondsOf(text);
  if (seconds === undefined) return 'Must be a length of time, as 30m, 4h or 1h 30m.';
  return seconds < SHORTEST || seconds > LONGEST ? 'Must be from one minute to seven days.' : undefined;
}

/** What the browser knows is no time zone; the server has the last word. */
export function zoneFault(text: string): string | undefined {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text.trim() });
    return undefined;
  } catch {
    return 'Must be the name of a time zone, as Europe/Berlin or UTC.';
  }
}

/** Cron's five fields, or a word in their place. What they say is read by the server. */
export const cronFault = (text: string): string | undefined =>
  /^@\w+$/.test(text.trim()) || text.trim().split(/\s+/).length === 5
    ? undefined
    : 'Must have five fields: minute, hour, day, month, day of week.';
