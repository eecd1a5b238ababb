import { NumberInput, Select, Stack, Text } from '@mantine/core';
import { IconArrowsVertical, IconPlayerPause, IconPlayerPlay, IconRefresh, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';

import { counted, quoted } from '../lib/text';
import { Name } from '../parts/text';
import { Act } from './act';
import { Drain } from './drain';
import { Goes } from './goes';
import { at, numberAt, type KubeObject } from './objects';
import { kubeJson, kubePath, type Kind } from './request';

export interface Subject {
  cluster: string;
  kind: Kind;
  object: KubeObject;
}

/** Who wrote what, for `managedFields`. */
export const MANAGER = 'plural-web-console';

/** Kinds whose deletion takes much more with it, or cannot be made good. */
const DANGEROUS = new Set([
  'namespaces',
  'nodes',
  'persistentvolumes',
  'persistentvolumeclaims',
  'statefulsets.apps',
  'customresourcedefinitions.apiextensions.k8s.io',
  'apiservices.apiregistration.k8s.io',
  'clusterroles.rbac.authorization.k8s.io',
  'clusterrolebindings.rbac.authorization.k8s.io',
  'validatingwebhookconfigurations.admissionregistration.k8s.io',
  'mutatingwebhookconfigurations.admissionregistration.k8s.io',
]);

const RESTARTED = new Set(['deployments.apps', 'statefulsets.apps', 'daemonsets.apps']);

/** What may be done to an object beside changing its YAML. */
export function Actions({ subject }: { subject: Subject }) {
  const { kind } = subject;
  const scales = kind.subresources.some(({ name, verbs }) => name === 'scale' && verbs.includes('patch'));
  return (
    <>
      {kind.id === 'nodes' && <Cordon subject={subject} />}
      {kind.id === 'nodes' && <Drain subject={subject} />}
      {scales && <Scale subject={subject} />}
      {RESTARTED.has(kind.id) && <Restart subject={subject} />}
      {kind.verbs.includes('delete') && <Delete subject={subject} />}
    </>
  );
}

function told({ kind, object }: Subject): { namespace: string | undefined; name: string; flags: string; what: string } {
  const { name, namespace } = object.metadata;
  const flags = namespace === undefined ? '' : ` -n ${quoted(namespace)}`;
  return { name, namespace, flags, what: quoted(`${kind.id}/${name}`) };
}

function patch(subject: Subject, body: unknown, contentType: string, subresource?: string) {
  const { cluster, kind } = subject;
  const { name, namespace } = told(subject);
  const path = kubePath(cluster, kind, { name, namespace, subresource, query: { fieldManager: MANAGER } });
  return kubeJson(path, { method: 'PATCH', body, contentType, wanted: { verb: 'patch', kind, namespace, name } });
}

function Scale({ subject }: { subject: Subject }) {
  const { cluster, kind, object } = subject;
  const { name, namespace, flags, what } = told(subject);
  const now = numberAt(object, 'spec', 'replicas') ?? 1;
  const [wanted, setWanted] = useState<number>();
  const replicas = wanted ?? now;
  return (
    <Act
      cluster={cluster}
      label="Scale"
      icon={IconArrowsVertical}
      right={{ verb: 'patch', kind, namespace, name, subresource: 'scale' }}
      explains={
        <Stack gap="sm">
          <Text size="sm">
            Sets how many replicas of <Name of={name} /> should run. What manages it, such as a service or an autoscaler, may set
            it back.
          </Text>
          {replicas < now && (
            <Text size="sm" fw={600} role="status">
              {replicas === 0 ? 'All its pods end' : `${counted(now - replicas, 'pod')} of ${now} end`}: what they did stops
              there.
            </Text>
          )}
          <NumberInput
            label={`Replicas (now ${now})`}
            size="xs"
            min={0}
            max={100_000}
            allowDecimal={false}
            value={replicas}
            onChange={(value) => setWanted(typeof value === 'number' ? value : undefined)}
          />
        </Stack>
      }
      command={`kubectl scale ${what}${flags} --replicas=${replicas}`}
      run={() => patch(subject, { spec: { replicas } }, 'application/merge-patch+json', 'scale')}
      done={`${name}: ${replicas} replicas wanted`}
    />
  );
}

function Restart({ subject }: { subject: Subject }) {
  const { cluster, kind } = subject;
  const { name, namespace, flags, what } = told(subject);
  const run = () => {
    const annotations = { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() };
    const body = { spec: { template: { metadata: { annotations } } } };
    return patch(subject, body, 'application/strategic-merge-patch+json');
  };
  return (
    <Act
      cluster={cluster}
      label="Restart"
      icon={IconRefresh}
      right={{ verb: 'patch', kind, namespace, name }}
      explains={
        <>
          Replaces all pods of <Name of={name} />, as its strategy says. A new annotation of its template is what makes it do so.
        </>
      }
      command={`kubectl rollout restart ${what}${flags}`}
      run={run}
      done={`${name} restarts`}
    />
  );
}

function Cordon({ subject }: { subject: Subject }) {
  const { cluster, kind, object } = subject;
  const { name } = told(subject);
  const isOff = at(object, 'spec', 'unschedulable') === true;
  return (
    <Act
      cluster={cluster}
      label={isOff ? 'Uncordon' : 'Cordon'}
      icon={isOff ? IconPlayerPlay : IconPlayerPause}
      right={{ verb: 'patch', kind, name }}
      explains={
        isOff ? 'New pods may be placed on this node again.' : 'No new pods are placed on this node. Those that run stay.'
      }
      command={`kubectl ${isOff ? 'uncordon' : 'cordon'} ${quoted(name)}`}
      run={() => patch(subject, { spec: { unschedulable: isOff ? null : true } }, 'application/merge-patch+json')}
      done={`${name} is ${isOff ? 'open for pods again' : 'cordoned'}`}
    />
  );
}

const POLICIES = [
  { value: 'Background', label: 'The object now, what it owns soon after' },
  { value: 'Foreground', label: 'What it owns first, then the object' },
  { value: 'Orphan', label: 'The object only: what it owns stays' },
];

function Delete({ subject }: { subject: Subject }) {
  const { cluster, kind, object } = subject;
  const { name, namespace, flags, what } = told(subject);
  const [policy, setPolicy] = useState('Background');
  const isDangerous = DANGEROUS.has(kind.id);
  const run = () => {
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: policy,
      // Another object that has its name by now is not meant.
      ...(object.metadata.uid !== undefined && { preconditions: { uid: object.metadata.uid } }),
    };
    const wanted = { verb: 'delete', kind, namespace, name };
    return kubeJson(kubePath(cluster, kind, { name, namespace }), { method: 'DELETE', body, wanted });
  };
  return (
    <Act
      cluster={cluster}
      label="Delete"
      icon={IconTrash}
      isDangerous
      right={{ verb: 'delete', kind, namespace, name }}
      confirm={isDangerous ? name : undefined}
      unless={object.metadata.deletionTimestamp === undefined ? undefined : 'It is being deleted already.'}
      explains={
        <Stack gap="sm">
          <Text size="sm">
            Deletes <Name of={kind.kind} /> <Name of={name} />
            {kind.id === 'namespaces' && ' and everything in it'}
            {kind.id.startsWith('customresourcedefinitions.') && ' and every object of its kind'}. This cannot be undone; what a
            service of the fleet manages is created again.
          </Text>
          <Goes subject={subject} />
          <Select
            label="And what it owns"
            data={POLICIES}
            value={policy}
            allowDeselect={false}
            onChange={(one) => one !== null && setPolicy(one)}
          />
        </Stack>
      }
      command={`kubectl delete ${what}${flags} --cascade=${policy.toLowerCase()}`}
      run={run}
      done={`${name} is being deleted`}
    />
  );
}
