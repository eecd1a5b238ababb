import type { TypedDocumentString } from '../generated/graphql';
import { paths } from '../paths';

/** What the console answered instead of data. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** `NOT_FOUND`, `FORBIDDEN`, …; `LOST` without an answer; `HTTP` for an answer that is no GraphQL. */
    readonly code: string,
    readonly requestId?: string,
    readonly retryAfter?: number,
    /** The argument at fault, where one is. */
    readonly field?: string,
    /** What is wrong with answers to the questions of a form, by their names. */
    readonly answers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

interface Extensions {
  code?: string;
  requestId?: string;
  field?: string;
  answers?: Record<string, string>;
}

interface Answer<Data> {
  data?: Data | null;
  errors?: { message: string; extensions?: Extensions }[];
  message?: string;
}

type Reachable = (isReachable: boolean) => void;
let listener: Reachable = () => undefined;

/** Hears of each request whether the console answered it. */
export function onReachable(listen: Reachable): void {
  listener = listen;
}

/** Asks the console. Who is not signed in (any more) goes to the sign-in page and comes back to this one. */
export async function ask<Data, Variables>(
  document: TypedDocumentString<Data, Variables>,
  variables: Variables,
  signal?: AbortSignal,
): Promise<Data> {
  let response: Response;
  try {
    response = await fetch('/gql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-plural-csrf': '1' },
      body: JSON.stringify({ query: document.toString(), variables }),
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    listener(false);
    throw new ApiError('the console cannot be reached', 'LOST');
  }
  listener(true);
  if (response.status === 401) {
    signIn();
    throw new ApiError('you are not signed in', 'UNAUTHENTICATED');
  }
  let answer: Answer<Data>;
  try {
    answer = (await response.json()) as Answer<Data>;
  } catch {
    throw new ApiError(`the console answered ${response.status} without a message`, 'HTTP');
  }
  const [first] = answer.errors ?? [];
  if (first) {
    const { code = 'HTTP', requestId, field, answers } = first.extensions ?? {};
    throw new ApiError(first.message, code, requestId, undefined, field, answers);
  }
  if (!response.ok || !answer.data) {
    const wait = Number(response.headers.get('retry-after'));
    throw new ApiError(answer.message ?? `the console answered ${response.status}`, 'HTTP', undefined, wait || undefined);
  }
  return answer.data;
}

/** To the sign-in page, and back to this page from there. */
export function signIn(): void {
  window.location.assign(paths.signIn(window.location.pathname + window.location.search));
}

const NEXT: Record<string, string> = {
  LOST: 'Check your network. This page tries again by itself.',
  NOT_FOUND: 'It is gone, or you may not see it. Ask who administers it for access.',
  FORBIDDEN: 'Ask who administers it for the right.',
  CONFLICT: 'It changed meanwhile: reload and try again.',
  UNAVAILABLE: 'Try again in a moment.',
  INTERNAL: 'Try again. If it stays, give the request id to who runs this console.',
  INVALID: 'Change the filter or the value and try again.',
};

/** One wording for all errors: what failed, and what to do next. */
export function explain(error: unknown): { what: string; next: string; requestId?: string } {
  if (error instanceof ApiError) {
    const wait = error.retryAfter === undefined ? '' : ` after ${error.retryAfter} seconds`;
    const next = NEXT[error.code] ?? `Try again${wait}.`;
    return { what: error.message, next, ...(error.requestId !== undefined && { requestId: error.requestId }) };
  }
  return { what: error instanceof Error ? error.message : String(error), next: 'Reload the page.' };
}

/** Whether the answer says that the thing is not there, or not for this user: what was shown of it before is not true any more. */
export function isGone(error: unknown): boolean {
  return error instanceof ApiError && ['NOT_FOUND', 'FORBIDDEN', 'UNAUTHENTICATED'].includes(error.code);
}

/** Whether there was no answer at all. */
export function isLost(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'LOST';
}

/** Whether another try can help. */
export function isPassing(error: unknown): boolean {
  return error instanceof ApiError && ['LOST', 'UNAVAILABLE'].includes(error.code);
}
