import { Button, Group, Modal, Progress, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconDoorExit } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';

import { explain } from '../lib/client';
import { useDialog } from '../lib/dialog';
import { counted, quoted } from '../lib/text';
import { Command } from '../parts/action';
import { Waiting } from '../parts/page';
import { Name } from '../parts/text';
import { rightQuery, WhyNot } from './act';
import { MANAGER, type Subject } from './actions';
import classes from './object.module.css';
import { listAt, textAt, type KubeList, type KubeObject } from './objects';
import { pause } from './listing';
import { kubeJson, KubeError, kubePath, type Kind } from './request';
import { podsKind } from './known';

interface Step {
  key: string;
  state: 'waits' | 'asked' | 'refused' | 'gone' | 'stays' | 'failed';
  told: string;
}

const AGAIN = 5000;

/** Cordons a node and evicts its pods, one after the other, as their disruption budgets allow. */
export function Drain({ subject: { cluster, kind, object } }: { subject: Subject }) {
  const { name } = object.metadata;
  const right = { verb: 'patch', kind, name };
  const decision = useQuery(rightQuery(cluster, right));
  const { isOpen, open, close, opener } = useDialog();
  if (decision.data?.allowed === false) return <WhyNot cluster={cluster} label="Drain" right={right} />;
  return (
    <>
      <Button ref={opener} variant="default" leftSection={<IconDoorExit size={14} />} onClick={open}>
        Drain
      </Button>
      {isOpen && <Draining cluster={cluster} node={kind} name={name} close={close} />}
    </>
  );
}

function Draining({ cluster, node, name, close }: { cluster: string; node: Kind; name: string; close: () => void }) {
  const [steps, setSteps] = useState<Step[]>();
  const [error, setError] = useState<unknown>();
  const [isOver, setOver] = useState(false);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const run = async () => {
    const { signal } = (stop.current = new AbortController());
    setError(undefined);
    setOver(false);
    try {
      await drain(cluster, node, name, signal, setSteps);
      setOver(true);
    } catch (failed) {
      if (!signal.aborted) setError(failed);
    }
  };
  const left = (steps ?? []).filter(({ state }) => !['gone', 'stays'].includes(state));
  const goes = (steps ?? []).filter(({ state }) => state !== 'stays');
  const failed = error === undefined ? undefined : explain(error);
  return (
    <Modal
      opened
      onClose={close}
      title="Drain"
      size="lg"
      centered
      closeOnClickOutside={steps === undefined}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack gap="md">
        <Text size="sm">
          Cordons <Name of={name} /> and evicts its pods. Disruption budgets are kept: where one refuses, it is asked again every
          5 seconds. Pods of DaemonSets, static pods and pods that nothing would create again stay. Data in emptyDir volumes is
          lost. Closing this stops asking; what was evicted stays evicted.
        </Text>
        <Command line={`kubectl drain ${quoted(name)} --ignore-daemonsets --delete-emptydir-data`} />
        {steps === undefined && failed === undefined && <Plan cluster={cluster} node={name} />}
        {steps && (
          <>
            <Progress
              value={goes.length === 0 ? 100 : (100 * (goes.length - left.length)) / goes.length}
              aria-label="Pods that are gone"
            />
            <Text size="sm" role="status">
              {isOver ? 'Done: ' : ''}
              {goes.length - left.length} of {goes.length} pods gone
            </Text>
            <ul className={classes['steps']} tabIndex={0} aria-label="Pods">
              {steps.map(({ key, state, told }) => (
                <li key={key} data-state={state}>
                  <Name of={key} />: {told === '' ? state : <Name of={told} />}
                </li>
              ))}
            </ul>
          </>
        )}
        {failed && (
          <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
            <Name of={failed.what} />. {failed.next}
          </Text>
        )}
        <Group justify="flex-end" gap="sm">
          <Button variant="default" onClick={close}>
            {isOver ? 'Close' : steps ? 'Stop' : 'Cancel'}
          </Button>
          {!isOver && (steps === undefined || failed !== undefined) && (
            <Button data-autofocus onClick={() => void run()}>
              {failed ? 'Try again' : 'Drain'}
            </Button>
          )}
        </Group>
      </Stack>
    </Modal>
  );
}

function podsOn(cluster: string, node: string, signal: AbortSignal): Promise<KubeList> {
  const query = { fieldSelector: `spec.nodeName=${node}` };
  return kubeJson<KubeList>(kubePath(cluster, podsKind, { query }), { signal, wanted: { verb: 'list', kind: podsKind } });
}

/** What a drain would do to the pods that are there now. */
function Plan({ cluster, node }: { cluster: string; node: string }) {
  const pods = useQuery({
    queryKey: ['kubernetes', cluster, 'drain', node],
    staleTime: 0,
    retry: false,
    queryFn: async ({ signal }) => (await podsOn(cluster, node, signal)).items,
  });
  if (pods.isError) {
    const { what, next } = explain(pods.error);
    return (
      <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
        Its pods cannot be listed: <Name of={what} />. {next}
      </Text>
    );
  }
  if (pods.data === undefined) return <Waiting lines={3} />;
  const steps = pods.data.map((pod) => ({ key: keyOf(pod), ...first(pod) }));
  const goes = steps.filter(({ state }) => state === 'waits');
  return (
    <>
      <Text size="sm" role="status">
        {counted(goes.length, 'pod')} would be evicted, {steps.length - goes.length} would stay.
      </Text>
      <ul className={classes['steps']} tabIndex={0} aria-label="Pods now">
        {steps.map(({ key, told }) => (
          <li key={key}>
            <Name of={key} />: {told === '' ? 'would be evicted' : <Name of={told} />}
          </li>
        ))}
      </ul>
    </>
  );
}

async function drain(cluster: string, node: Kind, name: string, signal: AbortSignal, tell: (steps: Step[]) => void) {
  await kubeJson(kubePath(cluster, node, { name, query: { fieldManager: MANAGER } }), {
    method: 'PATCH',
    body: { spec: { unschedulable: true } },
    contentType: 'application/merge-patch+json',
    signal,
    wanted: { verb: 'patch', kind: node, name },
  });
  const list = () => podsOn(cluster, name, signal);
  const pods = (await list()).items;
  const steps = new Map(pods.map((pod): [string, Step] => [keyOf(pod), { key: keyOf(pod), ...first(pod) }]));
  const set = (key: string, state: Step['state'], told = '') => {
    steps.set(key, { key, state, told });
    tell([...steps.values()]);
  };
  tell([...steps.values()]);
  for (;;) {
    for (const pod of pods) {
      const key = keyOf(pod);
      const state = steps.get(key)?.state;
      if (state !== 'waits' && state !== 'refused' && state !== 'failed') continue;
      try {
        await evict(cluster, pod, signal);
        set(key, 'asked', 'ends');
      } catch (error) {
        if (!(error instanceof KubeError) || signal.aborted) throw error;
        if (error.status === 404) set(key, 'gone');
        else set(key, error.status === 429 ? 'refused' : 'failed', error.message);
      }
    }
    const left = new Set((await list()).items.map(({ metadata }) => metadata.uid));
    for (const pod of pods) {
      const key = keyOf(pod);
      const state = steps.get(key)?.state;
      // Also what somebody else deleted: another pod may have its name by now, and would never let this end.
      if (state !== 'gone' && state !== 'stays' && !left.has(pod.metadata.uid)) set(key, 'gone');
    }
    if ([...steps.values()].every(({ state }) => state === 'gone' || state === 'stays')) return;
    await pause([...steps.values()].some(({ state }) => state === 'refused' || state === 'failed') ? AGAIN : 2000, signal);
    signal.throwIfAborted();
  }
}

function evict(cluster: string, { metadata: { name, namespace, uid } }: KubeObject, signal: AbortSignal) {
  const body = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace },
    deleteOptions: { preconditions: { uid } },
  };
  const wanted = { verb: 'create', kind: podsKind, namespace, name };
  return kubeJson(kubePath(cluster, podsKind, { name, namespace, subresource: 'eviction' }), {
    method: 'POST',
    body,
    signal,
    wanted,
  });
}

function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function first(pod: KubeObject): { state: Step['state']; told: string } {
  const owners = listAt(pod, 'metadata', 'ownerReferences').map((owner) => textAt(owner, 'kind'));
  if (owners.includes('DaemonSet')) return { state: 'stays', told: 'stays: a DaemonSet has it' };
  if (pod.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined)
    return { state: 'stays', told: 'stays: a static pod' };
  const isDone = ['Succeeded', 'Failed'].includes(textAt(pod, 'status', 'phase') ?? '');
  if (owners.length === 0 && !isDone)
    return { state: 'stays', told: 'stays: nothing would create it again. Delete it yourself if it may go' };
  return { state: 'waits', told: '' };
}
