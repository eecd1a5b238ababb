import { pause } from './listing';
import { podsKind } from './known';
import { kubeFetch, KubeError, kubePath, lines } from './request';

export interface LogLine {
  id: number;
  source: string;
  /** As the kubelet noted it, RFC 3339. */
  at: string;
  text: string;
  level: 'error' | 'warn' | 'debug' | undefined;
}

export interface Source {
  pod: string;
  container: string;
}

export interface TailOptions {
  cluster: string;
  namespace: string;
  follows: boolean;
  previous: boolean;
  sinceSeconds: number | undefined;
  /** Lines of each container to begin with. */
  tailLines: number;
}

/** What the page keeps; older lines go. */
export const MOST_LINES = 50_000;
const LONGEST_LINE = 16_384;
/** A browser opens six connections to a console that speaks HTTP/1.1: these stay, the rest is for everything else. */
const FEW = 3;
const MANY = 40;
const POLL = 3000;

/** Logs of containers, merged as they arrive, in bounded memory. */
export class Tail {
  private kept: LogLine[] = [];
  private count = 0;
  private dropped = 0;
  private readonly running = new Map<string, AbortController>();
  private readonly troubles = new Map<string, string>();
  private readonly polled = new Set<string>();
  private open = 0;
  private timer: number | undefined;
  private readonly listeners = new Set<() => void>();
  private state = { lines: this.kept, dropped: 0, troubles: [] as string[], polled: 0, sources: 0 };

  constructor(private readonly options: TailOptions) {}

  readonly subscribe = (listen: () => void): (() => void) => {
    this.listeners.add(listen);
    return () => this.listeners.delete(listen);
  };

  readonly snapshot = () => this.state;

  /** Reads these, and no others any more. */
  follow(sources: Source[]): void {
    const wanted = new Map(sources.map((source) => [keyOf(source), source]));
    for (const [key, stop] of this.running) {
      if (wanted.has(key)) continue;
      stop.abort();
      this.running.delete(key);
      this.troubles.delete(key);
    }
    for (const [key, source] of wanted) {
      if (this.running.has(key)) continue;
      const stop = new AbortController();
      this.running.set(key, stop);
      void this.read(source, stop.signal);
    }
    this.tell();
  }

  end(): void {
    for (const stop of this.running.values()) stop.abort();
    this.running.clear();
    window.clearTimeout(this.timer);
    this.timer = undefined;
  }

  private async read(source: Source, signal: AbortSignal): Promise<void> {
    const { cluster, namespace, follows, previous, sinceSeconds, tailLines } = this.options;
    const key = keyOf(source);
    let last = '';
    /** Texts of the last instant: it is asked for again, and they come again. */
    let same = new Set<string>();
    let wait = 1000;
    const isOver = () => signal.aborted;
    while (!isOver()) {
      const streams = follows && !previous && this.open < limit();
      const query = {
        container: source.container,
        timestamps: 'true',
        follow: streams ? 'true' : undefined,
        previous: previous ? 'true' : undefined,
        ...(last === '' ? { tailLines: String(tailLines), sinceSeconds: sinceSeconds?.toString() } : { sinceTime: last }),
      };
      const path = kubePath(cluster, podsKind, { namespace, name: source.pod, subresource: 'log', query });
      if (streams) this.open += 1;
      if (follows && !streams) this.polled.add(key);
      else this.polled.delete(key);
      try {
        const wanted = { verb: 'get', kind: podsKind, namespace, name: source.pod };
        const response = await kubeFetch(path, { accept: '*/*', signal, wanted });
        this.troubles.delete(key);
        wait = 1000;
        for await (const line of lines(response, LONGEST_LINE)) {
          if (isOver()) return;
          const space = line.indexOf(' ');
          const at = line.slice(0, space);
          if (at < last || (at === last && same.has(line))) continue;
          if (at !== last) same = new Set();
          last = at;
          same.add(line);
          this.add(key, at, line.slice(space + 1));
        }
      } catch (error) {
        if (isOver()) return;
        this.troubles.set(key, error instanceof KubeError ? error.message : 'the connection is lost');
        if (error instanceof KubeError && [403, 404].includes(error.status)) {
          this.tell();
          return;
        }
        wait = Math.min(wait * 2, 30_000);
      } finally {
        if (streams) this.open -= 1;
      }
      this.tell();
      if (!follows || previous) return;
      await pause(Math.max(POLL, wait), signal);
    }
  }

  private add(source: string, at: string, written: string): void {
    const text = written.replace(ESCAPES, '');
    this.count += 1;
    this.kept.push({ id: this.count, source, at, text, level: levelOf(text) });
    // A tenth more than is kept, so that not every line moves all others.
    if (this.kept.length > MOST_LINES * 1.1) {
      this.dropped += this.kept.length - MOST_LINES;
      this.kept = this.kept.slice(-MOST_LINES);
    }
    this.tell();
  }

  private tell(): void {
    this.timer ??= window.setTimeout(() => {
      this.timer = undefined;
      const troubles = [...this.troubles].map(([key, message]) => `${key}: ${message}`);
      this.state = {
        lines: [...this.kept].sort((a, b) => (a.at === b.at ? a.id - b.id : a.at < b.at ? -1 : 1)),
        dropped: this.dropped,
        troubles,
        polled: this.polled.size,
        sources: this.running.size,
      };
      for (const listen of this.listeners) listen();
    }, 200);
  }
}

// eslint-disable-next-line no-control-regex -- escape sequences of terminals are what it looks for
const ESCAPES = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

function keyOf({ pod, container }: Source): string {
  return `${pod}/${container}`;
}

/** How many connections may stay open. */
function limit(): number {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return page !== undefined && /^h[23]/.test(page.nextHopProtocol) ? MANY : FEW;
}

function levelOf(text: string): LogLine['level'] {
  const start = text.slice(0, 300);
  if (/\b(ERROR|FATAL|PANIC|CRITICAL|error|fatal|panic)\b|^E\d{4} |"level":\s*"(error|fatal)"/.test(start)) return 'error';
  if (/\b(WARN|WARNING|warn|warning)\b|^W\d{4} /.test(start)) return 'warn';
  return /\b(DEBUG|TRACE|debug|trace)\b/.test(start) ? 'debug' : undefined;
}
