import { Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconKey, IconPencil, IconPlus, IconRefresh, IconStar, IconTrash, IconVideo } from '@tabler/icons-react';

import { Bindings } from '../access/bindings';
import { Projects } from '../access/queries';
import { graphql } from '../generated';
import type { ProjectQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import type { RowOf } from '../lib/list';
import { counted, quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { given, isOn, words, type Field, type Values } from '../parts/values';
import { Listing } from '../parts/listing';
import { One as OneThing } from '../parts/one';
import { Empty, Facts, Fault, Panel, Waiting } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { KeyTable } from '../datakey/table';
import { ProjectStackSettings } from '../stacksettings/project';
import { StackRules } from './rules';

const Project = graphql(/* GraphQL */ `
  query Project($name: String!) {
    project(name: $name) {
      id
      name
      description
      default
      insertedAt
      updatedAt
      limits {
        allowedKinds
        applyServiceAccount
        clusterKinds
        defaultServiceAccount
        deniedKinds
        moduleSources
        namespaces
        noClusterScoped
        planServiceAccount
        referenceNamespaces
        repositories
        requireServiceAccount
        runImages
        runNamespaces
        serviceAccounts
      }
      recordingPolicy {
        record
        input
        keepDays
        limitMegabytes
        userReaders {
          email
        }
        groupReaders {
          name
        }
      }
    }
  }
`);
const Secrets = graphql(/* GraphQL */ `
  query ProjectSecrets($id: ID!, $after: String) {
    project(id: $id) {
      id
      secretHoldings(after: $after) {
        holdsNone
        endCursor
        holdings {
          kind
          backend
          names
          things
          values
        }
      }
      dataKeys {
        id
        purpose
        encryptedBy
        version
        insertedAt
        retiredAt
        destroyedAt
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreateProject($attributes: ProjectAttributes!) {
    createProject(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdateProject($id: ID!, $attributes: ProjectAttributes!) {
    updateProject(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeleteProject($id: ID!) {
    deleteProject(id: $id) {
      id
    }
  }
`);
const Default = graphql(/* GraphQL */ `
  mutation DefaultProject($id: ID!) {
    setDefaultProject(id: $id) {
      id
    }
  }
`);
const Limit = graphql(/* GraphQL */ `
  mutation LimitProject($projectId: ID!, $attributes: ProjectLimitsAttributes!) {
    setProjectLimits(projectId: $projectId, attributes: $attributes) {
      id
    }
  }
`);
const Record = graphql(/* GraphQL */ `
  mutation RecordProject($projectId: ID!, $attributes: RecordingPolicyAttributes!) {
    setRecordingPolicy(projectId: $projectId, attributes: $attributes) {
      record
    }
  }
`);
const Rotate = graphql(/* GraphQL */ `
  mutation RotateProject($projectId: ID!) {
    rotateProjectDataKeys(projectId: $projectId) {
      id
    }
  }
`);

const columns: Columns<RowOf<typeof Projects>> = [
  {
    id: 'name',
    header: 'Project',
    meta: { track: 'minmax(140px, 1fr)' },
    cell: ({ row: { original: project } }) => (
      <>
        <Linked noun="projects" id={project.name} name={project.name} />
        {project.default === true && (
          <Text component="span" size="xs" c="dimmed" ml={6}>
            where things go that name none
          </Text>
        )}
      </>
    ),
  },
  {
    id: 'description',
    header: 'Description',
    meta: { track: 'minmax(100px, 2fr)', from: 620 },
    cell: ({ row }) => text(row.original.description),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  return (
    <Listing
      title="Projects"
      noun="projects"
      document={Projects}
      columns={columns}
      teaches="A project holds clusters and repositories, says who may do what with them, and what its services and stacks may touch."
      actions={
        <Action
          noun="projects"
          label="Create a project"
          icon={IconPlus}
          right={{ verb: 'create', thing: 'projects' }}
          explains="Only administrators of the installation see it until somebody has a role on it."
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            { name: 'description', label: 'Description' },
          ]}
          command={(values) =>
            `plural cd projects create ${quoted(values['name'] ?? '')} --description ${quoted(values['description'] ?? '')}`
          }
          run={(values) =>
            ask(Create, { attributes: { name: (values['name'] ?? '').trim(), description: given(values, 'description') } })
          }
          done="Created the project"
        />
      }
    />
  );
}

type Known = NonNullable<ProjectQuery['project']>;
type Limits = NonNullable<Known['limits']>;
type ListOf =
  | 'namespaces'
  | 'repositories'
  | 'allowedKinds'
  | 'deniedKinds'
  | 'clusterKinds'
  | 'serviceAccounts'
  | 'referenceNamespaces'
  | 'runNamespaces'
  | 'runImages'
  | 'moduleSources';

const lists: Record<ListOf, { label: string; flag: string; hint: string; none: string }> = {
  namespaces: {
    label: 'Namespaces',
    flag: 'namespace',
    hint: 'That services may write to; patterns with *; all when empty',
    none: 'all',
  },
  repositories: {
    label: 'Repositories',
    flag: 'repository',
    hint: 'Where services may be read from; patterns; anywhere when empty',
    none: 'any',
  },
  allowedKinds: {
    label: 'Allowed kinds',
    flag: 'allow-kind',
    hint: 'group/Kind; all that is not denied when empty',
    none: 'all',
  },
  deniedKinds: { label: 'Denied kinds', flag: 'deny-kind', hint: 'group/Kind', none: 'none' },
  clusterKinds: {
    label: 'Kinds of no namespace',
    flag: 'cluster-kind',
    hint: 'That may be written all the same',
    none: 'as the namespaces say',
  },
  serviceAccounts: {
    label: 'ServiceAccounts',
    flag: 'service-account',
    hint: 'NAMESPACE/NAME that services may act as, besides those of their own namespaces',
    none: 'those of their own namespaces',
  },
  referenceNamespaces: {
    label: 'Namespaces of references',
    flag: 'reference-namespace',
    hint: 'Whose Secrets and ConfigMaps configuration may refer to',
    none: 'each service’s own',
  },
  runNamespaces: {
    label: 'Namespaces of runs',
    flag: 'run-namespace',
    hint: 'Where the Jobs of stacks may run; patterns; the namespaces above when empty',
    none: 'as the namespaces say',
  },
  runImages: {
    label: 'Images of runs',
    flag: 'run-image',
    hint: 'That the Jobs of stacks may have; patterns; all when empty',
    none: 'all',
  },
  moduleSources: {
    label: 'Sources of modules',
    flag: 'module-source',
    hint: 'Where the code of stacks may take modules from: addresses, or acme/*/aws of a registry; anywhere when empty',
    none: 'any',
  },
};
const names = Object.keys(lists) as ListOf[];

const limitFields = (limits: Limits | null | undefined): Field[] => [
  ...names.map((name): Field => ({
    name,
    label: lists[name].label,
    hint: lists[name].hint,
    kind: 'area',
    initial: (limits?.[name] ?? []).join('\n'),
  })),
  {
    name: 'noClusterScoped',
    label: 'Objects of no namespace may not be written',
    kind: 'check',
    initial: limits?.noClusterScoped === true ? 'yes' : '',
  },
  {
    name: 'requireServiceAccount',
    label: 'Every service acts as a ServiceAccount: none has the agent’s rights',
    kind: 'check',
    initial: limits?.requireServiceAccount === true ? 'yes' : '',
  },
  {
    name: 'defaultServiceAccount',
    label: 'ServiceAccount of services that name none',
    initial: limits?.defaultServiceAccount ?? '',
  },
  {
    name: 'planServiceAccount',
    label: 'ServiceAccount of runs that plan',
    initial: limits?.planServiceAccount ?? '',
  },
  {
    name: 'applyServiceAccount',
    label: 'ServiceAccount of runs that apply',
    initial: limits?.applyServiceAccount ?? '',
  },
];

function limitCommand(which: string, values: Values): string {
  const flags = names.flatMap((name) => words(values, name).map((word) => `--${lists[name].flag} ${quoted(word)}`));
  if (isOn(values, 'noClusterScoped')) flags.push('--no-cluster-scoped');
  if (isOn(values, 'requireServiceAccount')) flags.push('--require-service-account');
  const account = given(values, 'defaultServiceAccount');
  if (account !== null) flags.push(`--default-service-account ${quoted(account)}`);
  const plans = given(values, 'planServiceAccount');
  if (plans !== null) flags.push(`--plan-service-account ${quoted(plans)}`);
  const applies = given(values, 'applyServiceAccount');
  if (applies !== null) flags.push(`--apply-service-account ${quoted(applies)}`);
  return `plural cd projects limits ${which} ${flags.length === 0 ? '--clear' : flags.join(' ')}`;
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['projects', 'one', name],
    queryFn: async ({ signal }) => (await ask(Project, { name }, signal)).project,
  });
  const which = quoted(name);
  const thing = `project/${name}`;
  const right = (verb: string) => ({ verb, thing });
  return (
    <OneThing
      noun="projects"
      many="Projects"
      name={name}
      query={query}
      title={(project) => project.name}
      actions={(project) => (
        <>
          <Action
            noun="projects"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="Another name or description. Commands that name it need the new name."
            fields={[
              { name: 'name', label: 'Name', isRequired: true, initial: project.name },
              { name: 'description', label: 'Description', initial: project.description ?? '' },
            ]}
            command={(values) =>
              `plural cd projects update ${which} --name ${quoted(values['name'] ?? '')} --description ${quoted(values['description'] ?? '')}`
            }
            run={(values) =>
              ask(Update, {
                id: project.id,
                attributes: { name: (values['name'] ?? '').trim(), description: values['description'] ?? '' },
              })
            }
            done="Changed the project"
          />
          <Action
            noun="projects"
            label="Set as default"
            icon={IconStar}
            right={{ verb: 'create', thing: 'projects' }}
            unless={project.default === true ? 'It is the default already.' : undefined}
            explains="Things that name no project go here from now on. What is in the one before stays there."
            command={`plural cd projects update ${which} --default`}
            run={() => ask(Default, { id: project.id })}
            done="It is the default project"
          />
          <Action
            noun="projects"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            unless={project.default === true ? 'The default project stays.' : undefined}
            explains="Refused while it holds anything. Its data keys are destroyed: nothing opens what they sealed."
            confirm={project.name}
            command={`plural cd projects delete ${which}`}
            run={() => ask(Delete, { id: project.id })}
            done="Deleted the project"
          />
        </>
      )}
    >
      {(project) => (
        <>
          <Panel title="Project">
            <Facts
              facts={[
                ['Description', project.description != null && <Name of={project.description} />],
                ['Default', project.default === true && 'things that name no project go here'],
                ['Created', <Ago key="at" at={project.insertedAt} />],
                ['Changed', <Ago key="ch" at={project.updatedAt} />],
              ]}
            />
          </Panel>
          <Bindings thing={{ projectId: project.id }} right={thing} kind="project" name={project.name} />
          <Panel
            title="What its services and stacks may touch"
            aside={
              <Action
                noun="projects"
                label="Change"
                icon={IconPencil}
                right={right('limit')}
                explains="In place of its limits so far. A service that goes beyond them fails at its next sync, and a run of a stack ends, with the reason."
                fields={limitFields(project.limits)}
                command={(values) => limitCommand(which, values)}
                run={(values) =>
                  ask(Limit, {
                    projectId: project.id,
                    attributes: {
                      ...Object.fromEntries(names.map((list) => [list, words(values, list)])),
                      noClusterScoped: isOn(values, 'noClusterScoped'),
                      requireServiceAccount: isOn(values, 'requireServiceAccount'),
                      defaultServiceAccount: given(values, 'defaultServiceAccount'),
                      planServiceAccount: given(values, 'planServiceAccount'),
                      applyServiceAccount: given(values, 'applyServiceAccount'),
                    },
                  })
                }
                done="Changed the limits"
              />
            }
          >
            {project.limits ? (
              <Facts
                facts={[
                  ...names.map((list): [string, React.ReactNode] => {
                    const all = (project.limits?.[list] ?? []).flatMap((one) => one ?? []);
                    return [lists[list].label, all.length === 0 ? lists[list].none : <Name of={all.join(', ')} />];
                  }),
                  ['Of no namespace', project.limits.noClusterScoped === true && 'may not be written'],
                  [
                    'Rights',
                    project.limits.requireServiceAccount === true
                      ? 'of a ServiceAccount, always'
                      : 'of the agent, unless a service names a ServiceAccount',
                  ],
                  ['ServiceAccount', project.limits.defaultServiceAccount],
                  ['Runs plan as', project.limits.planServiceAccount],
                  ['Runs apply as', project.limits.applyServiceAccount],
                ]}
              />
            ) : (
              <Empty title="No limits">
                Its services and the runs of its stacks may do whatever the agents of their clusters may.
              </Empty>
            )}
          </Panel>
          <ProjectStackSettings id={project.id} name={project.name} />
          <StackRules id={project.id} name={project.name} />
          <Panel
            title="Recordings of shells"
            aside={
              <Action
                noun="projects"
                label="Change"
                icon={IconVideo}
                right={right('record')}
                explains="It holds for shells that are opened from now on. A shell that cannot be recorded is not opened."
                fields={[
                  {
                    name: 'record',
                    label: 'Record every shell in its clusters',
                    kind: 'check',
                    initial: project.recordingPolicy?.record === true ? 'yes' : '',
                  },
                  {
                    name: 'input',
                    label: 'Also what is typed, passwords included',
                    kind: 'check',
                    initial: project.recordingPolicy?.input === true ? 'yes' : '',
                    when: (values) => isOn(values, 'record'),
                  },
                  {
                    name: 'keepDays',
                    label: 'Days that a recording is kept',
                    kind: 'number',
                    initial: String(project.recordingPolicy?.keepDays ?? 90),
                    when: (values) => isOn(values, 'record'),
                  },
                  {
                    name: 'users',
                    label: 'Users that may read them',
                    kind: 'area',
                    initial: (project.recordingPolicy?.userReaders ?? []).map((user) => user?.email).join('\n'),
                    hint: 'E-mail addresses, one a line',
                    when: (values) => isOn(values, 'record'),
                  },
                  {
                    name: 'groups',
                    label: 'Groups that may read them',
                    kind: 'area',
                    initial: (project.recordingPolicy?.groupReaders ?? []).map((group) => group?.name).join('\n'),
                    when: (values) => isOn(values, 'record'),
                  },
                ]}
                command={(values) =>
                  isOn(values, 'record')
                    ? [
                        `plural cd projects recordings ${which} on`,
                        ...(isOn(values, 'input') ? ['--input'] : []),
                        `--keep-days ${values['keepDays'] ?? '90'}`,
                        ...words(values, 'users').map((one) => `--user ${quoted(one)}`),
                        ...words(values, 'groups').map((one) => `--group ${quoted(one)}`),
                      ].join(' ')
                    : `plural cd projects recordings ${which} off`
                }
                run={(values) =>
                  ask(Record, {
                    projectId: project.id,
                    attributes: {
                      record: isOn(values, 'record'),
                      ...(isOn(values, 'record') && {
                        input: isOn(values, 'input'),
                        keepDays: Number(values['keepDays'] ?? 90),
                        userReaders: words(values, 'users'),
                        groupReaders: words(values, 'groups'),
                      }),
                    },
                  })
                }
                done="Changed what is recorded"
              />
            }
          >
            {project.recordingPolicy?.record === true ? (
              <Facts
                facts={[
                  ['Recorded', project.recordingPolicy.input === true ? 'what is shown and what is typed' : 'what is shown'],
                  ['Kept', `${project.recordingPolicy.keepDays ?? 90} days`],
                  ['Limit', `${project.recordingPolicy.limitMegabytes ?? 64} MB each`],
                  [
                    'Readers',
                    [
                      ...(project.recordingPolicy.groupReaders ?? []).map((group) => `group ${group?.name ?? ''}`),
                      ...(project.recordingPolicy.userReaders ?? []).map((user) => user?.email ?? ''),
                    ].join(', ') || 'administrators of the installation only',
                  ],
                  [
                    'All of them',
                    <RouteLink key="r" to={paths.settings('recordings')} search={{ project: project.name }}>
                      Recordings of this project
                    </RouteLink>,
                  ],
                ]}
              />
            ) : (
              <Empty title="Shells in its clusters are not recorded">
                Switched on, the console keeps what every <code>kubectl exec</code> through it shows.
              </Empty>
            )}
          </Panel>
          <SecretsOf id={project.id} name={project.name} />
        </>
      )}
    </OneThing>
  );
}

/** Names that are shown of a kind. */
const NAMES = 20;

/** The answers for all revisions in one: each is for about a thousand of them. */
async function secretsOf(id: string, signal: AbortSignal) {
  const { project } = await ask(Secrets, { id }, signal);
  if (project?.secretHoldings == null) return project;
  // While they move, values of a kind are in two backends.
  const keyOf = ({ kind, backend }: { kind: string; backend: string }) => `${kind} ${backend}`;
  const all = new Map(project.secretHoldings.holdings.map((holding) => [keyOf(holding), holding]));
  let after = project.secretHoldings.endCursor;
  // What is no secret of anybody (seeds) is told, and does not count.
  let holdsSome = project.secretHoldings.holdsNone === false;
  while (after !== null) {
    const next = (await ask(Secrets, { id, after }, signal)).project?.secretHoldings;
    if (next == null || next.endCursor === after) throw new Error('the console says what secrets it holds without an end');
    for (const holding of next.holdings) {
      const known = all.get(keyOf(holding));
      all.set(keyOf(holding), {
        ...holding,
        names: [...(known?.names ?? []), ...holding.names].slice(0, NAMES),
        things: (known?.things ?? 0) + holding.things,
        values: (known?.values ?? 0) + holding.values,
      });
    }
    holdsSome ||= next.holdsNone === false;
    after = next.endCursor;
  }
  return { ...project, secretHoldings: { ...project.secretHoldings, holdsNone: !holdsSome, holdings: [...all.values()] } };
}

/** What the console holds of its secrets, and what seals them. For its administrators. */
function SecretsOf({ id, name }: { id: string; name: string }) {
  const query = useQuery({
    queryKey: ['projects', 'secrets', id],
    queryFn: ({ signal }) => secretsOf(id, signal),
  });
  if (query.isPending) return <Waiting />;
  if (query.isError)
    return (
      <Panel title="Secrets that the console holds">
        <Fault error={query.error} what="secrets and keys of the project" />
      </Panel>
    );
  const holdings = query.data?.secretHoldings;
  return (
    <>
      <Panel title="Secrets that the console holds">
        {holdings?.holdsNone === true ? (
          <Empty title="This console holds no secret of the project">
            In no revision that is kept. References are read in the clusters only.
          </Empty>
        ) : (
          <Facts
            facts={(holdings?.holdings ?? []).map((holding) => [
              holding.kind.toLowerCase().replaceAll('_', ' ') +
                (holding.backend === 'DATABASE' ? '' : ` in ${holding.backend.toLowerCase()}`),
              <span key={`${holding.kind} ${holding.backend}`}>
                {counted(holding.values, 'value')} of {counted(holding.things, 'thing')}: <Name of={holding.names.join(', ')} />
              </span>,
            ])}
          />
        )}
      </Panel>
      <Panel
        title="Data keys"
        aside={
          <Group gap="sm">
            <Action
              noun="projects"
              label="Rotate"
              icon={IconRefresh}
              right={{ verb: 'rotate-keys', thing: `project/${name}` }}
              explains="Other data keys seal from now on; what the old ones sealed is sealed anew in the background."
              command={`plural cd data-keys rotate ${quoted(name)}`}
              run={() => ask(Rotate, { projectId: id })}
              done="Rotated the data keys"
            />
            <IconKey size={16} aria-hidden />
          </Group>
        }
      >
        <KeyTable keys={query.data?.dataKeys ?? []} />
      </Panel>
    </>
  );
}
