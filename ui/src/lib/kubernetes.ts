import { ApiError, signIn } from './client';

/** What every object of Kubernetes has. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata?: { name?: string; namespace?: string; managedFields?: unknown; uid?: string; creationTimestamp?: string };
  [field: string]: unknown;
}

export interface KubeRef {
  group: string;
  version: string;
  kind: string;
  namespace: string | undefined;
  name: string;
}

async function get(cluster: string, path: string, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`/k8s/${encodeURIComponent(cluster)}${path}`, {
      headers: { 'x-plural-csrf': '1', accept: 'application/json' },
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError('the cluster cannot be reached through the console', 'LOST');
  }
  if (response.status === 401) {
    signIn();
    throw new ApiError('you are not signed in', 'UNAUTHENTICATED');
  }
  if (response.ok) return response;
  const text = await response.text();
  let message = text.slice(0, 300);
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? message;
  } catch {
    // It is what a proxy in between said: shown as it is.
  }
  const codes: Record<number, string> = { 403: 'FORBIDDEN', 404: 'NOT_FOUND', 502: 'UNAVAILABLE', 503: 'UNAVAILABLE' };
  throw new ApiError(message === '' ? `the cluster answered ${response.status}` : message, codes[response.status] ?? 'HTTP');
}

const part = encodeURIComponent;

/** Where the API server serves a kind: its plural name is asked for, not guessed. */
async function place(cluster: string, { group, version, kind, namespace, name }: KubeRef, signal: AbortSignal): Promise<string> {
  const root = group === '' ? `/api/${part(version)}` : `/apis/${part(group)}/${part(version)}`;
  const list = (await (await get(cluster, root, signal)).json()) as {
    resources?: { name: string; kind: string; namespaced: boolean }[];
  };
  const resource = list.resources?.find((one) => one.kind === kind && !one.name.includes('/'));
  if (!resource)
    throw new ApiError(`the cluster serves no ${kind} of ${group === '' ? 'v1' : `${group}/${version}`}`, 'NOT_FOUND');
  const where = resource.namespaced ? `/namespaces/${part(namespace ?? 'default')}` : '';
  return `${root}${where}/${part(resource.name)}/${part(name)}`;
}

/** The object as it is now, asked for with the rights of who looks. Who wrote which field is left out: it hides the rest. */
export async function liveObject(cluster: string, ref: KubeRef, signal: AbortSignal): Promise<KubeObject> {
  const object = (await (await get(cluster, await place(cluster, ref, signal), signal)).json()) as KubeObject;
  if (object.metadata) delete object.metadata.managedFields;
  if (object.kind === 'Secret') {
    // kubectl keeps a copy of the values here.
    const notes = (object.metadata as { annotations?: Record<string, string> } | undefined)?.annotations;
    if (notes) delete notes['kubectl.kubernetes.io/last-applied-configuration'];
    for (const field of ['data', 'stringData']) {
      const values = object[field];
      if (typeof values === 'object' && values !== null)
        object[field] = Object.fromEntries(Object.keys(values).map((key) => [key, '(hidden)']));
    }
  }
  return object;
}

export interface KubeEvent {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  metadata: { name: string; creationTimestamp?: string };
}

/** What the cluster tells about one object, newest first. */
export async function eventsOf(cluster: string, ref: KubeRef, signal: AbortSignal): Promise<KubeEvent[]> {
  const fields = [`involvedObject.kind=${ref.kind}`, `involvedObject.name=${ref.name}`].join(',');
  const path = `/api/v1/namespaces/${part(ref.namespace ?? 'default')}/events?limit=200&fieldSelector=${part(fields)}`;
  const list = (await (await get(cluster, path, signal)).json()) as { items?: KubeEvent[] };
  return (list.items ?? []).sort((a, b) => eventTime(b).localeCompare(eventTime(a)));
}

export function eventTime(event: KubeEvent): string {
  return event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? '';
}

/** The last lines that a container of a pod wrote. */
export async function logsOf(cluster: string, ref: KubeRef, container: string, signal: AbortSignal): Promise<string> {
  const query = new URLSearchParams({ tailLines: '500', container, timestamps: 'true', limitBytes: '1000000' }).toString();
  const path = `/api/v1/namespaces/${part(ref.namespace ?? 'default')}/pods/${part(ref.name)}/log?${query}`;
  return await (await get(cluster, path, signal)).text();
}
