import { Group, Stack } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconAdjustments, IconGitBranch, IconPencil, IconShield, IconTags, IconUsers } from '@tabler/icons-react';

import { clustersQuery } from '../cluster/queries';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { given, isOn, type Field } from '../parts/form';
import { Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { pairs } from '../parts/values';
import { paths } from '../paths';
import { repositoriesQuery } from '../repository/queries';
import { Actor } from './actor';
import { StackBindings } from './bindings';
import { commands, stackRight } from './commands';
import { CommandsPanel, line } from './custom';
import { Needs } from './needs';
import { Environment } from './environment';
import { Follow } from './follow';
import { hookField, hooksOf } from './hooks';
import { asMap, lines, nodeFields, tolerated, tolerations } from './job-place';
import { Update } from './mutations';
import { approvalOf, follows } from './overview';
import { Policy } from './policy';
import type { StackOne } from './queries';
import { Schedules } from './schedules';
import { imageOf, keepsState, types } from './states';

/** What a stack is given: changed here by right. */
export function StackSettings({ stack }: { stack: StackOne }) {
  return (
    <Stack gap="md">
      <Source stack={stack} />
      <Follow stack={stack} />
      <Approval stack={stack} />
      <Policy stack={stack} />
      <Schedules stack={stack} />
      <Needs stack={stack} />
      <Tool stack={stack} />
      {stack.type === 'CUSTOM' && <CommandsPanel stack={stack} />}
      <Environment stack={stack} />
      <Job stack={stack} />
      <Actor stack={stack} />
      <StackBindings stack={stack} />
      <More stack={stack} />
    </Stack>
  );
}

const right = (stack: StackOne) => stackRight(stack.name, 'update');
const leaves = (stack: StackOne) => (stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.');

function Source({ stack }: { stack: StackOne }) {
  const clusters = useInfiniteQuery(clustersQuery({}, 200));
  const repositories = useInfiniteQuery(repositoriesQuery);
  const { id, name, git, repository, cluster } = stack;
  const url = (of: string | undefined) => (repositories.data ?? []).find((one) => one.id === of)?.url ?? repository?.url ?? 'URL';
  const handle = (of: string | undefined) =>
    (clusters.data ?? []).find((one) => one.id === of)?.handle ?? cluster?.handle ?? 'CLUSTER';
  const known = <One extends { value: string }>(all: One[], one: One | undefined) =>
    one && !all.some(({ value }) => value === one.value) ? [...all, one] : all;
  return (
    <Panel
      title="Code, and where it runs"
      aside={
        <Action
          key={`${repository?.id ?? ''} ${git?.ref ?? ''} ${git?.folder ?? ''} ${cluster?.id ?? ''}`}
          noun="stack"
          label="Change"
          icon={IconGitBranch}
          right={right(stack)}
          unless={leaves(stack)}
          explains={`Runs read it from there. ${follows(stack)}`}
          fields={[
            {
              name: 'repository',
              label: 'Repository',
              kind: 'choice',
              isRequired: true,
              initial: repository?.id ?? '',
              options: known(
                (repositories.data ?? []).map((one) => ({ value: one.id, label: one.url })),
                repository ? { value: repository.id, label: repository.url } : undefined,
              ),
              hint: 'One that is missing is added under Settings, Git repositories',
            },
            { name: 'ref', label: 'Branch, tag, commit, or range of tags', isRequired: true, initial: git?.ref ?? 'main' },
            { name: 'folder', label: 'Folder', initial: git?.folder ?? '', hint: 'The root when empty' },
            {
              name: 'workdir',
              label: 'Folder below it in which the tool runs',
              initial: stack.workdir ?? '',
              hint: 'The same folder when empty. Modules beside it are taken along',
            },
            {
              name: 'cluster',
              label: 'Cluster whose agent runs it',
              kind: 'choice',
              isRequired: true,
              initial: cluster?.id ?? '',
              options: known(
                (clusters.data ?? []).map((one) => ({ value: one.id, label: one.handle ?? one.name })),
                cluster ? { value: cluster.id, label: cluster.handle ?? '' } : undefined,
              ),
            },
          ]}
          command={(values) =>
            commands.update(
              name,
              `--repository ${quoted(url(values['repository']))}`,
              `--ref ${quoted(values['ref'] ?? '')}`,
              `--folder ${quoted(values['folder'] ?? '')}`,
              ...(values['workdir'] === (stack.workdir ?? '') ? [] : [`--workdir ${quoted(values['workdir'] ?? '')}`]),
              `--cluster ${quoted(handle(values['cluster']))}`,
            )
          }
          run={(values) =>
            ask(Update, {
              id,
              attributes: {
                repositoryId: values['repository'] ?? '',
                clusterId: values['cluster'] ?? '',
                git: { ref: (values['ref'] ?? '').trim(), folder: (values['folder'] ?? '').trim() },
                workdir: (values['workdir'] ?? '').trim(),
              },
            })
          }
          done={`Changed where ${name} is read from`}
        />
      }
    >
      <Facts
        facts={[
          [
            'Repository',
            repository ? (
              <Name of={repository.url} />
            ) : git == null ? (
              'none: only its state is kept here'
            ) : (
              'one that you may not see'
            ),
          ],
          ['Ref', git && <Name of={git.ref} />],
          ['Folder', git && <Name of={git.folder === '' ? 'the root' : git.folder} />],
          ['Working folder', stack.workdir != null && stack.workdir !== '' && <Name of={stack.workdir} />],
          ['Runs on', cluster && <Name of={cluster.handle ?? ''} />],
        ]}
      />
    </Panel>
  );
}

/** Who has to agree, as a form asks for it: here, and where a stack is made. */
export function approvalFields(
  of: Pick<StackOne, 'approval' | 'requiredApprovals' | 'forbidSelfApproval' | 'approvalExpiry' | 'commandApproval'>,
): Field[] {
  const isAsked = (values: Record<string, string>) => isOn(values, 'approval');
  return [
    {
      name: 'approval',
      label: 'A plan that changes something waits for people',
      kind: 'check',
      initial: of.approval === true ? 'yes' : '',
    },
    {
      name: 'approvers',
      label: 'How many people have to agree',
      kind: 'number',
      initial: String(Math.max(1, of.requiredApprovals)),
      when: isAsked,
    },
    {
      name: 'forbidSelf',
      label: 'Whoever started the run, last changed the stack or wrote its code is none of them',
      kind: 'check',
      initial: of.forbidSelfApproval ? 'yes' : '',
      when: isAsked,
    },
    {
      name: 'expiry',
      label: 'A plan that waits ends after',
      placeholder: '24h',
      initial: of.approvalExpiry ?? '',
      hint: '90m, 24h; never when empty',
      when: isAsked,
    },
    {
      name: 'commands',
      label: 'All commands that somebody runs on demand wait, too',
      kind: 'check',
      initial: of.commandApproval ? 'yes' : '',
      hint: 'Without it, those that ask for the rights to apply',
      when: isAsked,
    },
  ];
}

export const approvalAttributes = (values: Record<string, string>) => ({
  approval: isOn(values, 'approval'),
  ...(isOn(values, 'approval') && {
    requiredApprovals: Math.max(1, Number(values['approvers'] ?? 1)),
    forbidSelfApproval: isOn(values, 'forbidSelf'),
    approvalExpiry: (values['expiry'] ?? '').trim(),
    commandApproval: isOn(values, 'commands'),
  }),
});

export const approvalOptions = (values: Record<string, string>): string[] =>
  isOn(values, 'approval')
    ? [
        '--approval',
        `--approvers ${Math.max(1, Number(values['approvers'] ?? 1))}`,
        `--forbid-self-approval=${String(isOn(values, 'forbidSelf'))}`,
        `--command-approval=${String(isOn(values, 'commands'))}`,
        ...(given(values, 'expiry') === null ? [] : [`--approval-expiry ${quoted((values['expiry'] ?? '').trim())}`]),
      ]
    : ['--approval=false'];

function Approval({ stack }: { stack: StackOne }) {
  return (
    <Panel
      title="Approval"
      aside={
        <Action
          key={approvalOf(stack)}
          noun="stack"
          label="Change"
          icon={IconUsers}
          right={right(stack)}
          unless={leaves(stack)}
          explains={`A plan that changes nothing needs nobody. ${follows(stack)}`}
          fields={approvalFields(stack)}
          command={(values) =>
            // No option ends an expiry.
            stack.approvalExpiry != null && isOn(values, 'approval') && given(values, 'expiry') === null
              ? commands.settings(stack.name, approvalAttributes(values))
              : commands.update(stack.name, ...approvalOptions(values))
          }
          run={(values) => ask(Update, { id: stack.id, attributes: approvalAttributes(values) })}
          done="Changed who has to agree"
        />
      }
    >
      <Facts
        facts={[
          ['Needs', approvalOf(stack), 'wide'],
          ['Last changed by', stack.changedBy && <Name of={stack.changedBy.email} />],
        ]}
      />
    </Panel>
  );
}

function Tool({ stack }: { stack: StackOne }) {
  const { id, name, configuration, type } = stack;
  const { terraform, terragrunt, pulumi, ansible } = configuration;
  const isOf = (...some: StackOne['type'][]) => some.includes(type);
  const parallelism = terraform?.parallelism ?? terragrunt?.parallelism ?? pulumi?.parallel;
  const fields: Field[] = [
    {
      name: 'image',
      label: 'Image with the tool',
      initial: configuration.image ?? '',
      hint: 'Without tag; the one of the type when empty',
    },
    {
      name: 'version',
      label: 'Version',
      initial: configuration.version ?? '',
      hint: 'The tag of the image, unless there is another below',
    },
    { name: 'tag', label: 'Tag of the image', initial: configuration.tag ?? '' },
    ...(isOf('TERRAFORM')
      ? [
          {
            name: 'tofu',
            label: 'Program',
            kind: 'choice' as const,
            isRequired: true,
            initial: terraform?.tofu === false ? 'terraform' : 'tofu',
            options: [
              { value: 'tofu', label: 'tofu' },
              { value: 'terraform', label: 'terraform' },
            ],
          },
        ]
      : []),
    ...(isOf('TERRAFORM', 'TERRAGRUNT', 'PULUMI')
      ? [
          {
            name: 'parallelism',
            label: 'Operations at once',
            kind: 'number' as const,
            initial: parallelism == null ? '' : String(parallelism),
          },
        ]
      : []),
    ...(isOf('TERRAFORM', 'TERRAGRUNT')
      ? [
          {
            name: 'refresh',
            label: 'Look at the real world before planning',
            kind: 'check' as const,
            initial: (terraform?.refresh ?? terragrunt?.refresh) === false ? '' : 'yes',
          },
        ]
      : []),
    ...(isOf('PULUMI')
      ? [
          { name: 'stack', label: 'Its stack', initial: pulumi?.stack ?? '', hint: 'dev when empty' },
          {
            name: 'backend',
            label: 'Where its state is',
            isRequired: true,
            initial: pulumi?.backendUrl ?? '',
            placeholder: 's3://bucket',
          },
        ]
      : []),
    ...(isOf('ANSIBLE')
      ? [
          { name: 'playbook', label: 'Playbook', initial: ansible?.playbook ?? '', hint: 'main.yaml when empty' },
          { name: 'inventory', label: 'Inventory', initial: ansible?.inventory ?? '' },
          {
            name: 'deletePlaybook',
            label: 'Playbook that undoes it',
            initial: ansible?.deletePlaybook ?? '',
            hint: 'Without one the stack cannot be destroyed',
          },
        ]
      : []),
    { name: 'timeout', label: 'A command ends after', initial: stack.timeout ?? '', hint: '30m, 2h; one hour when empty' },
    hookField(
      configuration.hooks,
      stack.definition
        ? 'Commands that run after a stage, in place of those of its definition'
        : 'Commands that run after a stage',
    ),
  ];
  const attributes = (values: Record<string, string>) => {
    const at = (field: string) => (values[field] ?? '').trim();
    const many = at('parallelism') === '' ? null : Number(at('parallelism'));
    const common = { parallelism: many, refresh: isOn(values, 'refresh') };
    return {
      timeout: at('timeout'),
      configuration: {
        image: at('image'),
        version: at('version'),
        tag: at('tag'),
        hooks: hooksOf(values, configuration.hooks),
        ...(isOf('TERRAFORM') && { terraform: { ...common, tofu: at('tofu') !== 'terraform' } }),
        ...(isOf('TERRAGRUNT') && { terragrunt: common }),
        ...(isOf('PULUMI') && { pulumi: { parallel: many, stack: at('stack'), backendUrl: at('backend') } }),
        ...(isOf('ANSIBLE') && {
          ansible: { playbook: at('playbook'), inventory: at('inventory'), deletePlaybook: at('deletePlaybook') },
        }),
      },
    };
  };
  return (
    <Panel
      title="Tool"
      aside={
        <Action
          noun="stack"
          label="Change"
          icon={IconAdjustments}
          right={right(stack)}
          unless={leaves(stack)}
          explains={follows(stack)}
          fields={fields}
          command={(values) => commands.settings(name, attributes(values))}
          run={(values) => ask(Update, { id, attributes: attributes(values) })}
          done={`Changed the tool of ${name}`}
        />
      }
    >
      <Facts
        facts={[
          ['Tool', type === 'TERRAFORM' ? (terraform?.tofu === false ? 'Terraform' : 'OpenTofu') : types[type]],
          ['Image', <Name key="image" of={imageOf(configuration, type, stack.definition)} />],
          ['State', keepsState(type) && (stack.manageState === true ? 'is kept here' : 'is kept elsewhere, as its code says')],
          ['Operations at once', parallelism],
          ['Playbook', ansible?.playbook != null && <Name of={ansible.playbook} />],
          ['Undone by', ansible?.deletePlaybook != null && <Name of={ansible.deletePlaybook} />],
          ['State is at', pulumi?.backendUrl != null && <Name of={pulumi.backendUrl} />],
          ['Commands end after', stack.timeout ?? 'one hour'],
          [
            'Hooks',
            (configuration.hooks ?? []).length > 0 &&
              (configuration.hooks ?? []).map(
                (hook, at) =>
                  hook && (
                    <div key={at}>
                      after {hook.afterStage.toLowerCase()}: <Name of={line(hook.cmd, hook.args ?? [])} />
                    </div>
                  ),
              ),
            'wide',
          ],
          [
            'Variables',
            typeof stack.variables === 'object' && stack.variables !== null && Object.keys(stack.variables).length > 0 && (
              <Name of={Object.keys(stack.variables).join(', ')} />
            ),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}

function Job({ stack }: { stack: StackOne }) {
  const { id, name, jobSpec: job } = stack;
  const { requests, limits } = job?.requests ?? {};
  const attributes = (values: Record<string, string>) => {
    const at = (field: string) => (values[field] ?? '').trim();
    return {
      jobSpec: {
        namespace: at('namespace'),
        serviceAccount: at('account'),
        labels: asMap(values, 'labels'),
        nodeSelector: asMap(values, 'nodes'),
        tolerations: tolerations(values),
        resources: {
          requests: { cpu: at('cpu'), memory: at('memory') },
          limits: { cpu: at('mostCpu'), memory: at('mostMemory') },
        },
      },
    };
  };
  return (
    <Panel
      title="Job"
      aside={
        <Action
          noun="stack"
          label="Change"
          icon={IconPencil}
          right={right(stack)}
          unless={leaves(stack)}
          explains={`The Kubernetes Job of each run. The limits of the project hold: what they forbid is refused, by the console and by the agent. ${follows(stack)}`}
          fields={[
            {
              name: 'namespace',
              label: 'Namespace',
              initial: job?.namespace ?? '',
              hint: 'As its project and the installation say when empty, else plural-runs',
            },
            { name: 'account', label: 'ServiceAccount', initial: job?.serviceAccount ?? '' },
            { name: 'labels', label: 'Labels', kind: 'area', initial: lines(job?.labels), hint: 'team=shop, one a line' },
            ...nodeFields(job),
            { name: 'cpu', label: 'Processor that it asks for', initial: requests?.cpu ?? '', placeholder: '250m' },
            { name: 'memory', label: 'Memory that it asks for', initial: requests?.memory ?? '', placeholder: '512Mi' },
            { name: 'mostCpu', label: 'Processor that it may take', initial: limits?.cpu ?? '' },
            { name: 'mostMemory', label: 'Memory that it may take', initial: limits?.memory ?? '', placeholder: '1Gi' },
          ]}
          command={(values) => commands.settings(name, attributes(values))}
          run={(values) => ask(Update, { id, attributes: attributes(values) })}
          done={`Changed the Job of ${name}`}
        />
      }
    >
      <Facts
        facts={[
          ['Namespace', <Name key="ns" of={job?.namespace ?? 'as its project says'} />],
          ['ServiceAccount', <Name key="sa" of={job?.serviceAccount ?? 'as its project says'} />],
          ['Labels', lines(job?.labels) !== '' && <Name of={lines(job?.labels).replaceAll('\n', ', ')} />],
          ['Nodes with', lines(job?.nodeSelector) !== '' && <Name of={lines(job?.nodeSelector).replaceAll('\n', ', ')} />],
          ['Tolerates', tolerated(job?.tolerations) !== '' && <Name of={tolerated(job?.tolerations).replaceAll('\n', ', ')} />],
          [
            'Asks for',
            [requests?.cpu != null && `${requests.cpu} processor`, requests?.memory != null && `${requests.memory} memory`]
              .filter(Boolean)
              .join(', '),
          ],
          [
            'May take',
            [limits?.cpu != null && `${limits.cpu} processor`, limits?.memory != null && `${limits.memory} memory`]
              .filter(Boolean)
              .join(', '),
          ],
        ]}
      />
    </Panel>
  );
}

function More({ stack }: { stack: StackOne }) {
  const { id, name, protect } = stack;
  const navigate = useNavigate();
  const tags = (stack.tags ?? []).flatMap((tag) => (tag ? [`${tag.name}=${tag.value}`] : []));
  return (
    <Panel title="More">
      <Group gap="sm" p="md">
        <Action
          key={String(protect)}
          noun="stack"
          label={protect ? 'Remove the protection' : 'Protect'}
          icon={IconShield}
          right={right(stack)}
          unless={leaves(stack)}
          explains={protect ? 'Its deletion is possible again.' : 'Its deletion is refused until the protection is removed.'}
          command={commands.update(name, `--protect ${String(!protect)}`)}
          run={() => ask(Update, { id, attributes: { protect: !protect } })}
          done={protect ? `${name} is not protected any more` : `${name} is protected`}
        />
        <Action
          key={`tags ${tags.join(' ')}`}
          noun="stack"
          label="Change the tags"
          icon={IconTags}
          right={right(stack)}
          unless={leaves(stack)}
          explains="Stacks are grouped and found by tags. No run begins."
          fields={[{ name: 'tags', label: 'Tags, one a line', kind: 'area', initial: tags.join('\n'), hint: 'NAME=VALUE' }]}
          command={(values) => {
            const all = pairs(values, 'tags').map((tag) => `--tag ${quoted(`${tag.name}=${tag.value}`)}`);
            return commands.update(name, ...(all.length === 0 ? ['--tag-none'] : all));
          }}
          run={(values) => ask(Update, { id, attributes: { tags: pairs(values, 'tags') } })}
          done={`Changed the tags of ${name}`}
        />
        <Action
          key={name}
          noun="stack"
          label="Rename"
          icon={IconPencil}
          right={right(stack)}
          unless={leaves(stack)}
          explains="Its address changes with it; its id, its state and its runs stay."
          fields={[{ name: 'name', label: 'Name', isRequired: true, initial: name }]}
          command={(values) => commands.update(name, `--name ${quoted(values['name'] ?? '')}`)}
          run={async (values) => {
            const next = (values['name'] ?? '').trim();
            await ask(Update, { id, attributes: { name: next } });
            await navigate({ to: paths.stack(next), search: { tab: 'settings' } as never, replace: true });
          }}
          done={`Renamed ${name}`}
        />
      </Group>
    </Panel>
  );
}
