import { Badge, Code, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconEyeOff } from '@tabler/icons-react';

import type { DriftKind, PlanAction, ServiceChangesOfQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { counted, quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Panel, Waiting } from '../parts/page';
import { held, Shown, Stale } from '../parts/shown';
import { Ago, Name } from '../parts/text';
import { IgnoreDrift } from './mutations';
import { changesQuery } from './history-queries';
import classes from './changes.module.css';

export const actionWords: Record<PlanAction, string> = {
  BLOCKED: 'blocked',
  CHANGE: 'change',
  CONFLICT: 'conflict',
  CREATE: 'create',
  PRUNE: 'delete',
  RUN_HOOK: 'run hook',
  UNCHANGED: 'unchanged',
};

const driftWords: Record<DriftKind, string> = {
  FIGHT: 'changed again and again',
  LEFT: 'left as it was found',
  REPAIRED: 'repaired',
};

type Plan = NonNullable<
  NonNullable<NonNullable<NonNullable<NonNullable<ServiceChangesOfQuery['serviceDeployment']>['plans']>['edges']>[number]>['node']
>;
interface Field {
  path: string;
  before?: string | null;
  after?: string | null;
  hidden?: boolean | null;
  manager?: string | null;
  writtenAt?: string | null;
}

/** What happens to an object. */
interface Planned {
  action: PlanAction;
  object: { kind: string; namespace?: string | null; name: string };
  why?: string | null;
  location?: string | null;
  wave?: number | null;
  fields?: readonly (Field | null)[] | null;
  fieldsOmitted?: number | null;
}

/** What syncs changed in the cluster, and what others changed there. */
export function Changes({ cluster, name }: { cluster: string; name: string }) {
  const query = useQuery(changesQuery(cluster, name));
  if (query.isPending) return <Waiting />;
  if (held(query) === undefined)
    return (
      <Shown query={query} what="changes">
        {null}
      </Shown>
    );
  const plans = (query.data?.plans?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  const drift = (query.data?.drift?.edges ?? []).flatMap((edge) => edge?.node ?? []).reverse();
  return (
    <Stack gap="md">
      <Stale query={query} what="changes" />
      <Panel title="Drift: changes that did not come from git">
        {drift.length === 0 ? (
          <Empty title="Nobody changed anything behind git’s back" />
        ) : (
          drift.map((event) => (
            <div key={event.id} className={classes['entry']}>
              <Group gap="sm">
                <Badge variant="default" tt="none" fw={400}>
                  {driftWords[event.kind]}
                </Badge>
                <Text size="sm">
                  {event.object.kind} <Name of={event.object.name} />
                </Text>
                <Text size="sm" c="dimmed">
                  <Ago at={event.updatedAt} />
                  {event.count != null && event.count > 1 && `, ${event.count} times`}
                </Text>
                <Ignore id={query.data?.id ?? ''} which={`${cluster}/${name}`} object={event.object} fields={event.fields} />
              </Group>
              {event.what != null && (
                <Text size="sm">
                  <Name of={event.what} />
                </Text>
              )}
              <Fields fields={event.fields} />
            </div>
          ))
        )}
      </Panel>
      <Panel title="What the last syncs and plans changed">
        {plans.length === 0 ? (
          <Empty title="No sync changed anything yet">
            To see what a sync would do, press Plan above: it changes nothing.{' '}
            <Code>plural cd services plan {`${cluster}/${name}`}</Code>
          </Empty>
        ) : (
          plans.map((plan) => <PlanEntry key={plan.id} plan={plan} />)
        )}
      </Panel>
    </Stack>
  );
}

type Drift = NonNullable<
  NonNullable<NonNullable<NonNullable<NonNullable<ServiceChangesOfQuery['serviceDeployment']>['drift']>['edges']>[number]>['node']
>;

/** Leaves the fields that somebody changed to them from now on. */
function Ignore(props: { id: string; which: string; object: Drift['object']; fields: Drift['fields'] }) {
  const { id, which, object } = props;
  const paths = (props.fields ?? []).flatMap((field) => (field ? [field.path] : []));
  if (paths.length === 0) return null;
  const kind = object.group === '' ? object.kind : `${object.kind}.${object.group}`;
  const place = `${kind}/${object.namespace == null ? '' : `${object.namespace}/`}${object.name}`;
  return (
    <Action
      noun="service"
      isSmall
      label="Leave to others"
      icon={IconEyeOff}
      right={{ verb: 'update', thing: `service/${which}` }}
      explains={
        <>
          From now on these fields are not compared and not sent any more:{' '}
          {paths.map((path) => (
            <Code key={path}>{path} </Code>
          ))}
        </>
      }
      command={`plural cd services ignore ${quoted(which)} ${quoted(place)} ${paths.map((path) => `--field ${quoted(path)}`).join(' ')}`}
      run={() =>
        ask(IgnoreDrift, {
          id,
          attributes: {
            kind,
            name: object.name,
            ...(object.namespace != null && { namespace: object.namespace }),
            jsonPointers: paths,
          },
        })
      }
      done="These fields are left to others"
    />
  );
}

function PlanEntry({ plan }: { plan: Plan }) {
  const objects = (plan.objects ?? []).flatMap((object) => object ?? []);
  return (
    <div className={classes['entry']}>
      <Text size="sm" c="dimmed">
        <strong>{plan.requestId == null ? 'Sync' : 'Plan that somebody asked for; nothing of it was applied'}</strong>,{' '}
        <Ago at={plan.insertedAt} />: {counted(objects.length + (plan.omitted ?? 0), 'difference')}, {plan.unchanged ?? 0} as they
        should be
      </Text>
      {plan.error != null && (
        <Text size="sm" style={{ color: 'var(--tone-bad)' }}>
          <Name of={plan.error} />
        </Text>
      )}
      <PlannedObjects objects={objects} />
    </div>
  );
}

/** What happens to the objects of a plan, in its order. */
export function PlannedObjects({ objects }: { objects: readonly Planned[] }) {
  return objects.map(({ action, object, why, fields, fieldsOmitted, location, wave }, at) => (
    <div key={at}>
      <Group gap="sm">
        <Badge variant="default" tt="none" fw={400}>
          {actionWords[action]}
        </Badge>
        <Text size="sm">
          {object.kind} <Name of={object.namespace == null ? object.name : `${object.namespace}/${object.name}`} />
        </Text>
        {why != null && (
          <Text size="sm" c="dimmed">
            <Name of={why} />
          </Text>
        )}
        <Text size="xs" c="dimmed">
          {wave != null && `wave ${wave} `}
          {location != null && <Name of={location} />}
        </Text>
      </Group>
      <Fields fields={fields} />
      {fieldsOmitted != null && fieldsOmitted > 0 && (
        <Text size="sm" c="dimmed">
          {counted(fieldsOmitted, 'more field')}, too many to keep
        </Text>
      )}
    </div>
  ));
}

/** Field by field: what was, what is now, and who wrote it. */
export function Fields({ fields }: { fields: readonly (Field | null)[] | null | undefined }) {
  const known = (fields ?? []).flatMap((field) => field ?? []);
  if (known.length === 0) return null;
  return (
    <ul className={classes['fields']}>
      {known.map((field, at) => (
        <li key={at}>
          <code className={classes['path']}>
            <Name of={field.path} />
          </code>
          {field.hidden === true ? (
            <Text size="sm" c="dimmed">
              {field.before == null ? 'new; its value is hidden' : 'changed; values are hidden'}
            </Text>
          ) : (
            <>
              {field.before != null && (
                <del>
                  <span aria-hidden>− </span>
                  <Name of={field.before} />
                </del>
              )}
              {field.after != null && (
                <ins>
                  <span aria-hidden>+ </span>
                  <Name of={field.after} />
                </ins>
              )}
            </>
          )}
          {field.manager != null && (
            <Text size="xs" c="dimmed">
              written by <Name of={field.manager} />
              {field.writtenAt != null && (
                <>
                  , <Ago at={field.writtenAt} />
                </>
              )}
            </Text>
          )}
        </li>
      ))}
    </ul>
  );
}
