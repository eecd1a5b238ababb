import { Button, Group, Stack, Stepper, Text } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { IconPlus } from '@tabler/icons-react';
import { useState, type SyntheticEvent } from 'react';

import { projectsQuery } from '../access/queries';
import { clustersQuery } from '../cluster/queries';
import type { StackAttributes, StackType } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action, Command } from '../parts/action';
import { Fields, given, initialValues, isOn, missing, type Field, type Values } from '../parts/form';
import { Facts, Page, Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { repositoriesQuery } from '../repository/queries';
import { importableStacksQuery } from '../service/configuration-queries';
import { definitionsQuery } from '../stackdefinition/queries';
import { customOptions, definedAttributes, definedFields, lookAttributes, lookField } from './custom';
import { nodeAttributes, nodeFields } from './job-place';
import { Create } from './mutations';
import { needsAttributes, needsField, needsOptions } from './needs';
import { approvalOf } from './overview';
import { approvalAttributes, approvalFields, approvalOptions } from './settings';
import { keepsState, types } from './states';
import { environmentAttributes, environmentField, environmentNames, environmentOptions } from './variables';

const isRun = (values: Values) => values['from'] !== 'nowhere';
const typeOf = (values: Values): StackType =>
  (Object.keys(types) as StackType[]).find((one) => one === values['type']) ?? 'TERRAFORM';
const isOf =
  (...some: StackType[]) =>
  (values: Values) =>
    some.includes(typeOf(values));
/** Values that make a form of approval begin as most stacks should have it. */
const CAREFUL = { approval: true, requiredApprovals: 1, forbidSelfApproval: false, approvalExpiry: null, commandApproval: false };

interface Known {
  projects: { id: string; name: string }[];
  repositories: { id: string; url: string }[];
  clusters: { id: string; handle?: string | null }[];
  definitions: { id: string; name: string }[];
  stacks: { id: string; name: string }[];
}

const nameIn = (stacks: Known['stacks']) => (id: string | undefined) => stacks.find((one) => one.id === id)?.name;

interface Part {
  title: string;
  told: string;
  fields: Field[];
}

function parts({ projects, repositories, clusters, definitions, stacks }: Known): Part[] {
  return [
    {
      title: 'Source',
      told: 'What it is called, and where its code is.',
      fields: [
        { name: 'name', label: 'Name', isRequired: true, placeholder: 'network', hint: 'Unique in the installation' },
        {
          name: 'project',
          label: 'Project',
          kind: 'choice',
          options: projects.map((one) => ({ value: one.id, label: one.name })),
          hint: 'The default project when empty. It stays there',
        },
        {
          name: 'from',
          label: 'Its code',
          kind: 'choice',
          isRequired: true,
          initial: 'git',
          options: [
            { value: 'git', label: 'is in a git repository: it is planned and applied from here' },
            { value: 'nowhere', label: 'is run elsewhere: only its state is kept here' },
          ],
        },
        {
          name: 'repository',
          label: 'Repository',
          kind: 'choice',
          isRequired: true,
          options: repositories.map((one) => ({ value: one.id, label: one.url })),
          hint: 'One that is missing is added under Settings, Git repositories',
          when: isRun,
        },
        {
          name: 'ref',
          label: 'Branch, tag, commit, or range of tags',
          isRequired: true,
          initial: 'main',
          when: isRun,
        },
        { name: 'folder', label: 'Folder', hint: 'The root when empty', when: isRun },
      ],
    },
    {
      title: 'Tool',
      told: 'What reads the code.',
      fields: [
        {
          name: 'type',
          label: 'Tool',
          kind: 'choice',
          isRequired: true,
          initial: 'TERRAFORM',
          options: (Object.keys(types) as StackType[]).map((value) => ({ value, label: types[value] })),
        },
        {
          name: 'program',
          label: 'Program',
          kind: 'choice',
          isRequired: true,
          initial: 'tofu',
          options: [
            { value: 'tofu', label: 'tofu' },
            { value: 'terraform', label: 'terraform' },
          ],
          when: (values) => isRun(values) && isOf('TERRAFORM')(values),
        },
        {
          name: 'version',
          label: 'Version',
          hint: 'The tag of its image; a default of the type when empty',
          when: (values) => isRun(values) && typeOf(values) !== 'CUSTOM',
        },
        {
          name: 'image',
          label: 'Image with the tool',
          hint: 'Without tag; a default of the type when empty',
          when: isRun,
        },
        {
          name: 'keeps',
          label: 'The console keeps its state: versions, locks, and who may read it',
          kind: 'check',
          initial: 'yes',
          when: (values) => isRun(values) && keepsState(typeOf(values)),
        },
        { name: 'playbook', label: 'Playbook', hint: 'main.yaml when empty', when: isOf('ANSIBLE') },
        {
          name: 'deletePlaybook',
          label: 'Playbook that undoes it',
          hint: 'Without one the stack cannot be destroyed',
          when: isOf('ANSIBLE'),
        },
        {
          name: 'backend',
          label: 'Where its state is',
          isRequired: true,
          placeholder: 's3://bucket',
          when: isOf('PULUMI'),
        },
        ...[...definedFields({}, definitions), lookField({})].map((field): Field => ({
          ...field,
          when: (values) => isOf('CUSTOM')(values) && field.when?.(values) !== false,
        })),
      ],
    },
    {
      title: 'Runs where',
      told: 'An agent in your cluster starts a Kubernetes Job for each plan and each apply; no Pod waits for a person.',
      fields: [
        {
          name: 'cluster',
          label: 'Cluster whose agent runs it',
          kind: 'choice',
          isRequired: true,
          options: clusters.map((one) => ({ value: one.id, label: one.handle ?? one.id })),
          when: isRun,
        },
        {
          name: 'namespace',
          label: 'Namespace of its Jobs',
          hint: 'As its project says when empty, else plural-runs',
          when: isRun,
        },
        { name: 'account', label: 'ServiceAccount of its Jobs', hint: 'As its project says when empty', when: isRun },
        ...nodeFields().map((field): Field => ({ ...field, when: isRun })),
      ],
    },
    {
      title: 'Inputs',
      told: 'What its runs are given besides the code.',
      fields: [
        ...(stacks.length === 0
          ? []
          : [
              needsField(
                stacks.map((one) => ({ value: one.id, label: one.name })),
                nameIn(stacks),
              ),
            ]),
        environmentField,
      ].map((field): Field => ({ ...field, when: isRun })),
    },
    {
      title: 'Approval',
      told: 'Who reads a plan before it is applied. A plan that changes nothing needs nobody.',
      fields: [
        ...approvalFields(CAREFUL).map((field) => ({
          ...field,
          when: (values: Values) => isRun(values) && field.when?.(values) !== false,
        })),
        { name: 'protect', label: 'Refuse its deletion', kind: 'check' },
      ],
    },
  ];
}

function attributesOf(values: Values): StackAttributes {
  const type = typeOf(values);
  const at = (name: string) => given(values, name);
  return {
    name: (values['name'] ?? '').trim(),
    type,
    projectId: at('project'),
    protect: isOn(values, 'protect'),
    ...(isRun(values) && {
      repositoryId: at('repository'),
      clusterId: at('cluster'),
      git: { ref: (values['ref'] ?? '').trim(), folder: (values['folder'] ?? '').trim() },
      manageState: keepsState(type) && isOn(values, 'keeps'),
      ...approvalAttributes(values),
      configuration: {
        version: at('version'),
        image: at('image'),
        ...(type === 'TERRAFORM' && { terraform: { tofu: values['program'] !== 'terraform' } }),
        ...(type === 'ANSIBLE' && { ansible: { playbook: at('playbook'), deletePlaybook: at('deletePlaybook') } }),
        ...(type === 'PULUMI' && { pulumi: { backendUrl: at('backend') } }),
      },
      ...(type === 'CUSTOM' && { ...definedAttributes(values, {}), ...lookAttributes(values, {}) }),
      ...(['namespace', 'account', 'nodes', 'taints'].some((name) => at(name) !== null) && {
        jobSpec: { namespace: at('namespace'), serviceAccount: at('account'), ...nodeAttributes(values) },
      }),
      ...(given(values, 'needs') !== null && needsAttributes(values)),
      ...environmentAttributes(values),
    }),
  };
}

/** What no option of the command line gives. */
function settingsOf(values: Values) {
  const type = typeOf(values);
  const job = nodeAttributes(values);
  return {
    ...(type === 'PULUMI' && { configuration: { pulumi: { backendUrl: given(values, 'backend') } } }),
    ...(isRun(values) && type === 'CUSTOM' && lookAttributes(values, {})),
    ...(isRun(values) && Object.keys(job).length > 0 && { jobSpec: job }),
  };
}

function commandOf(values: Values, { projects, repositories, clusters, definitions, stacks }: Known): string {
  const type = typeOf(values);
  const option = (name: string, flag: string) =>
    given(values, name) === null ? [] : [`--${flag} ${quoted((values[name] ?? '').trim())}`];
  const named = <One extends { id: string }>(all: One[], name: string) => all.find(({ id }) => id === values[name]);
  const project = named(projects, 'project');
  const definition = named(definitions, 'definition');
  const line = [
    `plural cd stacks create ${quoted((values['name'] ?? '').trim() || 'NAME')}`,
    ...(type === 'TERRAFORM' ? [] : [`--type ${type.toLowerCase()}`]),
    ...(project ? [`--project ${quoted(project.name)}`] : []),
    ...(isOn(values, 'protect') ? ['--protect'] : []),
    ...(isRun(values)
      ? [
          `--repository ${quoted(named(repositories, 'repository')?.url ?? 'URL')}`,
          ...option('ref', 'ref'),
          ...option('folder', 'folder'),
          `--cluster ${quoted(named(clusters, 'cluster')?.handle ?? 'CLUSTER')}`,
          ...(type === 'TERRAFORM' && values['program'] === 'terraform' ? ['--terraform'] : []),
          ...(type === 'CUSTOM' ? [] : option('version', 'tool-version')),
          ...option('image', 'tool-image'),
          `--manage-state=${String(keepsState(type) && isOn(values, 'keeps'))}`,
          ...(type === 'ANSIBLE' ? [...option('playbook', 'playbook'), ...option('deletePlaybook', 'delete-playbook')] : []),
          ...(type === 'CUSTOM' ? (definition ? [`--definition ${quoted(definition.name)}`] : customOptions(values)) : []),
          ...option('namespace', 'job-namespace'),
          ...option('account', 'job-service-account'),
          ...needsOptions(values, nameIn(stacks)),
          ...environmentOptions(values),
          ...approvalOptions(values),
        ]
      : []),
  ].join(' ');
  const more = settingsOf(values);
  return Object.keys(more).length === 0 ? line : `${line} --settings - <<'SETTINGS'\n${JSON.stringify(more, null, 2)}\nSETTINGS`;
}

/** Makes a stack: where its code is, what reads it, where that runs, who agrees. */
export function NewStackPage() {
  const projects = useInfiniteQuery(projectsQuery).data ?? [];
  const repositories = useInfiniteQuery(repositoriesQuery).data ?? [];
  const clusters = useInfiniteQuery(clustersQuery({}, 200)).data ?? [];
  const definitions = useInfiniteQuery(definitionsQuery).data ?? [];
  const stacks = useQuery(importableStacksQuery).data ?? [];
  const isNarrow = useMediaQuery('(max-width: 760px)', false, { getInitialValueInEffect: false });
  const known = { projects, repositories, clusters, definitions, stacks };
  const all = parts(known);
  const [at, setAt] = useState(0);
  const [isTried, setTried] = useState(false);
  const [values, setValues] = useState<Values>(() => initialValues(all.flatMap(({ fields }) => fields)));
  const navigate = useNavigate();
  const project = (projects.find(({ id }) => id === values['project']) ?? projects.find((one) => one.default === true))?.name;
  const part = all[at];
  const lacks = part ? missing(part.fields, values) : [];
  // What is still missing in an earlier part: one goes back to it.
  const firstGap = all.findIndex(({ fields }) => missing(fields, values).length > 0);
  const go = (to: number) => {
    setTried(false);
    setAt(to);
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (part) {
      setTried(true);
      if (lacks.length === 0) go(at + 1);
    }
  };
  const command = commandOf(values, known);
  return (
    <Page title="Create a stack" within={[{ name: 'Stacks', to: paths.stacks() }]}>
      <Panel title={part?.title ?? 'Review'}>
        <form onSubmit={submit} noValidate>
          <Stack gap="md" p="md" maw={760}>
            <Stepper
              active={at}
              onStepClick={go}
              size="xs"
              orientation={isNarrow ? 'vertical' : 'horizontal'}
              allowNextStepsSelect={false}
            >
              {[...all, { title: 'Review' }].map(({ title }) => (
                <Stepper.Step key={title} label={title} />
              ))}
            </Stepper>
            {part ? (
              <>
                <Text size="sm">{part.told}</Text>
                {(part.title === 'Runs where' || part.title === 'Inputs') && !isRun(values) && (
                  <Text size="sm">Nothing: whoever runs its tool does so elsewhere, and writes the state here.</Text>
                )}
                <Fields key={at} fields={part.fields} values={values} onChange={setValues} lacks={isTried ? lacks : []} />
              </>
            ) : (
              <Review values={values} known={known} />
            )}
            <Command line={command} />
            <Group gap="sm">
              {at > 0 && (
                <Button variant="default" onClick={() => go(at - 1)}>
                  Back
                </Button>
              )}
              {part ? (
                <Button type="submit">Next</Button>
              ) : (
                <Action
                  key={project}
                  noun="stack"
                  label="Make the stack"
                  icon={IconPlus}
                  {...(project !== undefined && { right: { verb: 'create', thing: 'stacks', within: `project/${project}` } })}
                  unless={firstGap < 0 ? undefined : `Something is missing under ${all[firstGap]?.title ?? ''}: go back to it.`}
                  explains={
                    isRun(values)
                      ? 'Its newest commit is read at once, and a run plans it.'
                      : 'Its page says how its tool finds the state.'
                  }
                  command={command}
                  run={async () => {
                    const { createStack: made } = await ask(Create, { attributes: attributesOf(values) });
                    if (made) await navigate({ to: paths.stack(made.name) });
                  }}
                  done="Made the stack"
                />
              )}
            </Group>
          </Stack>
        </form>
      </Panel>
    </Page>
  );
}

function Review({ values, known }: { values: Values; known: Known }) {
  const type = typeOf(values);
  const named = <One extends { id: string }>(all: One[], name: string) => all.find(({ id }) => id === values[name]);
  return (
    <>
      <Facts
        facts={[
          ['Name', <Name key="n" of={(values['name'] ?? '').trim()} />],
          ['Project', <Name key="p" of={named(known.projects, 'project')?.name ?? 'the default one'} />],
          ['Tool', type === 'TERRAFORM' && isRun(values) ? values['program'] : types[type]],
          [
            'Code',
            isRun(values) ? (
              <Name
                of={`${named(known.repositories, 'repository')?.url ?? ''}, ${(values['folder'] ?? '') === '' ? 'the root' : (values['folder'] ?? '')} at ${values['ref'] ?? ''}`}
              />
            ) : (
              'is run elsewhere'
            ),
          ],
          ['Commands of', type === 'CUSTOM' && <Name of={named(known.definitions, 'definition')?.name ?? 'its own'} />],
          ['Runs on', isRun(values) && <Name of={named(known.clusters, 'cluster')?.handle ?? ''} />],
          [
            'Depends on',
            isRun(values) && given(values, 'needs') !== null && (
              <Name
                of={needsAttributes(values)
                  .dependencies.flatMap(({ stackId }) => nameIn(known.stacks)(stackId) ?? [])
                  .join(', ')}
              />
            ),
            'wide',
          ],
          ['Variables', isRun(values) && environmentNames(values) !== '' && <Name of={environmentNames(values)} />, 'wide'],
          ['State', keepsState(type) && (!isRun(values) || isOn(values, 'keeps')) && 'is kept here'],
          [
            'Approval',
            isRun(values) &&
              approvalOf({
                approval: isOn(values, 'approval'),
                requiredApprovals: Number(values['approvers'] ?? 1),
                forbidSelfApproval: isOn(values, 'forbidSelf'),
                approvalExpiry: given(values, 'expiry'),
                commandApproval: isOn(values, 'commands'),
              }),
            'wide',
          ],
          ['Deletion', isOn(values, 'protect') && 'is refused'],
        ]}
      />
      <Text size="sm">
        {isRun(values)
          ? 'Files, hooks and schedules are given under Settings of the stack: where its code needs them, the first plan fails and says so.'
          : ''}{' '}
        You need the right to write in its project; <RouteLink to={paths.settings('projects')}>Projects</RouteLink> says who gives
        it.
      </Text>
    </>
  );
}
