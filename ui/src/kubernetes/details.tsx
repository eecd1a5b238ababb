import { Button, Group, Text } from '@mantine/core';
import { useState } from 'react';

import { quoted, visible } from '../lib/text';
import { paths } from '../paths';
import { Copy } from '../parts/action';
import { Empty, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { Go } from './go';
import classes from './object.module.css';
import { at, listAt, mapAt, textAt, type KubeObject } from './objects';
import type { Kind } from './request';
import { Schema } from './schema';
import { Pairs } from './summary';
import { Word } from './word';

/** What only some kinds have. */
export function Details({ handle, kind, object }: { handle: string; kind: Kind; object: KubeObject }) {
  switch (kind.id) {
    case 'pods':
      return <Containers handle={handle} pod={object} />;
    case 'secrets':
      return <SecretData secret={object} />;
    case 'configmaps':
      return (
        <Pairs title="Data" pairs={mapAt(object, 'data')}>
          {(_, value) => (
            <pre className={classes['value']} tabIndex={0}>
              {visible(value.slice(0, 100_000))}
            </pre>
          )}
        </Pairs>
      );
    case 'services':
      return <Ports service={object} handle={handle} />;
    case 'nodes':
      return <NodeFacts node={object} />;
    case 'roles.rbac.authorization.k8s.io':
    case 'clusterroles.rbac.authorization.k8s.io':
      return <Rules title="What it allows" rules={listAt(object, 'rules')} />;
    case 'customresourcedefinitions.apiextensions.k8s.io':
      return <Schema handle={handle} definition={object} />;
    default:
      return null;
  }
}

function Containers({ handle, pod }: { handle: string; pod: KubeObject }) {
  const all = ['initContainers', 'containers', 'ephemeralContainers'].flatMap((list) => {
    const statuses = listAt(pod, 'status', `${list.replace(/s$/, '')}Statuses`);
    return listAt(pod, 'spec', list).map((spec) => {
      const name = textAt(spec, 'name') ?? '';
      return { list, spec, name, status: statuses.find((one) => textAt(one, 'name') === name) };
    });
  });
  const { name: pods, namespace } = pod.metadata;
  return (
    <Panel title="Containers">
      <table className={classes['table']}>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col">Restarts</th>
            <th scope="col">Image</th>
            <th scope="col">See</th>
          </tr>
        </thead>
        <tbody>
          {all.map(({ list, spec, name, status }) => {
            const [state = ''] = Object.keys(at(status, 'state') ?? {});
            const reason = textAt(status, 'state', state, 'reason');
            const words =
              { running: 'Running', terminated: reason ?? 'Terminated', waiting: reason ?? 'Pending' }[state] ?? 'Pending';
            const message = textAt(status, 'state', state, 'message') ?? textAt(status, 'lastState', 'terminated', 'reason');
            const search = { kind: 'pods', ns: namespace, name: pods, container: name };
            return (
              <tr key={`${list} ${name}`}>
                <td>
                  <Name of={name} />
                  {list === 'initContainers' && ' (init)'}
                  {list === 'ephemeralContainers' && ' (ephemeral)'}
                </td>
                <td>
                  <Word column="Status" text={words} />
                  {message !== undefined && (
                    <Text size="xs" c="dimmed">
                      <Name of={message} />
                    </Text>
                  )}
                </td>
                <td>{textAt(status, 'restartCount') ?? '0'}</td>
                <td>
                  <Name of={textAt(spec, 'image') ?? ''} />
                </td>
                <td>
                  <div className={classes['links']}>
                    <Go to={paths.kubernetesObject(handle, { ...search, tab: 'logs' })}>Logs</Go>
                    {state === 'running' && <Go to={paths.kubernetesObject(handle, { ...search, tab: 'terminal' })}>Terminal</Go>}
                  </div>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}

/** A value of a Secret as text, or how many bytes it has. */
export function decoded(base64: string): { text: string | undefined; size: number } {
  try {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    try {
      return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), size: bytes.length };
    } catch {
      return { text: undefined, size: bytes.length };
    }
  } catch {
    return { text: undefined, size: 0 };
  }
}

function SecretData({ secret }: { secret: KubeObject }) {
  return (
    <Pairs title="Data" pairs={mapAt(secret, 'data')}>
      {(name, value) => <SecretValue name={name} base64={value} />}
    </Pairs>
  );
}

function SecretValue({ name, base64 }: { name: string; base64: string }) {
  const [isShown, setShown] = useState(false);
  const { text, size } = decoded(base64);
  return (
    <Group gap="sm" align="flex-start" wrap="nowrap">
      {isShown ? (
        <pre className={classes['value']} style={{ flex: 1 }} tabIndex={0}>
          {visible(text ?? base64)}
        </pre>
      ) : (
        <Text size="sm" c="dimmed" flex={1}>
          hidden, {size.toLocaleString('en')} bytes{text === undefined && ', not text'}
        </Text>
      )}
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => setShown(!isShown)}
        aria-label={`${isShown ? 'Hide' : 'Show'} ${visible(name)}`}
      >
        {isShown ? 'Hide' : 'Show'}
      </Button>
      {isShown && <Copy text={text ?? base64} label={`Copy ${visible(name)}`} />}
    </Group>
  );
}

function Ports({ service, handle }: { service: KubeObject; handle: string }) {
  const ports = listAt(service, 'spec', 'ports');
  const { name, namespace } = service.metadata;
  const [first] = ports;
  if (first === undefined) return null;
  return (
    <Panel title="Ports">
      <table className={classes['table']}>
        <thead>
          <tr>
            <th scope="col">Port</th>
            <th scope="col">At the pods</th>
            <th scope="col">From here</th>
          </tr>
        </thead>
        <tbody>
          {ports.map((port) => {
            const number = textAt(port, 'port') ?? '';
            return (
              <tr key={`${number} ${textAt(port, 'protocol') ?? ''}`}>
                <td>
                  {number}/{textAt(port, 'protocol') ?? 'TCP'} <Name of={textAt(port, 'name') ?? ''} />
                </td>
                <td>
                  <Name of={textAt(port, 'targetPort') ?? number} />
                </td>
                <td>
                  <PortForward handle={handle} what={`service/${name}`} namespace={namespace ?? ''} port={number} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}

/** A browser cannot listen on a port: the command does it, with the reader's own session of the command line. */
export function PortForward({
  handle,
  what,
  namespace,
  port,
}: {
  handle: string;
  what: string;
  namespace: string;
  port: string;
}) {
  const ports = `${Number(port) < 1024 ? `8${port.padStart(3, '0')}` : port}:${port}`;
  const line = `kubectl -n ${quoted(namespace)} port-forward ${quoted(what)} ${quoted(ports)}`;
  return (
    <Group gap="xs" wrap="nowrap" title={`Once before: plural cd clusters kubeconfig ${quoted(handle)} --merge`}>
      <code>{visible(line)}</code>
      <Copy text={line} label="Copy the command" />
    </Group>
  );
}

function NodeFacts({ node }: { node: KubeObject }) {
  const capacity = mapAt(node, 'status', 'capacity') ?? {};
  const allocatable = mapAt(node, 'status', 'allocatable') ?? {};
  const taints = listAt(node, 'spec', 'taints');
  return (
    <>
      <Panel title="Resources">
        <table className={classes['table']}>
          <thead>
            <tr>
              <th scope="col">Resource</th>
              <th scope="col">Capacity</th>
              <th scope="col">Allocatable</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(capacity).map(([name, value]) => (
              <tr key={name}>
                <td>
                  <Name of={name} />
                </td>
                <td>
                  <Name of={value} />
                </td>
                <td>
                  <Name of={allocatable[name] ?? '–'} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Panel>
      {taints.length > 0 && (
        <Panel title="Taints">
          <dl className={classes['pairs']}>
            {taints.map((taint) => (
              <div key={`${textAt(taint, 'key') ?? ''} ${textAt(taint, 'effect') ?? ''}`}>
                <dt>
                  <Name of={textAt(taint, 'key') ?? ''} />
                </dt>
                <dd>
                  <Name of={`${textAt(taint, 'effect') ?? ''} ${textAt(taint, 'value') ?? ''}`} />
                </dd>
              </div>
            ))}
          </dl>
        </Panel>
      )}
    </>
  );
}

/** Rules of a role, as a table. */
export function Rules({ title, rules }: { title: string; rules: unknown[] }) {
  const words = (rule: unknown, field: string) =>
    listAt(rule, field)
      .map((one) => (one === '' ? 'core' : String(one)))
      .join(', ');
  return (
    <Panel title={title}>
      {rules.length === 0 ? (
        <Empty title="Nothing" />
      ) : (
        <table className={classes['table']}>
          <thead>
            <tr>
              <th scope="col">Verbs</th>
              <th scope="col">Resources</th>
              <th scope="col">API groups</th>
              <th scope="col">Names</th>
            </tr>
          </thead>
          <tbody>
            {rules.map((rule, index) => (
              <tr key={index}>
                <td>
                  <Name of={words(rule, 'verbs')} />
                </td>
                <td>
                  <Name
                    of={[words(rule, 'resources'), words(rule, 'nonResourceURLs')].filter((part) => part !== '').join(', ')}
                  />
                </td>
                <td>
                  <Name of={words(rule, 'apiGroups')} />
                </td>
                <td>
                  <Name of={words(rule, 'resourceNames') || 'any'} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

/** Rules for what is no resource, such as `/healthz`. */
export function Paths({ title, rules }: { title: string; rules: unknown[] }) {
  const words = (rule: unknown, field: string) => listAt(rule, field).map(String).join(', ');
  return (
    <Panel title={title}>
      {rules.length === 0 ? (
        <Empty title="Nothing" />
      ) : (
        <table className={classes['table']}>
          <thead>
            <tr>
              <th scope="col">Verbs</th>
              <th scope="col">Paths</th>
            </tr>
          </thead>
          <tbody>
            {rules.map((rule, index) => (
              <tr key={index}>
                <td>
                  <Name of={words(rule, 'verbs')} />
                </td>
                <td>
                  <Name of={words(rule, 'nonResourceURLs')} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
