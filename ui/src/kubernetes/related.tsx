import { Button, Group } from '@mantine/core';
import { useQueries, useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { paths } from '../paths';
import { Empty, Panel, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Ago, Name } from '../parts/text';
import { kindsQuery } from './discovery';
import { Go } from './go';
import { selectorOf } from './object';
import classes from './object.module.css';
import { listAt, mapAt, selectorText, at, textAt, type KubeObject } from './objects';
import { someQuery } from './queries';
import type { Kind, Target } from './request';

interface Link {
  how: string;
  kind: string;
  ns?: string | undefined;
  name: string;
}

interface Asked {
  how: string;
  kind: string;
  target: Target;
  /** Only what it owns. */
  isOwned?: boolean;
}

/** Objects of each kind that are looked at. */
const MOST = 500;

/** What an object names, and what names it. */
export function Related({ handle, kind, object }: { handle: string; kind: Kind; object: KubeObject }) {
  const kinds = useQuery(kindsQuery(handle)).data ?? [];
  const [looks, setLooks] = useState(false);
  const namespace = object.metadata.namespace;
  const asked = [
    ...lists(kind, object),
    ...(looks ? OWNED.map((id) => ({ how: 'owns', kind: id, target: { namespace }, isOwned: true })) : []),
  ];
  const answers = useQueries({
    queries: asked.map(({ kind: id, target }) =>
      someQuery(
        handle,
        kinds.find((one) => one.id === id),
        target,
        true,
        MOST,
      ),
    ),
  });
  const given = answers.map((answer) => held(answer));
  const found: (Link & { made?: string | undefined })[] = [
    ...names(kind, object),
    ...asked.flatMap(({ how, kind: id, isOwned }, index) =>
      (given[index] ?? [])
        .filter(
          ({ metadata }) => isOwned !== true || (metadata.ownerReferences ?? []).some(({ uid }) => uid === object.metadata.uid),
        )
        .map(({ metadata }) => ({
          how,
          kind: id,
          ns: metadata.namespace,
          name: metadata.name,
          made: metadata.creationTimestamp,
        })),
    ),
  ];
  const links = [...new Map(found.map((link) => [`${link.how} ${link.kind} ${link.ns ?? ''} ${link.name}`, link])).values()];
  const isWaiting = answers.some(({ isLoading }) => isLoading);
  const refused = answers.filter(({ isError }) => isError).length;
  const isCut = given.some((list) => (list?.length ?? 0) >= MOST);
  return (
    <Panel
      title="Related"
      aside={
        namespace !== undefined &&
        !looks && (
          <Button size="compact-xs" variant="default" onClick={() => setLooks(true)}>
            Look for all that it owns
          </Button>
        )
      }
    >
      {links.length > 0 && (
        <table className={classes['table']}>
          <thead>
            <tr>
              <th scope="col">How</th>
              <th scope="col">Kind</th>
              <th scope="col">Name</th>
              <th scope="col">Created</th>
            </tr>
          </thead>
          <tbody>
            {links.slice(0, 300).map(({ how, kind: id, ns, name, made }) => (
              <tr key={`${how} ${id} ${ns ?? ''} ${name}`}>
                <td>{how}</td>
                <td>
                  <Name of={kinds.find((one) => one.id === id)?.kind ?? id} />
                </td>
                <td>
                  <Go to={paths.kubernetesObject(handle, { kind: id, ns, name })}>
                    <Name of={name} />
                  </Go>
                </td>
                <td>{made === undefined ? '' : <Ago at={made} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {links.length > 300 && <Empty title={`And ${links.length - 300} more`} />}
      {isWaiting && <Waiting lines={3} />}
      {!isWaiting && links.length === 0 && <Empty title="Nothing is known to belong to it" />}
      {isCut && (
        <Group p="md" gap="sm">
          There are more: only the first {MOST} objects of a kind were looked at.
        </Group>
      )}
      {refused > 0 && (
        <Group p="md" gap="sm">
          {refused} of {asked.length} lists could not be read: you may not see them, or the cluster did not answer.
        </Group>
      )}
    </Panel>
  );
}

/** Kinds that controllers make for others. */
const OWNED = [
  'pods',
  'replicasets.apps',
  'deployments.apps',
  'statefulsets.apps',
  'daemonsets.apps',
  'jobs.batch',
  'services',
  'configmaps',
  'secrets',
  'persistentvolumeclaims',
];

/** Lists in which what belongs to it is found. */
function lists(kind: Kind, object: KubeObject): Asked[] {
  const { namespace, name } = object.metadata;
  const labelSelector = selectorOf(kind, object);
  const pods: Asked[] =
    labelSelector === undefined
      ? []
      : [{ how: kind.id === 'services' ? 'selects' : 'runs', kind: 'pods', target: { namespace, query: { labelSelector } } }];
  switch (kind.id) {
    case 'deployments.apps':
      return [{ how: 'owns', kind: 'replicasets.apps', target: { namespace, query: { labelSelector } }, isOwned: true }, ...pods];
    case 'cronjobs.batch':
      return [{ how: 'owns', kind: 'jobs.batch', target: { namespace }, isOwned: true }];
    case 'services': {
      const query = { labelSelector: `kubernetes.io/service-name=${name}` };
      return [...pods, { how: 'has', kind: 'endpointslices.discovery.k8s.io', target: { namespace, query } }];
    }
    case 'nodes':
      return [{ how: 'runs', kind: 'pods', target: { query: { fieldSelector: `spec.nodeName=${name}` } } }];
    case 'networkpolicies.networking.k8s.io': {
      const selector = selectorText(at(object, 'spec', 'podSelector'));
      return [
        { how: 'selects', kind: 'pods', target: { namespace, query: { labelSelector: selector === '' ? undefined : selector } } },
      ];
    }
    default:
      return pods;
  }
}

/** What it names itself. */
function names(kind: Kind, object: KubeObject): Link[] {
  const ns = object.metadata.namespace;
  const link = (how: string, id: string, name: string | undefined, namespace: string | undefined = ns): Link[] =>
    name === undefined || name === '' ? [] : [{ how, kind: id, ns: namespace, name }];
  const cluster = (how: string, id: string, name: string | undefined): Link[] =>
    name === undefined || name === '' ? [] : [{ how, kind: id, name }];
  const spec =
    kind.id === 'pods'
      ? at(object, 'spec')
      : (at(object, 'spec', 'template', 'spec') ?? at(object, 'spec', 'jobTemplate', 'spec', 'template', 'spec'));
  const owners = (object.metadata.ownerReferences ?? []).flatMap(({ apiVersion, kind: of, name }) => {
    const group = apiVersion.includes('/') ? `.${apiVersion.split('/')[0] ?? ''}` : '';
    const known = ['ReplicaSet', 'Deployment', 'StatefulSet', 'DaemonSet', 'Job', 'CronJob'].includes(of);
    return known ? link('owned by', `${of.toLowerCase()}s${group}`, name) : [];
  });
  switch (kind.id) {
    case 'persistentvolumeclaims':
      return [
        ...cluster('bound to', 'persistentvolumes', textAt(object, 'spec', 'volumeName')),
        ...cluster('of', 'storageclasses.storage.k8s.io', textAt(object, 'spec', 'storageClassName')),
      ];
    case 'persistentvolumes':
      return link(
        'bound to',
        'persistentvolumeclaims',
        textAt(object, 'spec', 'claimRef', 'name'),
        textAt(object, 'spec', 'claimRef', 'namespace'),
      );
    case 'ingresses.networking.k8s.io':
      return listAt(object, 'spec', 'rules')
        .flatMap((rule) => listAt(rule, 'http', 'paths'))
        .flatMap((path) => link('sends to', 'services', textAt(path, 'backend', 'service', 'name')));
    case 'rolebindings.rbac.authorization.k8s.io':
    case 'clusterrolebindings.rbac.authorization.k8s.io': {
      const name = textAt(object, 'roleRef', 'name');
      const role =
        textAt(object, 'roleRef', 'kind') === 'Role'
          ? link('gives', 'roles.rbac.authorization.k8s.io', name)
          : cluster('gives', 'clusterroles.rbac.authorization.k8s.io', name);
      const accounts = listAt(object, 'subjects').flatMap((one) =>
        textAt(one, 'kind') === 'ServiceAccount'
          ? link('to', 'serviceaccounts', textAt(one, 'name'), textAt(one, 'namespace'))
          : [],
      );
      return [...role, ...accounts];
    }
    default:
      return [...owners, ...ofPod(spec, link, cluster)];
  }
}

type Maker = (how: string, id: string, name: string | undefined) => Link[];

function ofPod(spec: unknown, link: Maker, cluster: Maker): Link[] {
  if (spec === undefined) return [];
  const containers = [...listAt(spec, 'initContainers'), ...listAt(spec, 'containers')];
  return [
    ...cluster('on', 'nodes', textAt(spec, 'nodeName')),
    ...link('runs as', 'serviceaccounts', textAt(spec, 'serviceAccountName')),
    ...listAt(spec, 'volumes').flatMap((volume) => [
      ...link('mounts', 'configmaps', textAt(volume, 'configMap', 'name')),
      ...link('mounts', 'secrets', textAt(volume, 'secret', 'secretName')),
      ...link('mounts', 'persistentvolumeclaims', textAt(volume, 'persistentVolumeClaim', 'claimName')),
      ...listAt(volume, 'projected', 'sources').flatMap((source) => [
        ...link('mounts', 'configmaps', textAt(source, 'configMap', 'name')),
        ...link('mounts', 'secrets', textAt(source, 'secret', 'name')),
      ]),
    ]),
    ...containers.flatMap((container) => [
      ...listAt(container, 'envFrom').flatMap((from) => [
        ...link('reads', 'configmaps', textAt(from, 'configMapRef', 'name')),
        ...link('reads', 'secrets', textAt(from, 'secretRef', 'name')),
      ]),
      ...listAt(container, 'env').flatMap((one) => [
        ...link('reads', 'configmaps', textAt(one, 'valueFrom', 'configMapKeyRef', 'name')),
        ...link('reads', 'secrets', textAt(one, 'valueFrom', 'secretKeyRef', 'name')),
      ]),
    ]),
    ...listAt(spec, 'imagePullSecrets').flatMap((one) => link('pulls with', 'secrets', mapAt(one)?.['name'])),
  ];
}
