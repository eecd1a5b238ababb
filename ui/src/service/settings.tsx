import { Group, Stack } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { IconCopy, IconGitBranch, IconKey, IconPencil, IconShield } from '@tabler/icons-react';

import { clustersQuery } from '../cluster/queries';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Bindings } from '../access/bindings';
import { Action } from '../parts/action';
import { given, isOn, words, type Field } from '../parts/values';
import { Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { Clone, RotateSeed, Update } from './mutations';
import { type Service } from './queries';

const yes = (is: boolean | null | undefined, absent = false) => ((is ?? absent) ? 'yes' : '');

/** How it is applied, where it is read from, and who may do what: seen and changed here. */
export function ServiceSettings({ service, cluster }: { service: Service; cluster: string }) {
  const { id, name, syncConfig, git } = service;
  const policy = syncConfig?.policy;
  const which = `${cluster}/${name}`;
  const right = { verb: 'update', thing: `service/${which}` };
  const begin = `plural cd services update ${quoted(which)}`;
  const clusters = useInfiniteQuery(clustersQuery({}, 200));
  const syncFields: Field[] = [
    {
      name: 'manual',
      label: 'A new revision waits until somebody asks for a sync',
      kind: 'check',
      initial: yes(policy?.manual),
    },
    { name: 'prune', label: 'What left git is deleted', kind: 'check', initial: yes(policy?.prune, true) },
    {
      name: 'selfHeal',
      label: 'Changes that did not come from git are put right',
      kind: 'check',
      initial: yes(policy?.selfHeal, true),
    },
    {
      name: 'waveWait',
      label: 'A wave waits for the health of the one before',
      kind: 'check',
      initial: yes(policy?.waveWait, true),
    },
    {
      name: 'prunePercent',
      label: 'Percent that may be deleted without approval',
      kind: 'number',
      initial: policy?.prunePercent == null ? '' : String(policy.prunePercent),
      hint: '20 when empty',
    },
    {
      name: 'pruneObjects',
      label: 'Or this number of objects, where that is more',
      kind: 'number',
      initial: policy?.pruneObjects == null ? '' : String(policy.pruneObjects),
      hint: '10 when empty',
    },
    {
      name: 'waveTimeout',
      label: 'How long a wave may take to become healthy',
      initial: policy?.waveTimeout ?? '',
      hint: '90s, 5m, 1h; 10 minutes when empty',
    },
    {
      name: 'dryRun',
      label: 'Only plan and report, apply nothing',
      kind: 'check',
      initial: yes(service.dryRun),
    },
    { name: 'protect', label: 'Refuse its deletion', kind: 'check', initial: yes(service.protect) },
  ];
  const number = (text: string | null) => (text === null ? null : Number(text));
  const dependencies = (service.dependencies ?? []).flatMap((one) => one ?? []);
  return (
    <Stack gap="md">
      <Panel
        title="How it is applied"
        aside={
          <Action
            noun="service"
            label="Change"
            icon={IconPencil}
            right={right}
            explains="What changes here counts from the next sync on."
            fields={syncFields}
            command={(values) =>
              [
                begin,
                `--sync ${isOn(values, 'manual') ? 'manual' : 'automatic'}`,
                ...['prune', 'dryRun', 'protect'].map(
                  (flag) => `--${flag === 'dryRun' ? 'dry-run' : flag}=${String(isOn(values, flag))}`,
                ),
                `--self-heal=${String(isOn(values, 'selfHeal'))}`,
                `--wave-wait=${String(isOn(values, 'waveWait'))}`,
                values['prunePercent'] === '' ? '' : `--prune-percent ${values['prunePercent'] ?? ''}`,
                values['pruneObjects'] === '' ? '' : `--prune-objects ${values['pruneObjects'] ?? ''}`,
                values['waveTimeout'] === '' ? '' : `--wave-timeout ${quoted(values['waveTimeout'] ?? '')}`,
              ]
                .filter((word) => word !== '')
                .join(' ')
            }
            run={(values) =>
              ask(Update, {
                id,
                attributes: {
                  dryRun: isOn(values, 'dryRun'),
                  protect: isOn(values, 'protect'),
                  syncConfig: {
                    policy: {
                      manual: isOn(values, 'manual'),
                      prune: isOn(values, 'prune'),
                      selfHeal: isOn(values, 'selfHeal'),
                      waveWait: isOn(values, 'waveWait'),
                      prunePercent: number(given(values, 'prunePercent')),
                      pruneObjects: number(given(values, 'pruneObjects')),
                      waveTimeout: given(values, 'waveTimeout'),
                    },
                  },
                },
              })
            }
            done={`Changed how ${name} is applied`}
          />
        }
      >
        <Facts
          facts={[
            ['New revisions', policy?.manual === true ? 'wait until somebody asks for a sync' : 'are applied by themselves'],
            [
              'What left git',
              policy?.prune === false
                ? 'stays'
                : `is deleted; more than ${policy?.prunePercent ?? 20} % and ${policy?.pruneObjects ?? 10} objects need approval`,
            ],
            ['Foreign changes', policy?.selfHeal === false ? 'are told and left' : 'are put right'],
            [
              'Waves',
              policy?.waveWait === false ? 'do not wait for each other' : `wait for health, ${policy?.waveTimeout ?? '10m'} each`,
            ],
            ['Tries', policy?.retryLimit == null ? 'without limit' : policy.retryLimit],
            ['Applied', service.dryRun === true ? 'no: only planned and reported' : 'yes'],
            ['Deletion', service.protect === true ? 'is refused' : 'is allowed'],
            [
              'Rights of',
              syncConfig?.serviceAccount == null ? (
                'the agent'
              ) : (
                <Name key="sa" of={`ServiceAccount ${syncConfig.serviceAccount}`} />
              ),
            ],
            ['Namespace', syncConfig?.createNamespace === true ? 'is created when it is missing' : 'must be there'],
          ]}
        />
      </Panel>
      <Panel
        title="Where it is read from"
        aside={
          <Group gap="sm">
            <Action
              noun="service"
              label="Change"
              icon={IconGitBranch}
              right={right}
              unless={git == null ? 'It is read from a chart repository only: change it with the command line.' : undefined}
              explains="The service is fetched from there at once, and what differs is applied as its sync settings say."
              fields={[
                { name: 'ref', label: 'Branch, tag, commit, or range of tags', isRequired: true, initial: git?.ref ?? '' },
                { name: 'folder', label: 'Folder', initial: git?.folder ?? '', hint: 'The root when empty' },
              ]}
              command={({ ref = '', folder = '' }) => `${begin} --ref ${quoted(ref)} --folder ${quoted(folder)}`}
              run={({ ref = '', folder = '' }) =>
                ask(Update, { id, attributes: { git: { ref: ref.trim(), folder: folder.trim() } } })
              }
              done={`Changed where ${name} is read from`}
            />
            <Action
              noun="service"
              label="Dependencies"
              icon={IconPencil}
              right={right}
              explains="A new revision of the service waits until all of these are healthy."
              fields={[
                {
                  name: 'needs',
                  label: 'Services, one a line',
                  kind: 'area',
                  initial: dependencies.map((one) => (one.cluster == null ? one.name : `${one.cluster}/${one.name}`)).join('\n'),
                  hint: 'NAME on the same cluster, CLUSTER/NAME elsewhere; none when empty',
                },
              ]}
              command={(values) => {
                const needs = words(values, 'needs');
                return `${begin} ${needs.length === 0 ? '--no-dependencies' : needs.map((one) => `--depends-on ${quoted(one)}`).join(' ')}`;
              }}
              run={(values) =>
                ask(Update, {
                  id,
                  attributes: {
                    dependencies: words(values, 'needs').map((one) => {
                      const [first = '', second] = one.split('/');
                      return second === undefined ? { name: first } : { cluster: first, name: second };
                    }),
                  },
                })
              }
              done={`Changed what ${name} needs`}
            />
          </Group>
        }
      >
        <Facts
          facts={[
            ['Repository', service.repository && <Name key="r" of={service.repository.url} />],
            ['Ref', git && <Name key="ref" of={git.ref} />],
            ['Folder', git && <Name key="f" of={git.folder === '' ? 'the root' : git.folder} />],
            [
              'Chart',
              service.helm && (
                <Name
                  key="c"
                  of={[service.helm.chart, service.helm.version, service.helm.url].filter((part) => part != null).join(' ')}
                />
              ),
            ],
            ['Needs', dependencies.map((one) => one.name).join(', ') || 'no other service'],
          ]}
        />
      </Panel>
      <Bindings thing={{ serviceId: id }} right={`service/${which}`} kind="service" name={which} />
      <Panel title="More">
        <Group gap="sm" p="md">
          <Action
            noun="service"
            label="Copy to a cluster"
            icon={IconCopy}
            right={{ verb: 'get', thing: `service/${which}` }}
            explains="Creates a copy of the service, its secrets included, on another cluster or under another name."
            fields={[
              {
                name: 'cluster',
                label: 'Cluster',
                kind: 'choice',
                isRequired: true,
                options: (clusters.data ?? []).map((one) => ({ value: one.id, label: one.handle ?? one.name })),
              },
              { name: 'name', label: 'Name', isRequired: true, initial: name },
              { name: 'namespace', label: 'Namespace', initial: service.namespace },
            ]}
            command={(values) => {
              const to = (clusters.data ?? []).find((one) => one.id === values['cluster'])?.handle ?? 'CLUSTER';
              return `plural cd services clone ${quoted(which)} ${quoted(`${to}/${values['name'] ?? ''}`)}`;
            }}
            run={(values) =>
              ask(Clone, {
                id,
                clusterId: values['cluster'] ?? '',
                attributes: { name: (values['name'] ?? '').trim(), namespace: given(values, 'namespace') },
              })
            }
            done={`Copied ${name}`}
          />
          <Action
            noun="service"
            label="Generate other secrets"
            icon={IconKey}
            right={right}
            explains="Templates of the service generate other passwords, keys and certificates than before. What uses them must take them over."
            command={`plural cd services rotate-seed ${quoted(which)}`}
            confirm={name}
            run={() => ask(RotateSeed, { id })}
            done="Other secrets are generated with the next rendering"
          />
          <Action
            noun="service"
            label={service.protect === true ? 'Remove the protection' : 'Protect'}
            icon={IconShield}
            right={right}
            explains={
              service.protect === true
                ? 'Its deletion is possible again.'
                : 'Its deletion is refused until the protection is removed.'
            }
            command={`${begin} --protect=${String(service.protect !== true)}`}
            run={() => ask(Update, { id, attributes: { protect: service.protect !== true } })}
            done={service.protect === true ? `${name} is not protected any more` : `${name} is protected`}
          />
        </Group>
      </Panel>
    </Stack>
  );
}
