import { ApiError, signIn } from '../lib/client';
import { parseExactly, textExactly } from './exact';

/** A thing that a cluster's API server serves, as its discovery tells. */
export interface Kind {
  /** As kubectl takes it: `pods`, `deployments.apps`. */
  id: string;
  group: string;
  version: string;
  kind: string;
  resource: string;
  isNamespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: { name: string; verbs: string[] }[];
}

/** Which objects, or which one. */
export interface Target {
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
  query?: Record<string, string | undefined>;
}

/** What was asked, for the words of a refusal. */
export interface Wanted {
  verb: string;
  kind?: Kind;
  namespace?: string | undefined;
  name?: string | undefined;
}

/** What an API server, or the gateway before it, answered instead of an object. */
export class KubeError extends ApiError {
  constructor(
    readonly status: number,
    message: string,
    readonly reason: string,
    readonly wanted?: Wanted,
    requestId?: string,
    retryAfter?: number,
  ) {
    super(message, CODES[status] ?? (status >= 500 ? 'UNAVAILABLE' : 'INVALID'), requestId, retryAfter);
  }
}

const CODES: Record<number, string> = {
  0: 'LOST',
  401: 'UNAUTHENTICATED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  410: 'GONE',
  429: 'UNAVAILABLE',
  500: 'INTERNAL',
};

/** One part of a path. A browser takes `.` and `..` for steps however they are written, and no object has such a name. */
function part(text: string): string {
  if (text === '' || text === '.' || text === '..') throw new KubeError(400, `“${text}” is no name`, 'BadRequest');
  return encodeURIComponent(text);
}

/** Where a cluster's API server is asked for something. */
export function kubePath(cluster: string, kind: Kind, { namespace, name, subresource, query = {} }: Target = {}): string {
  const parts = kind.group === '' ? ['api', part(kind.version)] : ['apis', part(kind.group), part(kind.version)];
  if (kind.isNamespaced && namespace !== undefined) parts.push('namespaces', part(namespace));
  parts.push(part(kind.resource));
  if (name !== undefined) parts.push(part(name));
  if (subresource !== undefined) parts.push(part(subresource));
  return clusterPath(cluster, parts.join('/'), query);
}

/** The same for what is no kind: discovery, versions. */
export function clusterPath(cluster: string, path: string, query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const asked = new URLSearchParams(given).toString();
  return `/k8s/${part(cluster)}/${path}${asked === '' ? '' : `?${asked}`}`;
}

export interface Ask {
  method?: string;
  accept?: string;
  body?: unknown;
  contentType?: string;
  signal?: AbortSignal | undefined;
  wanted?: Wanted;
}

const WAIT = 60_000;

/** Asks a cluster's API server as who is signed in. Anything but success is a [`KubeError`]. */
export async function kubeFetch(path: string, { method = 'GET', accept, body, contentType, signal, wanted }: Ask = {}) {
  const sent = body === undefined ? undefined : textExactly(body);
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: {
        accept: accept ?? 'application/json',
        'x-plural-csrf': '1',
        ...(sent !== undefined && { 'content-type': contentType ?? 'application/json' }),
      },
      ...(sent !== undefined && { body: sent }),
      // The console passes none on: a cluster that sends one would have our request made again elsewhere.
      redirect: 'error',
      // Nor does a cluster decide how long this browser keeps what somebody was allowed to see.
      cache: 'no-store',
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new KubeError(0, 'the console cannot be reached', 'Lost', wanted);
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => '');
  let told: { message?: unknown; reason?: unknown } = {};
  try {
    told = (JSON.parse(text) ?? {}) as typeof told;
  } catch {
    told = { message: text.slice(0, 2000) };
  }
  const message =
    typeof told.message === 'string' && told.message !== '' ? told.message : `the cluster answered ${response.status}`;
  if (response.status === 401) await orSignIn();
  const id = response.headers.get('x-request-id') ?? undefined;
  const wait = Number(response.headers.get('retry-after')) || undefined;
  throw new KubeError(response.status, message, typeof told.reason === 'string' ? told.reason : '', wanted, id, wait);
}

/** The session may have ended; or it goes on and it is the cluster that does not know us. Only the console can tell. */
async function orSignIn(): Promise<void> {
  try {
    const response = await fetch('/gql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-plural-csrf': '1' },
      body: JSON.stringify({ query: '{ me { id } }' }),
    });
    if (response.status === 401) signIn();
  } catch {
    // Whoever asked says that the console cannot be reached.
  }
}

/** The same, for one JSON document. It may take a minute. */
export async function kubeJson<Data>(path: string, ask: Ask = {}): Promise<Data> {
  const late = AbortSignal.timeout(WAIT);
  const signal = ask.signal ? AbortSignal.any([ask.signal, late]) : late;
  try {
    const response = await kubeFetch(path, { ...ask, signal });
    return parseExactly(await response.text()) as Data;
  } catch (error) {
    if (late.aborted) throw new KubeError(504, 'the cluster did not answer in a minute', 'Timeout', ask.wanted);
    throw error instanceof SyntaxError ? new KubeError(502, 'the cluster’s answer is no JSON', '', ask.wanted) : error;
  }
}

/** Lines of an answer that does not end, one by one. */
export async function* lines(response: Response, longest: number): AsyncGenerator<string> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let begun: string[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const pieces = (done ? decoder.decode() : decoder.decode(value, { stream: true })).split('\n');
      for (const [at, piece] of pieces.entries()) {
        if (at > 0) {
          yield begun.join('');
          begun = [];
          length = 0;
        }
        // The rest of a line that is too long is not kept.
        const kept = piece.slice(0, Math.max(0, longest - length));
        if (kept !== '') begun.push(kept);
        length += kept.length;
      }
      if (done) break;
    }
    if (length > 0) yield begun.join('');
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
