/** One thing that happened: what was shown, or another size of the terminal. */
export interface CastEvent {
  /** Seconds since the beginning. */
  at: number;
  kind: 'o' | 'i' | 'r';
  text: string;
}

/** Who was in which shell, and since when: the first line of an asciicast. */
export interface CastHead {
  title?: string | undefined;
  command?: string | undefined;
  /** When it began. */
  at?: string | undefined;
}

/** What the head of a recording says. One that cannot be read says nothing. */
export function headOf(cast: string): CastHead {
  try {
    const { title, command, timestamp } = JSON.parse(cast.slice(0, cast.indexOf('\n'))) as Record<string, unknown>;
    return {
      title: typeof title === 'string' ? title : undefined,
      command: typeof command === 'string' ? command : undefined,
      at: typeof timestamp === 'number' ? new Date(timestamp * 1000).toISOString() : undefined,
    };
  } catch {
    return {};
  }
}

export interface Cast {
  width: number;
  height: number;
  events: CastEvent[];
  seconds: number;
}

/** An asciicast of version 2. A line that is none, such as the last one of a recording that broke off, is left out. */
export function parseCast(text: string): Cast {
  const [first = '{}', ...lines] = text.split('\n');
  const head = JSON.parse(first) as { width?: number; height?: number };
  const events: CastEvent[] = [];
  for (const line of lines) {
    try {
      const [at, kind, data] = JSON.parse(line) as [number, string, string];
      if (kind === 'o' || kind === 'i' || kind === 'r') events.push({ at, kind, text: data });
    } catch {
      // An empty line, or one that was cut.
    }
  }
  return { width: head.width ?? 80, height: head.height ?? 24, events, seconds: events.at(-1)?.at ?? 0 };
}

/** How long nothing may happen while it plays. */
export const LONGEST_PAUSE = 2;

/** The same events with pauses cut. */
export function withoutPauses({ events, ...rest }: Cast): Cast {
  let before = 0;
  let at = 0;
  const cut = events.map((event) => {
    at += Math.min(LONGEST_PAUSE, Math.max(0, event.at - before));
    before = event.at;
    return { ...event, at };
  });
  return { ...rest, events: cut, seconds: at };
}
