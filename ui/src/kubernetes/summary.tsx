import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { visible, webAddress } from '../lib/text';
import { paths } from '../paths';
import { Facts, Panel } from '../parts/page';
import { Ago, Name, Outside } from '../parts/text';
import { Details } from './details';
import { kindOf, kindsQuery } from './discovery';
import { Go } from './go';
import type { Listed } from './listing';
import { Metrics } from './metrics';
import classes from './object.module.css';
import { listAt, textAt, type KubeObject } from './objects';
import { Related } from './related';
import type { Kind } from './request';
import { Word } from './word';

const APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

interface SummaryProps {
  handle: string;
  kind: Kind;
  object: KubeObject;
  listing: Listed;
}

/** What an object is, on one page. */
export function Summary({ handle, kind, object, listing }: SummaryProps) {
  const { metadata } = object;
  const [row] = listing.rows;
  const printed = listing.columns.flatMap(({ name }, index): [string, ReactNode][] => {
    const cell = String(row?.cells[index] ?? '');
    const isShown = !['Name', 'Age', 'Selector', 'Labels'].includes(name) && !['', '<none>', '<unset>'].includes(cell);
    return isShown ? [[visible(name), <Word key={name} column={name} text={cell} />]] : [];
  });
  return (
    <div className={classes['stack']}>
      <Panel title={visible(kind.kind)}>
        <Facts
          facts={[
            [
              'Namespace',
              metadata.namespace !== undefined && (
                <Go to={paths.kubernetesObject(handle, { kind: 'namespaces', name: metadata.namespace })}>
                  <Name of={metadata.namespace} />
                </Go>
              ),
            ],
            ['Created', <Ago key="made" at={metadata.creationTimestamp} />],
            ['Ends', metadata.deletionTimestamp !== undefined && <Ago key="ends" at={metadata.deletionTimestamp} />],
            ...printed,
            ['Owner', <Owners key="owner" handle={handle} object={object} />],
            ['Finalizers', (metadata.finalizers ?? []).length > 0 && <Name of={(metadata.finalizers ?? []).join(', ')} />],
            ['UID', metadata.uid],
          ]}
        />
      </Panel>
      <Conditions object={object} />
      <Metrics handle={handle} kind={kind} object={object} />
      <Details handle={handle} kind={kind} object={object} />
      <Related handle={handle} kind={kind} object={object} />
      <Pairs title="Labels" pairs={metadata.labels}>
        {(label, value) => (
          <Go to={paths.kubernetes(handle, { kind: kind.id, ns: metadata.namespace, l: `${label}=${value}` })}>
            <Name of={value === '' ? '(empty)' : value} />
          </Go>
        )}
      </Pairs>
      <Pairs title="Annotations" pairs={metadata.annotations}>
        {(name, value) =>
          name === APPLIED && kind.id === 'secrets' ? (
            'hidden: it holds the values'
          ) : webAddress(value) === undefined ? (
            <span className={classes['value']} tabIndex={value.length > 2000 ? 0 : undefined}>
              <Name of={value.length > 20_000 ? `${value.slice(0, 20_000)}… (${value.length} characters)` : value} />
            </span>
          ) : (
            <Outside address={value} />
          )
        }
      </Pairs>
    </div>
  );
}

/** Terms and values of a map. */
export function Pairs(props: {
  title: string;
  pairs: Record<string, string> | undefined;
  children: (name: string, value: string) => ReactNode;
}) {
  const all = Object.entries(props.pairs ?? {});
  if (all.length === 0) return null;
  return (
    <Panel title={props.title}>
      <dl className={classes['pairs']}>
        {all.map(([name, value]) => (
          <div key={name}>
            <dt>
              <Name of={name} />
            </dt>
            <dd>{props.children(name, value)}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

function Owners({ handle, object }: { handle: string; object: KubeObject }) {
  const kinds = useQuery(kindsQuery(handle)).data;
  const owners = object.metadata.ownerReferences ?? [];
  if (owners.length === 0) return <>none</>;
  return (
    <>
      {owners.map(({ apiVersion, kind, name, uid }, index) => {
        const of = kindOf(kinds, apiVersion, kind);
        const ns = of?.isNamespaced === true ? object.metadata.namespace : undefined;
        const words = <Name of={`${kind} ${name}`} />;
        return (
          <span key={uid}>
            {index > 0 && ', '}
            {of ? <Go to={paths.kubernetesObject(handle, { kind: of.id, ns, name })}>{words}</Go> : words}
          </span>
        );
      })}
    </>
  );
}

/** Where these are true, something is wrong. */
const BAD_WHEN_TRUE = /(Pressure|Unavailable|Failed|Failure|Stalled|Degraded|NonStructural|Dangling)/;

function Conditions({ object }: { object: KubeObject }) {
  const conditions = listAt(object, 'status', 'conditions').filter((one) => textAt(one, 'type') !== undefined);
  if (conditions.length === 0) return null;
  return (
    <Panel title="Conditions">
      <table className={classes['table']}>
        <thead>
          <tr>
            <th scope="col">Condition</th>
            <th scope="col">Status</th>
            <th scope="col">Since</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {conditions.map((one) => {
            const type = textAt(one, 'type') ?? '';
            const status = textAt(one, 'status') ?? '';
            const isWell = (status === 'True') !== BAD_WHEN_TRUE.test(type);
            const words = [textAt(one, 'reason'), textAt(one, 'message')].filter((part) => part !== undefined && part !== '');
            return (
              <tr key={type}>
                <td>
                  <Name of={type} />
                </td>
                <td>
                  {status !== 'Unknown' && isWell ? <Word column="Status" text={status === 'True' ? 'True' : ''} /> : null}
                  {status !== 'Unknown' && isWell && status !== 'True' ? status : null}
                  {status === 'Unknown' ? <Word column="Status" text="Unknown" /> : null}
                  {status !== 'Unknown' && !isWell ? <Name of={`${status} – look at the reason`} /> : null}
                </td>
                <td>
                  <Ago at={textAt(one, 'lastTransitionTime')} />
                </td>
                <td>
                  <Name of={words.join(': ')} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}
