import { graphql } from '../generated';
import type { JobDefaultsFragment } from '../generated/graphql';
import { Empty, Facts } from '../parts/page';
import { Name } from '../parts/text';
import { asRows, given, pairs, rowsOf, type Field, type Values } from '../parts/values';

export const JobDefaults = graphql(/* GraphQL */ `
  fragment JobDefaults on JobGateSpec {
    namespace
    serviceAccount
    labels
    annotations
    nodeSelector
    tolerations {
      key
      operator
      value
      effect
    }
    requests {
      requests {
        cpu
        memory
      }
      limits {
        cpu
        memory
      }
    }
  }
`);

type Job = JobDefaultsFragment | null | undefined;

const entries = (of: unknown): string[] =>
  typeof of === 'object' && of !== null ? Object.entries(of).map(([key, value]) => `${key}=${String(value)}`) : [];
const tolerations = (job: Job) => (job?.tolerations ?? []).flatMap((one) => one ?? []);

/** What may be said of the Jobs of stacks that say nothing themselves. */
export function jobFields(job: Job): Field[] {
  const { requests, limits } = job?.requests ?? {};
  return [
    {
      name: 'namespace',
      label: 'Namespace',
      initial: job?.namespace ?? '',
      hint: 'Counts in projects whose limits name namespaces for runs',
    },
    {
      name: 'account',
      label: 'ServiceAccount',
      initial: job?.serviceAccount ?? '',
      hint: 'In that namespace: a stack that names another namespace does not get it',
    },
    { name: 'labels', label: 'Labels', kind: 'area', initial: entries(job?.labels).join('\n'), hint: 'team=shop, one a line' },
    { name: 'annotations', label: 'Annotations', kind: 'area', initial: entries(job?.annotations).join('\n') },
    { name: 'nodes', label: 'Labels of the nodes', kind: 'area', initial: entries(job?.nodeSelector).join('\n') },
    {
      name: 'tolerations',
      label: 'Taints that they stand',
      kind: 'list',
      each: 'taint',
      initial: asRows(
        tolerations(job).map(({ key, operator, value, effect }) => ({
          key: key ?? '',
          operator: operator ?? 'Equal',
          value: value ?? '',
          effect: effect ?? '',
        })),
      ),
      row: () => [
        { name: 'key', label: 'Key', hint: 'All when empty' },
        {
          name: 'operator',
          label: 'Operator',
          kind: 'choice',
          initial: 'Equal',
          options: [
            { value: 'Equal', label: 'has the value' },
            { value: 'Exists', label: 'exists' },
          ],
        },
        { name: 'value', label: 'Value', when: (values) => values['operator'] !== 'Exists' },
        { name: 'effect', label: 'Effect', hint: 'All when empty', placeholder: 'NoSchedule' },
      ],
    },
    { name: 'cpu', label: 'Processor that they ask for', initial: requests?.cpu ?? '', placeholder: '250m' },
    { name: 'memory', label: 'Memory that they ask for', initial: requests?.memory ?? '', placeholder: '512Mi' },
    { name: 'mostCpu', label: 'Processor that they may take', initial: limits?.cpu ?? '' },
    { name: 'mostMemory', label: 'Memory that they may take', initial: limits?.memory ?? '', placeholder: '1Gi' },
  ];
}

/** What is filled in, without what is not. */
const said = (all: Record<string, string | null>): Record<string, string> | undefined => {
  const some = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== null);
  return some.length === 0 ? undefined : Object.fromEntries(some);
};
const map = (values: Values, name: string) =>
  said(Object.fromEntries(pairs(values, name).map((pair) => [pair.name, pair.value])));
const list = <One,>(all: One[]): One[] | undefined => (all.length === 0 ? undefined : all);
/** Without the fields that nothing is said of. */
const short = (all: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined && value !== null));

/** The attributes that are sent: all that is said from then on. */
export function jobSettings(values: Values): { jobSpec?: Record<string, unknown> } {
  const requests = said({ cpu: given(values, 'cpu'), memory: given(values, 'memory') });
  const limits = said({ cpu: given(values, 'mostCpu'), memory: given(values, 'mostMemory') });
  const jobSpec = short({
    namespace: given(values, 'namespace'),
    serviceAccount: given(values, 'account'),
    labels: map(values, 'labels'),
    annotations: map(values, 'annotations'),
    nodeSelector: map(values, 'nodes'),
    tolerations: list(
      rowsOf(values, 'tolerations').map((row) =>
        short({
          key: given(row, 'key'),
          operator: given(row, 'operator') ?? 'Equal',
          value: row['operator'] === 'Exists' ? null : given(row, 'value'),
          effect: given(row, 'effect'),
        }),
      ),
    ),
    resources: requests || limits ? short({ requests, limits }) : undefined,
  });
  return Object.keys(jobSpec).length === 0 ? {} : { jobSpec };
}

/** The command that says the same. */
export function jobCommand(begin: string, values: Values): string {
  const settings = jobSettings(values);
  if (settings.jobSpec === undefined) return `${begin} --clear`;
  return `${begin} --settings - <<'SETTINGS'\n${JSON.stringify(settings, null, 2)}\nSETTINGS`;
}

/** What is said. */
export function JobFacts({ job, children }: { job: Job; children: string }) {
  const { requests, limits } = job?.requests ?? {};
  const amounts = (of: typeof requests) =>
    [of?.cpu != null && `${of.cpu} processor`, of?.memory != null && `${of.memory} memory`].filter(Boolean).join(', ');
  const taints = tolerations(job).map(
    ({ key, value, effect }) => `${key ?? '*'}${value != null ? `=${value}` : ''}${effect != null ? `:${effect}` : ''}`,
  );
  const all: [string, string][] = [
    ['Namespace', job?.namespace ?? ''],
    ['ServiceAccount', job?.serviceAccount ?? ''],
    ['Labels', entries(job?.labels).join(', ')],
    ['Annotations', entries(job?.annotations).join(', ')],
    ['Nodes with', entries(job?.nodeSelector).join(', ')],
    ['Stand taints', taints.join(', ')],
    ['Ask for', amounts(requests)],
    ['May take', amounts(limits)],
  ];
  const told = all.filter(([, text]) => text !== '');
  if (told.length === 0) return <Empty title="Nothing is said">{children}</Empty>;
  return <Facts facts={told.map(([label, text]): [string, React.ReactNode] => [label, <Name key={label} of={text} />])} />;
}
