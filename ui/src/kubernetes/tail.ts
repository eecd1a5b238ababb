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
  previous: boolean;
  sinceSeconds: number | undefined;
  /** Lines of each container to begin with. */
  tailLines: number;
}

/** What the page keeps; older lines go. */
export const MOST_LINES = 50_000;
/** Characters that it keeps: 50 000 long lines would be a gigabyte. */
const MOST_TEXT = 64 * 1024 * 1024;
const LONGEST_LINE = 16_384;
/** Lines of one instant that are known again. */
const MOST_SAME = 10_000;
/** A browser opens six connections to a console that speaks HTTP/1.1: these stay, the rest is for everything else. */
const FEW = 3;
const MANY = 40;
const POLL = 3000;
/** A container that writes nothing any more, or that is not there, is asked so often. */
const LONGEST_WAIT = 30_000;

/** How far a container was read. */
interface Progress {
  at: string;
  /** Texts of that instant: it is asked for again, and they come again. */
  same: Set<string>;
}

/** Logs of containers, merged as they arrive, in bounded memory. */
export class Tail {
  private kept: LogLine[] = [];
  private text = 0;
  private count = 0;
  private dropped = 0;
  private follows = false;
  private readonly running = new Map<string, AbortController>();
  private readonly progress = new Map<string, Progress>();
  private readonly troubles = new Map<string, string>();
  private readonly polled = new Set<string>();
  private readonly open = new Set<AbortSignal>();
  private timer: number | undefined;
  private readonly listeners = new Set<() => void>();
  private state = { lines: this.kept, dropped: 0, troubles: [] as string[], polled: 0 };

  constructor(private readonly options: TailOptions) {}

  readonly subscribe = (listen: () => void): (() => void) => {
    this.listeners.add(listen);
    return () => this.listeners.delete(listen);
  };

  readonly snapshot = () => this.state;

  /** Reads these, and no others any more; and goes on reading them, or not. What was read stays. */
  follow(sources: Source[], follows: boolean): void {
    const wanted = new Map(sources.map((source) => [keyOf(source), source]));
    for (const [key, stop] of this.running) {
      if (wanted.has(key) && follows === this.follows) continue;
      stop.abort();
      this.open.delete(stop.signal);
      this.running.delete(key);
      this.troubles.delete(key);
      this.polled.delete(key);
    }
    this.follows = follows;
    for (const [key, source] of wanted) {
      if (this.running.has(key)) continue;
      // What stands still has no more to read than it had.
      if (!follows && this.progress.has(key)) continue;
      const stop = new AbortController();
      this.running.set(key, stop);
      void this.read(source, stop.signal, follows && !this.options.previous);
    }
    this.tell();
  }

  end(): void {
    for (const stop of this.running.values()) stop.abort();
    this.running.clear();
    this.open.clear();
    window.clearTimeout(this.timer);
    this.timer = undefined;
  }

  private async read(source: Source, signal: AbortSignal, follows: boolean): Promise<void> {
    const { cluster, namespace, previous, sinceSeconds, tailLines } = this.options;
    const key = keyOf(source);
    let wait = POLL;
    const isOver = () => signal.aborted;
    while (!isOver()) {
      const from = this.progress.get(key);
      const streams = follows && this.open.size < limit();
      const query = {
        container: source.container,
        timestamps: 'true',
        follow: streams ? 'true' : undefined,
        previous: previous ? 'true' : undefined,
        ...(from === undefined || from.at === ''
          ? { tailLines: String(tailLines), sinceSeconds: sinceSeconds?.toString() }
          : { sinceTime: from.at }),
      };
      const path = kubePath(cluster, podsKind, { namespace, name: source.pod, subresource: 'log', query });
      if (streams) this.open.add(signal);
      if (follows && !streams) this.polled.add(key);
      else this.polled.delete(key);
      // Nothing new: it ended, or has nothing to say.
      wait = Math.min(wait * 2, LONGEST_WAIT);
      try {
        const wanted = { verb: 'get', kind: podsKind, namespace, name: source.pod };
        const response = await kubeFetch(path, { accept: '*/*', signal, wanted });
        this.troubles.delete(key);
        for await (const line of lines(response, LONGEST_LINE)) {
          if (isOver()) return;
          if (this.take(key, line, from)) wait = POLL;
        }
      } catch (error) {
        if (isOver()) return;
        this.troubles.set(key, error instanceof KubeError ? error.message : 'the connection is lost');
        // A pod of a StatefulSet comes back by this name, and rights may be given: but neither soon.
        if (error instanceof KubeError && [403, 404].includes(error.status)) wait = LONGEST_WAIT;
      } finally {
        this.open.delete(signal);
      }
      this.tell();
      if (!follows) return;
      await pause(wait, signal);
    }
  }

  /** One line as the API server sends it, unless it was there before: a server reads whole seconds again. */
  private take(key: string, line: string, from: Progress | undefined): boolean {
    const space = line.indexOf(' ');
    const progress = this.progress.get(key) ?? { at: '', same: new Set() };
    const isTimed = /^\d{4}-\d\d-\d\dT/.test(line) && space > 0;
    const at = isTimed ? instant(line.slice(0, space)) : progress.at;
    if (from !== undefined && (at < from.at || (at === from.at && from.same.has(line)))) return false;
    // Two streams of a container may be a little out of order.
    if (at > progress.at || !this.progress.has(key)) this.progress.set(key, { at, same: new Set([line]) });
    else if (isTimed && at === progress.at && progress.same.size < MOST_SAME) progress.same.add(line);
    this.add(key, at, isTimed ? line.slice(space + 1) : line);
    return true;
  }

  private add(source: string, at: string, written: string): void {
    const text = written.replace(ESCAPES, '');
    this.count += 1;
    this.text += text.length;
    this.kept.push({ id: this.count, source, at, text, level: levelOf(text) });
    // A tenth more than is kept, so that not every line moves all others.
    if (this.kept.length > MOST_LINES * 1.1 || this.text > MOST_TEXT * 1.1) {
      let first = Math.max(0, this.kept.length - MOST_LINES);
      const textOf = (lines: LogLine[]) => lines.reduce((sum, line) => sum + line.text.length, 0);
      let text = this.text - textOf(this.kept.slice(0, first));
      for (; text > MOST_TEXT; first += 1) text -= this.kept[first]?.text.length ?? 0;
      this.dropped += first;
      this.text = text;
      this.kept = this.kept.slice(first);
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

/** Nodes write in the zone that they are in: lines of several are put in order by UTC, to the nanosecond. */
function instant(written: string): string {
  const parts = /^(.{19})(\.\d+)?([+-]\d\d:\d\d)$/.exec(written);
  if (!parts) return written;
  const [, second = '', fraction = '', zone = ''] = parts;
  const at = new Date(`${second}${zone}`);
  return Number.isNaN(at.getTime()) ? written : `${at.toISOString().slice(0, 19)}${fraction}Z`;
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
