import { useMemo, useState, useSyncExternalStore } from 'react';

import { parseExactly, textExactly } from './exact';
import { at, textAt, type KubeList, type KubeObject, type Meta } from './objects';
import { kubeFetch, kubeJson, KubeError, kubePath, lines, type Kind } from './request';

export interface Column {
  name: string;
  description: string;
  isWide: boolean;
}

export interface Row {
  uid: string;
  name: string;
  namespace: string;
  created: string;
  cells: (string | number)[];
  /** What a search looks in. */
  text: string;
}

export interface Listed {
  columns: Column[];
  rows: Row[];
  /** `reading` pages of it, `watching` what changes, `polling` where nobody may watch, or `lost` and trying again. */
  state: 'reading' | 'watching' | 'polling' | 'lost';
  /** What there still is to read, as the server guesses. */
  remaining: number;
  error?: unknown;
  heardAt: number;
}

export interface Scope {
  cluster: string;
  kind: Kind;
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

interface TableAnswer {
  kind?: string;
  metadata?: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  columnDefinitions?: { name?: string; description?: string; priority?: number }[];
  rows?: { cells?: unknown[]; object?: { metadata?: Meta } }[];
}

const ACCEPT = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
const PAGE = 500;
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;
const LONGEST_LINE = 32 * 1024 * 1024;
/** Columns that are kept, and characters of a cell: a definition may print whatever it likes, 30 000 times. */
const MOST_COLUMNS = 100;
const LONGEST_CELL = 4096;

/** How long one watch lasts: a connection that died without a word is noticed soon after. */
const WATCH = 240;
/** A watch that ends sooner was no watch: asking at once again would never end. */
const SHORT = 5000;
/** A list that the server lets nobody watch is read again so often. */
const POLL = 30_000;
/** A tab that nobody sees gives its connection back after so long: a browser opens six to a console without HTTP/2, for all tabs together. */
const UNSEEN = 20_000;

/** A list that stays as it is in the cluster: read in pages, then watched. */
export class Listing {
  private listed: Listed = { columns: [], rows: [], state: 'reading', remaining: 0, heardAt: Date.now() };
  private rows = new Map<string, Row>();
  /** Whether `rows` has something that listeners did not hear of. */
  private isChanged = false;
  private readonly listeners = new Set<() => void>();
  private stop = new AbortController();
  private timer: number | undefined;

  constructor(private readonly scope: Scope) {}

  /** It is read and watched while somebody listens. */
  readonly subscribe = (listen: () => void): (() => void) => {
    this.listeners.add(listen);
    if (this.listeners.size === 1) {
      this.stop = new AbortController();
      void this.run(this.stop.signal);
    }
    return () => {
      this.listeners.delete(listen);
      if (this.listeners.size > 0) return;
      this.stop.abort();
      window.clearTimeout(this.timer);
      this.timer = undefined;
    };
  };

  readonly snapshot = (): Listed => this.listed;

  private path(query: Record<string, string | undefined>): string {
    const { cluster, kind, namespace, labelSelector, fieldSelector } = this.scope;
    return kubePath(cluster, kind, { namespace, query: { ...query, labelSelector, fieldSelector } });
  }

  private ask(verb: string, signal: AbortSignal) {
    const { kind, namespace } = this.scope;
    return { accept: ACCEPT, signal, wanted: { verb, kind, namespace } };
  }

  private async run(signal: AbortSignal): Promise<void> {
    let wait = FIRST_WAIT;
    let from: string | undefined;
    const isOver = () => signal.aborted;
    const heard = () => {
      wait = FIRST_WAIT;
    };
    /** Longer each time until something is heard. Not all pages that lost a server come back to it at once. */
    const backOff = async () => {
      await pause(wait * (0.5 + Math.random()), signal);
      wait = Math.min(wait * 2, LONGEST_WAIT);
    };
    while (!isOver()) {
      try {
        await inSight(signal);
        if (from === undefined) from = await this.read(signal);
        if (!this.scope.kind.verbs.includes('watch')) {
          from = undefined;
          heard();
          await pause(POLL, signal);
          continue;
        }
        const began = Date.now();
        from = await this.watch(from, heard, signal);
        // An end without an error is the server's habit every few minutes.
        if (Date.now() - began > SHORT) await pause(200, signal);
        else await backOff();
      } catch (error) {
        if (isOver()) return;
        const status = error instanceof KubeError ? error.status : 0;
        if (status === 410) {
          // What was read is too old to go on from: the rows stay in sight until they are read again.
          from = undefined;
          this.tell({ state: 'reading' });
          await backOff();
          continue;
        }
        if ([401, 403, 404].includes(status)) {
          // What one may not see any more, or what is not served any more, is not shown as if it were.
          this.rows.clear();
          this.isChanged = true;
        }
        this.tell({ state: 'lost', error }, true);
        // The question itself is wrong: it stays so.
        if ([400, 405].includes(status)) return;
        if ([401, 403, 404].includes(status)) {
          from = undefined;
          await pause(LONGEST_WAIT, signal);
        } else {
          // A server that says when to come again is not asked before.
          const told = error instanceof KubeError ? (error.retryAfter ?? 0) * 1000 : 0;
          if (told > 0) await pause(Math.min(told, LONGEST_WAIT), signal);
          await backOff();
        }
      }
    }
  }

  /** Everything, a page at a time. Returns from where to watch. */
  private async read(signal: AbortSignal): Promise<string> {
    const seen = new Map<string, Row>();
    let next: string | undefined;
    let version = '';
    do {
      const page = await kubeJson<TableAnswer>(this.path({ limit: String(PAGE), continue: next }), this.ask('list', signal));
      // Whoever listens now has begun a reading of its own.
      signal.throwIfAborted();
      for (const row of this.rowsOf(page)) {
        seen.set(row.uid, row);
        this.rows.set(row.uid, row);
      }
      this.isChanged = true;
      version = page.metadata?.resourceVersion ?? '';
      next = page.metadata?.continue === '' ? undefined : page.metadata?.continue;
      this.tell({ state: 'reading', error: undefined, remaining: page.metadata?.remainingItemCount ?? 0 });
    } while (next !== undefined);
    this.rows = seen;
    const state = this.scope.kind.verbs.includes('watch') ? 'watching' : 'polling';
    this.tell({ state, error: undefined, remaining: 0 }, true);
    return version;
  }

  /** What changes from there on, until the connection ends. Returns from where to go on. */
  private async watch(from: string, heard: () => void, stop: AbortSignal): Promise<string> {
    let version = from;
    const query = { watch: 'true', allowWatchBookmarks: 'true', resourceVersion: from, timeoutSeconds: String(WATCH) };
    const unseen = outOfSight(UNSEEN);
    const late = AbortSignal.timeout((WATCH + 30) * 1000);
    const asked = this.ask('watch', AbortSignal.any([stop, unseen.signal, late]));
    try {
      const response = await kubeFetch(this.path(query), asked);
      stop.throwIfAborted();
      this.tell({ state: 'watching', error: undefined });
      for await (const line of lines(response, LONGEST_LINE)) {
        stop.throwIfAborted();
        if (line === '') continue;
        const event = parseExactly(line) as { type?: string; object?: TableAnswer };
        heard();
        if (event.type === 'ERROR') {
          const code = Number(at(event.object, 'code')) || 500;
          throw new KubeError(code, textAt(event.object, 'message') ?? 'the watch failed', '', asked.wanted);
        }
        const object = event.object ?? {};
        const columns = this.listed.columns;
        const rows = this.rowsOf(object);
        if (this.listed.columns !== columns) {
          // A definition came to print other columns: until all rows are read again, those that are here are of the old ones.
          this.listed = { ...this.listed, columns };
          throw new KubeError(410, 'the columns of the list changed', 'Expired', asked.wanted);
        }
        const told = object.rows?.at(-1)?.object?.metadata?.resourceVersion ?? object.metadata?.resourceVersion ?? '';
        if (told !== '') version = told;
        if (event.type !== 'BOOKMARK') {
          for (const row of rows) {
            if (event.type === 'DELETED') this.rows.delete(row.uid);
            else this.rows.set(row.uid, row);
          }
          this.isChanged = true;
        }
        this.tell({});
      }
    } catch (error) {
      if (stop.aborted) throw error;
      // Nobody looks: it goes on from here when somebody does.
      if (unseen.signal.aborted) return version;
      if (error instanceof KubeError) throw error;
      // The connection broke off in the middle.
      throw new KubeError(0, 'the connection to the cluster is lost', 'Lost', asked.wanted);
    } finally {
      unseen.end();
    }
    return version;
  }

  private rowsOf(answer: TableAnswer): Row[] {
    if (answer.kind !== 'Table') return this.plain(answer as unknown as KubeList);
    // A watch tells them with its first event only.
    if (answer.columnDefinitions && answer.columnDefinitions.length > 0) {
      const columns = answer.columnDefinitions.slice(0, MOST_COLUMNS).map(({ name = '', description = '', priority = 0 }) => ({
        name,
        description,
        isWide: priority > 0,
      }));
      if (!sameNames(columns, this.listed.columns)) this.listed = { ...this.listed, columns };
    }
    return (answer.rows ?? []).flatMap(({ cells = [], object }) => {
      const meta = object?.metadata;
      return meta ? rowOf(meta, cells.slice(0, MOST_COLUMNS).map(cellOf)) : [];
    });
  }

  /** Of a server that makes no tables. */
  private plain(answer: KubeList | KubeObject): Row[] {
    if (this.listed.columns.length === 0) {
      const columns = ['Name', 'Age'].map((name) => ({ name, description: '', isWide: false }));
      this.listed = { ...this.listed, columns };
    }
    const items = 'items' in answer && Array.isArray(answer.items) ? (answer.items as KubeObject[]) : [answer as KubeObject];
    return items.flatMap(({ metadata }) =>
      typeof metadata.name === 'string' ? rowOf(metadata, [metadata.name, metadata.creationTimestamp ?? '']) : [],
    );
  }

  /** Listeners hear of many changes at once: a page that draws 30 000 rows does not sort them at each. */
  private tell(change: Partial<Listed>, isAtOnce = false): void {
    // A try that failed heard nothing.
    const heardAt = change.state === 'lost' ? this.listed.heardAt : Date.now();
    this.listed = { ...this.listed, ...change, heardAt };
    if (isAtOnce || this.listed.rows.length === 0) this.emit();
    else this.timer ??= window.setTimeout(() => this.emit(), this.rows.size > 5000 ? 500 : 100);
  }

  private emit(): void {
    window.clearTimeout(this.timer);
    this.timer = undefined;
    if (this.stop.signal.aborted) return;
    // The same rows stay the same list: nothing sorts and draws it again.
    if (this.isChanged) this.listed = { ...this.listed, rows: [...this.rows.values()] };
    this.isChanged = false;
    for (const listen of this.listeners) listen();
  }
}

/** The list of a scope, while the page shows it. */
export function useListing(scope: Scope): Listed {
  const { cluster, kind, namespace, labelSelector, fieldSelector } = scope;
  // The same kind is another object when a definition before it came or went: no reason to read 30 000 rows again.
  const [of, setOf] = useState(kind);
  if (of !== kind && JSON.stringify(of) !== JSON.stringify(kind)) setOf(kind);
  const listing = useMemo(
    () => new Listing({ cluster, kind: of, namespace, labelSelector, fieldSelector }),
    [cluster, of, namespace, labelSelector, fieldSelector],
  );
  return useSyncExternalStore(listing.subscribe, listing.snapshot);
}

function rowOf(meta: Meta, cells: (string | number)[]): Row {
  const { name, namespace = '', uid, creationTimestamp = '' } = meta;
  const text = `${namespace}/${name} ${cells.join(' ')}`.toLowerCase();
  return { uid: uid ?? `${namespace}/${name}`, name, namespace, created: creationTimestamp, cells, text };
}

function cellOf(cell: unknown): string | number {
  if (typeof cell === 'number') return cell;
  if (cell === null || cell === undefined) return '';
  const text = typeof cell === 'string' ? cell : textExactly(cell);
  return text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text;
}

function sameNames(a: Column[], b: Column[]): boolean {
  return a.length === b.length && a.every(({ name }, index) => name === b[index]?.name);
}

export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      window.clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = window.setTimeout(done, milliseconds);
    signal.addEventListener('abort', done);
  });
}

/** Waits until somebody can see the page. */
function inSight(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === 'visible') return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      if (document.visibilityState !== 'visible' && !signal.aborted) return;
      document.removeEventListener('visibilitychange', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    document.addEventListener('visibilitychange', done);
    signal.addEventListener('abort', done);
  });
}

/** A signal for when nobody could see the page for so long. */
function outOfSight(milliseconds: number): { signal: AbortSignal; end: () => void } {
  const unseen = new AbortController();
  let timer: number | undefined;
  const look = () => {
    window.clearTimeout(timer);
    if (document.visibilityState !== 'visible') timer = window.setTimeout(() => unseen.abort(), milliseconds);
  };
  look();
  document.addEventListener('visibilitychange', look);
  return {
    signal: unseen.signal,
    end: () => {
      window.clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    },
  };
}
