import { Group, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';

import type { ServiceComparedQuery } from '../generated/graphql';
import { counted, short } from '../lib/text';
import { Empty, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { Ago, Name } from '../parts/text';
import { actionWords } from './changes';
import type { Revision } from './history';
import { comparedQuery } from './history-queries';

const Diff = lazy(async () => ({ default: (await import('../parts/code')).Diff }));
const route = getRouteApi('/services/$cluster/$name');

type Service = NonNullable<ServiceComparedQuery['serviceDeployment']>;
type Plan = NonNullable<
  NonNullable<NonNullable<NonNullable<NonNullable<Service['revisions']>['edges']>[number]>['node']>['plan']
>;

interface Change {
  object: string;
  words: string[];
  fields: Map<string, { before: string | null; after: string | null; hidden: boolean }>;
}

/** What these syncs changed, in sum: the first `before` and the last `after` of each field. */
function sum(plans: Plan[]): Change[] {
  const all = new Map<string, Change>();
  for (const plan of plans) {
    for (const planned of plan.objects ?? []) {
      if (!planned) continue;
      const { kind, namespace, name } = planned.object;
      const object = `${kind} ${namespace == null ? '' : `${namespace}/`}${name}`;
      const change: Change = all.get(object) ?? { object, words: [], fields: new Map() };
      all.set(object, change);
      const word = actionWords[planned.action];
      if (change.words.at(-1) !== word) change.words.push(word);
      for (const field of planned.fields ?? []) {
        if (!field) continue;
        const known = change.fields.get(field.path);
        change.fields.set(field.path, {
          before: known ? known.before : (field.before ?? null),
          after: field.after ?? null,
          hidden: field.hidden === true || known?.hidden === true,
        });
      }
    }
  }
  return [...all.values()];
}

function text(changes: Change[], side: 'before' | 'after'): string {
  return changes
    .map(({ object, words, fields }) => {
      const lines = [...fields].flatMap(([path, field]) => {
        if (field.hidden) return [`  ${path}: # changed; values are hidden`];
        const value = field[side];
        return value === null ? [] : [`  ${path}: ${value}`];
      });
      return [`# ${words.join(', then ')}`, `${object}:`, ...lines].join('\n');
    })
    .join('\n\n');
}

const label = ({ sha, message, id }: Revision) => `${sha == null ? id.slice(-7) : short(sha)} ${(message ?? '').slice(0, 60)}`;

/** What lies between two revisions: commits, and what their syncs changed in the cluster. */
export function Compare({ revisions }: { revisions: Revision[] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { cluster, name } = route.useParams();
  const compared = useQuery(comparedQuery(cluster, name));
  const to = revisions.find(({ id }) => id === search.to) ?? revisions[0];
  const from = revisions.find(({ id }) => id === search.from) ?? revisions[1];
  if (!to || !from) return null;
  const [newer, older] = [revisions.indexOf(to), revisions.indexOf(from)].sort((a, b) => a - b) as [number, number];
  // Newest first: what came after the older one, up to the newer one, told from old to new.
  const between = revisions.slice(newer, older).reverse();
  const known = new Map(
    (compared.data?.revisions?.edges ?? []).flatMap((edge) => (edge?.node ? [[edge.node.id, edge.node.plan] as const] : [])),
  );
  const plans = between.flatMap(({ id }) => known.get(id) ?? []);
  const changes = sum(plans);
  const isBack = revisions.indexOf(to) > revisions.indexOf(from);
  const [before, after] = isBack
    ? [text(changes, 'after'), text(changes, 'before')]
    : [text(changes, 'before'), text(changes, 'after')];
  const hasFields = changes.some(({ fields }) => fields.size > 0);
  const omitted = plans.reduce((count, plan) => count + (plan.omitted ?? 0), 0);
  const fieldsOmitted = plans
    .flatMap((plan) => plan.objects ?? [])
    .reduce((count, planned) => count + (planned?.fieldsOmitted ?? 0), 0);
  const set = (change: { from?: string; to?: string }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const data = revisions.map((revision) => ({ value: revision.id, label: label(revision) }));
  return (
    <Panel
      title="Difference between two revisions"
      aside={
        <Group gap="sm">
          <Select
            aria-label="From revision"
            w={280}
            data={data}
            value={from.id}
            allowDeselect={false}
            onChange={(next) => next !== null && set({ from: next })}
          />
          <Text size="sm">to</Text>
          <Select
            aria-label="To revision"
            w={280}
            data={data}
            value={to.id}
            allowDeselect={false}
            onChange={(next) => next !== null && set({ to: next })}
          />
        </Group>
      }
    >
      <Stack gap="xs" p="md">
        {between.map((revision) => (
          <Text size="sm" key={revision.id}>
            <code>{revision.sha == null ? '–' : short(revision.sha)}</code> <Name of={revision.message ?? ''} />{' '}
            <Text component="span" size="sm" c="dimmed">
              {revision.author != null && <Name of={revision.author} />} <Ago at={revision.insertedAt} />
              {revision.git && (
                <>
                  {' '}
                  from <Name of={`${revision.git.folder} at ${revision.git.ref}`} />
                </>
              )}
            </Text>
          </Text>
        ))}
        {between.length === 0 && <Text size="sm">These are the same revision.</Text>}
      </Stack>
      {between.length > 0 && (
        <Shown query={compared} what="what these revisions changed">
          {compared.isPending ? (
            <Waiting lines={8} />
          ) : changes.length === 0 ? (
            <Empty title="No sync of these revisions changed anything in the cluster" />
          ) : (
            <Suspense fallback={<Waiting lines={8} />}>
              <Text size="sm" px="md" pb="sm" c="dimmed">
                What the syncs in between changed in the cluster, field by field, in sum: {counted(changes.length, 'object')}
                {omitted > 0 && `, and ${counted(omitted, 'object')} that were too many to keep`}
                {fieldsOmitted > 0 && `, and ${counted(fieldsOmitted, 'field')} that were too many to keep`}.
                {!hasFields && ' Objects that were created or deleted as a whole have no fields to compare.'}
              </Text>
              <Diff before={before} after={after} names={[label(from), label(to)]} />
            </Suspense>
          )}
        </Shown>
      )}
    </Panel>
  );
}
