import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconPlus } from '@tabler/icons-react';

import { clustersQuery } from '../cluster/queries';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { given, isOn, rowsOf, type Values } from '../parts/values';
import { repositoriesQuery } from '../repository/queries';
import { paths } from '../paths';
import { importableStacksQuery } from './configuration-queries';
import { Create } from './mutations';

const isChart = ({ from }: Values) => from === 'chart';
const isGit = ({ from }: Values) => from === 'git';
const imported = (values: Values) => rowsOf(values, 'imports').map((row) => row['stack'] ?? '');

/** Creates a service: a folder of a repository, or a chart, kept applied in a cluster. What its form offers is read once the page has its own
 * rows (`enabled`), which would wait for it. */
export function CreateService({ cluster, enabled }: { cluster?: string | undefined; enabled: boolean }) {
  const navigate = useNavigate();
  const clusters = useInfiniteQuery({ ...clustersQuery({}, 200), enabled });
  const repositories = useInfiniteQuery({ ...repositoriesQuery, enabled });
  const stacks = useQuery({ ...importableStacksQuery, enabled });
  const handles = (clusters.data ?? []).flatMap(({ handle }) => handle ?? []);
  const [first = ''] = handles;
  const where = cluster ?? first;
  const url = (id: string | undefined) => (repositories.data ?? []).find((one) => one.id === id)?.url ?? 'REPOSITORY';
  return (
    <Action
      key={where}
      noun="service"
      label="Create a service"
      icon={IconPlus}
      isReading={clusters.isPending || repositories.isPending}
      {...(where !== '' && { right: { verb: 'create', thing: 'services', within: `cluster/${where}` } })}
      explains="A service keeps what a repository says applied in one cluster. Its page shows how that goes."
      fields={[
        {
          name: 'cluster',
          label: 'Cluster',
          kind: 'choice',
          isRequired: true,
          initial: where,
          options: handles.map((value) => ({ value, label: value })),
        },
        { name: 'name', label: 'Name', isRequired: true, placeholder: 'web' },
        { name: 'namespace', label: 'Namespace', hint: 'The name when empty' },
        {
          name: 'from',
          label: 'Read from',
          kind: 'choice',
          isRequired: true,
          initial: 'git',
          options: [
            { value: 'git', label: 'a folder of a git repository' },
            { value: 'chart', label: 'a chart of a Helm repository' },
          ],
        },
        {
          name: 'repository',
          label: 'Repository',
          kind: 'choice',
          isRequired: true,
          initial: repositories.data?.[0]?.id ?? '',
          options: (repositories.data ?? []).map((one) => ({ value: one.id, label: one.url })),
          hint: 'One that is missing is added under Settings, Git repositories',
          when: isGit,
        },
        {
          name: 'ref',
          label: 'Branch, tag, commit, or range of tags',
          isRequired: true,
          initial: 'main',
          when: isGit,
        },
        { name: 'folder', label: 'Folder', hint: 'The root when empty', when: isGit },
        {
          name: 'url',
          label: 'Helm repository',
          isRequired: true,
          placeholder: 'oci://registry.example.com/charts/redis',
          when: isChart,
        },
        { name: 'chart', label: 'Chart', hint: 'Not for oci:// addresses that name it', when: isChart },
        { name: 'version', label: 'Version or range', placeholder: '19.x', when: isChart },
        { name: 'values', label: 'Values, as YAML', kind: 'area', hint: 'Kept encrypted', when: isChart },
        {
          name: 'imports',
          label: 'Outputs of stacks',
          kind: 'list',
          each: 'stack',
          row: (rows, at) => {
            const elsewhere = rows.flatMap((row, other) => (other === at ? [] : [row['stack']]));
            const free = (stacks.data ?? []).filter(({ id }) => !elsewhere.includes(id));
            return [
              {
                name: 'stack',
                label: 'Stack',
                kind: 'choice',
                isRequired: true,
                options: free.map((one) => ({ value: one.id, label: one.name })),
              },
            ];
          },
          hint: 'Its templates read them as imports["STACK"]["OUTPUT"]',
          when: () => (stacks.data ?? []).length > 0,
        },
        { name: 'manual', label: 'New revisions wait until somebody asks for a sync', kind: 'check' },
        { name: 'dryRun', label: 'Only plan and report, apply nothing', kind: 'check' },
      ]}
      command={(values) =>
        [
          `plural cd services create ${quoted(`${values['cluster'] ?? ''}/${values['name'] ?? ''}`)}`,
          values['namespace'] === '' ? '' : `--namespace ${quoted(values['namespace'] ?? '')}`,
          isChart(values)
            ? `--chart-url ${quoted(values['url'] ?? '')}${values['chart'] === '' ? '' : ` --chart ${quoted(values['chart'] ?? '')}`}${values['version'] === '' ? '' : ` --chart-version ${quoted(values['version'] ?? '')}`}${values['values'] === '' ? '' : ' --values values.yaml'}`
            : `--repository ${quoted(url(values['repository']))} --ref ${quoted(values['ref'] ?? '')} --folder ${quoted(values['folder'] ?? '')}`,
          ...imported(values).map((id) => `--import ${quoted(stacks.data?.find((one) => one.id === id)?.name ?? 'STACK')}`),
          isOn(values, 'manual') ? '--sync manual' : '',
          isOn(values, 'dryRun') ? '--dry-run=true' : '',
        ]
          .filter((word) => word !== '')
          .join(' ')
      }
      run={async (values) => {
        const name = (values['name'] ?? '').trim();
        const { cluster: handle = '' } = values;
        await ask(Create, {
          cluster: handle,
          attributes: {
            name,
            namespace: given(values, 'namespace') ?? name,
            dryRun: isOn(values, 'dryRun'),
            ...(imported(values).length > 0 && { imports: imported(values).map((stackId) => ({ stackId })) }),
            ...(isOn(values, 'manual') && { syncConfig: { policy: { manual: true } } }),
            ...(isChart(values)
              ? {
                  helm: {
                    url: given(values, 'url'),
                    chart: given(values, 'chart'),
                    version: given(values, 'version'),
                    values: given(values, 'values'),
                  },
                }
              : {
                  repositoryId: given(values, 'repository'),
                  git: { ref: (values['ref'] ?? '').trim(), folder: (values['folder'] ?? '').trim() },
                }),
          },
        });
        await navigate({ to: paths.service(handle, name) });
      }}
      done="Created the service"
    />
  );
}
