import { LogText, type LogLine } from './ansi';
import { readLog } from './run-queries';

/** Bytes that are asked for at once. */
const PIECE = 256 << 10;
/** Milliseconds until a step that prints is asked again: its lines are seen while they are news. */
const PAUSE = 200;
/** The same once so many reads in a row had nothing. */
const SILENT = 50;
const LONG_PAUSE = 1000;
/** The same after a failure, doubled with each further one. */
const AFTER_FAULT = 2000;
const MOST_AFTER_FAULT = 30_000;

export interface Tailed {
  lines: readonly LogLine[];
  bytes: number;
  /** All of it is here. */
  isWhole: boolean;
  error: unknown;
}

/**
 * Reads the log of a step from its beginning, piece by piece, each from the offset at which the one before ended: no line is lost
 * or twice, whatever fails in between. It goes on until the step is over and all of it is read; a page that nobody sees reads
 * nothing.
 */
export class Tail {
  private readonly text = new LogText();
  private readonly listeners = new Set<() => void>();
  private end = new AbortController();
  private isReading = false;
  private at = 0;
  private faults = 0;
  private silent = 0;
  private timer: number | undefined;
  private shown: Tailed = { lines: [], bytes: 0, isWhole: false, error: undefined };

  constructor(
    private readonly run: string,
    private readonly step: number,
  ) {}

  start(): void {
    this.end = new AbortController();
    document.addEventListener('visibilitychange', this.look);
    this.soon(0);
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.look);
    window.clearTimeout(this.timer);
    this.timer = undefined;
    this.isReading = false;
    this.end.abort();
  }

  readonly subscribe = (listen: () => void): (() => void) => {
    this.listeners.add(listen);
    return () => this.listeners.delete(listen);
  };

  readonly snapshot = (): Tailed => this.shown;

  private readonly look = (): void => {
    if (document.visibilityState === 'visible' && this.timer === undefined && !this.isReading && !this.shown.isWhole)
      this.soon(0);
  };

  private soon(milliseconds: number): void {
    this.timer = window.setTimeout(() => {
      this.timer = undefined;
      // Whoever comes back has it read on.
      if (document.visibilityState === 'visible') void this.read();
    }, milliseconds);
  }

  /** One read at a time: two would have the same piece twice. */
  private async read(): Promise<void> {
    const { signal } = this.end;
    this.isReading = true;
    try {
      const piece = await readLog(this.run, this.step, this.at, PIECE, signal);
      if (signal.aborted) return;
      this.faults = 0;
      const grew = piece !== undefined && piece.next > this.at;
      if (grew) {
        this.text.push(piece.text);
        this.at = piece.next;
      }
      // The end of a step is told with a log that may have grown meanwhile: it is whole when a further piece is empty.
      const isWhole = piece?.isOver === true && !grew;
      this.tell({ lines: this.text.all(), bytes: this.at, isWhole, error: undefined });
      this.silent = grew ? 0 : this.silent + 1;
      if (!isWhole) this.soon(grew ? 0 : this.silent < SILENT ? PAUSE : LONG_PAUSE);
    } catch (error) {
      if (signal.aborted) return;
      this.tell({ ...this.shown, error });
      this.soon(Math.min(MOST_AFTER_FAULT, AFTER_FAULT * 2 ** this.faults));
      this.faults += 1;
    } finally {
      // One that was given up says nothing of the one after it.
      if (signal === this.end.signal) this.isReading = false;
    }
  }

  private tell(next: Tailed): void {
    this.shown = next;
    for (const listen of this.listeners) listen();
  }
}
