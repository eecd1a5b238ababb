import { useQuery } from '@tanstack/react-query';

import { Empty, Panel, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Ago, Name } from '../parts/text';
import { Trouble } from './frame';
import { eventsKind } from './known';
import classes from './object.module.css';
import { numberAt, textAt, type KubeObject } from './objects';
import { someQuery } from './queries';
import { Word } from './word';

/** What the cluster's controllers said about an object, newest first. Kubernetes keeps it for an hour. */
export function Events({ handle, object }: { handle: string; object: KubeObject }) {
  const { name, namespace = 'default', uid } = object.metadata;
  // The kubelet calls its node by its name where others give the uid.
  const isNode = object.kind === 'Node' && object.apiVersion === 'v1';
  const which = isNode ? 'involvedObject.kind=Node' : uid === undefined ? undefined : `involvedObject.uid=${uid}`;
  const fieldSelector = [`involvedObject.name=${name}`, which].filter((part) => part !== undefined).join(',');
  const events = useQuery(someQuery(handle, eventsKind, { namespace, query: { fieldSelector } }));
  const list = held(events);
  return (
    <Panel title="Events, newest first">
      {events.isPending && <Waiting />}
      {events.isError && <Trouble handle={handle} error={events.error} what="events" />}
      {list?.length === 0 && <Empty title="No events">A cluster keeps them for an hour, as a rule.</Empty>}
      {list !== undefined && list.length > 0 && (
        <table className={classes['table']}>
          <thead>
            <tr>
              <th scope="col">Type</th>
              <th scope="col">Reason</th>
              <th scope="col">When</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {[...list]
              .sort((a, b) => Date.parse(when(b)) - Date.parse(when(a)))
              .map((event) => {
                const count = numberAt(event, 'count') ?? numberAt(event, 'series', 'count') ?? 1;
                return (
                  <tr key={event.metadata.uid ?? event.metadata.name}>
                    <td>
                      <Word column="Type" text={textAt(event, 'type') ?? ''} />
                    </td>
                    <td>
                      <Name of={textAt(event, 'reason') ?? ''} />
                    </td>
                    <td>
                      <Ago at={when(event)} />
                      {count > 1 && `, ${count} times`}
                    </td>
                    <td>
                      <Name of={textAt(event, 'message') ?? ''} />
                    </td>
                  </tr>
                );
              })}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function when(event: KubeObject): string {
  const times = [textAt(event, 'lastTimestamp'), textAt(event, 'series', 'lastObservedTime'), textAt(event, 'eventTime')];
  return times.find((time) => time !== undefined && time !== '') ?? event.metadata.creationTimestamp ?? '';
}
