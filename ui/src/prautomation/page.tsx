import { Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import type { PrAutomationAttributes, PrAutomationQuery, PrRole } from '../generated/graphql';
import { ask } from '../lib/client';
import { listed, type RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { Facets } from '../parts/filter';
import { Fields, given, initialValues, words, type Field, type Values } from '../parts/form';
import { Listing } from '../parts/listing';
import { MergeWindows } from '../parts/mergewindows';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import type { Question } from '../stack/custom-queries';
import { fieldsOf } from '../stack/questions';
import { editWords } from './edits';
import { isRole, roleChoices, roles } from './roles';

const Automations = graphql(/* GraphQL */ `
  query PrAutomations($after: String, $role: PrRole, $q: String) {
    list: prAutomations(first: 100, after: $after, role: $role, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          role
          identifier
          documentation
          insertedAt
          project {
            name
          }
        }
      }
    }
  }
`);
const Automation = graphql(/* GraphQL */ `
  query PrAutomation($name: String!) {
    prAutomation(name: $name) {
      id
      name
      role
      documentation
      addon
      labels
      identifier
      branch
      branchPrefix
      title
      message
      patch
      mergeWindows {
        kind
        schedule
        duration
        timeZone
      }
      mayCreate
      insertedAt
      updatedAt
      project {
        name
      }
      connection {
        name
      }
      repository {
        url
      }
      cluster {
        handle
      }
      service {
        name
      }
      configuration {
        type
        name
        default
        documentation
        longform
        page
        displayName
        placeholder
        optional
        values
        condition {
          operation
          field
          value
        }
        validation {
          regex
          json
          uniqBy {
            scope
          }
        }
      }
      confirmation {
        text
        checklist {
          label
        }
      }
      secrets {
        cluster
        namespace
        name
        entries {
          name
          documentation
          autogenerate
        }
      }
      creates {
        templates {
          source
          destination
          external
          condition
        }
      }
      updates {
        files
        regexReplacements {
          file
        }
        yamlOverlays {
          file
        }
        edits {
          file
          edit
        }
      }
      deletes {
        files
        folders
      }
      vendor {
        helm {
          url
          chart
          version
          destination
        }
      }
      lua {
        folder
      }
      createBindings {
        user {
          email
        }
        group {
          name
        }
      }
    }
  }
`);
const Connections = graphql(/* GraphQL */ `
  query ConnectionsForPrAutomations {
    scmConnections(first: 100) {
      edges {
        node {
          id
          name
        }
      }
    }
  }
`);
const Create = graphql(/* GraphQL */ `
  mutation CreatePrAutomation($attributes: PrAutomationAttributes!) {
    createPrAutomation(attributes: $attributes) {
      id
    }
  }
`);
const Update = graphql(/* GraphQL */ `
  mutation UpdatePrAutomation($id: ID!, $attributes: PrAutomationAttributes!) {
    updatePrAutomation(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Delete = graphql(/* GraphQL */ `
  mutation DeletePrAutomation($id: ID!) {
    deletePrAutomation(id: $id) {
      id
    }
  }
`);

type Known = NonNullable<PrAutomationQuery['prAutomation']>;

const route = getRouteApi('/settings/$noun');

/** What of an automation is a word or a text. */
const common = (known?: Known): Field[] => [
  {
    name: 'role',
    label: 'For',
    kind: 'choice',
    initial: known?.role ?? '',
    options: Object.entries(roles).map(([value, label]) => ({ value, label })),
  },
  {
    name: 'identifier',
    label: 'Repository that is changed',
    initial: known?.identifier ?? '',
    placeholder: 'acme/shop',
    hint: 'One that the connection may touch. Without one, whoever opens a pull request names it.',
  },
  { name: 'branch', label: 'Branch', initial: known?.branch ?? '', placeholder: 'main' },
  {
    name: 'title',
    label: 'Title of its pull requests',
    isRequired: true,
    initial: known?.title ?? '',
    placeholder: 'Add {{ context.name }}',
  },
  { name: 'message', label: 'What they say', kind: 'area', isRequired: true, initial: known?.message ?? '' },
  { name: 'labels', label: 'Labels', initial: listed(known?.labels).join(', ') },
  { name: 'documentation', label: 'What it is for', kind: 'area', initial: known?.documentation ?? '' },
];

/** What both forms give. An empty text ends what there was. */
function attributes(values: Values, isNew: boolean): PrAutomationAttributes {
  const written = (name: string) => (isNew ? given(values, name) : (values[name] ?? '').trim());
  const role = values['role'];
  return {
    identifier: written('identifier'),
    branch: written('branch'),
    title: (values['title'] ?? '').trim(),
    message: (values['message'] ?? '').trim(),
    documentation: written('documentation'),
    labels: words(values, 'labels'),
    ...(isRole(role) && { role }),
  };
}

const actionsHint = 'JSON: configuration, creates, updates, deletes, vendor, lua, confirmation, secrets.';
const actionsField: Field = {
  name: 'actions',
  label: 'What it asks and does',
  kind: 'area',
  hint: actionsHint,
  placeholder:
    '{"configuration": [{"type": "STRING", "name": "name"}], "creates": {"templates": [{"source": "a.yaml", "destination": "b.yaml", "external": false}]}}',
};

/** Questions and actions as the API takes them. */
function actionsOf(values: Values): PrAutomationAttributes {
  const written = (values['actions'] ?? '').trim();
  let actions: unknown = {};
  try {
    actions = written === '' ? {} : JSON.parse(written);
  } catch {
    throw new Error('What it asks and does is no JSON: write an object, as in the example.');
  }
  if (typeof actions !== 'object' || actions === null || Array.isArray(actions)) {
    throw new Error('What it asks and does must be an object: put { and } around it.');
  }
  return actions;
}

const columns: Columns<RowOf<typeof Automations>> = [
  {
    id: 'name',
    header: 'Automation',
    meta: { track: 'minmax(140px, 1fr)' },
    cell: ({ row }) => <Linked noun="pr-automations" id={row.original.name} name={row.original.name} />,
  },
  {
    id: 'role',
    header: 'For',
    meta: { track: '100px' },
    cell: ({ row }) => (row.original.role == null ? '' : roles[row.original.role]),
  },
  {
    id: 'what',
    header: 'What it is for',
    meta: { ...tracks.wide, from: 900 },
    cell: ({ row }) => text(row.original.documentation),
  },
  {
    id: 'repository',
    header: 'Repository',
    meta: tracks.mid,
    cell: ({ row }) => text(row.original.identifier ?? 'asked'),
  },
  {
    id: 'project',
    header: 'Project',
    meta: { ...tracks.mid, from: 900 },
    cell: ({ row }) => text(row.original.project?.name),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

export function List() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const chosen = isRole(search.role) ? search.role : undefined;
  return (
    <Listing
      title="Automations of pull requests"
      noun="automations"
      document={Automations}
      variables={{ role: chosen ?? null }}
      columns={columns}
      teaches="What somebody is asked, and which files of a repository a pull request then changes. Whoever may open pull requests with one fills in its form."
      how="plural pr automations create --file FILE --connection NAME"
      filters={
        <Facets<PrRole>
          label="For"
          value={chosen}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, role: next }), replace: true })}
          choices={roleChoices}
        />
      }
      actions={<Add />}
    />
  );
}

function Add() {
  const projects = useInfiniteQuery(projectsQuery);
  const connections = useQuery({
    queryKey: ['connections', 'for automations'],
    queryFn: async ({ signal }) => (await ask(Connections, {}, signal)).scmConnections,
  });
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Action
      noun="automations"
      label="Add an automation"
      icon={IconPlus}
      isReading={projects.isPending || connections.isPending}
      {...(first && { right: { verb: 'create', thing: 'pr-automations', within: `project/${first.name}` } })}
      explains="It changes the repositories that its connection may touch, and no other. A file in the shape of public scaffolds is read by the command line."
      fields={[
        { name: 'name', label: 'Name', isRequired: true, placeholder: 'Add a service' },
        {
          name: 'project',
          label: 'Project',
          kind: 'choice',
          initial: first?.id ?? '',
          options: (projects.data ?? []).map((project) => ({ value: project.id, label: project.name })),
        },
        {
          name: 'connection',
          label: 'Connection to the git host',
          kind: 'choice',
          isRequired: true,
          options: listed(connections.data?.edges).flatMap(({ node }) =>
            node == null ? [] : [{ value: node.id, label: node.name }],
          ),
        },
        ...common(),
        actionsField,
      ]}
      command={(values) =>
        `plural pr automations create --file FILE --name ${quoted(values['name'] ?? '')} --connection CONNECTION`
      }
      run={async (values) =>
        ask(Create, {
          attributes: {
            ...actionsOf(values),
            ...attributes(values, true),
            name: (values['name'] ?? '').trim(),
            projectId: given(values, 'project'),
            connectionId: given(values, 'connection'),
          },
        })
      }
      done="Added the automation"
    />
  );
}

/** The form as whoever opens a pull request fills it in. What is written here goes nowhere. */
function Asked({ questions }: { questions: Question[] }) {
  const fields = fieldsOf(questions);
  const [values, setValues] = useState(() => initialValues(fields));
  return <Fields fields={fields} values={values} onChange={setValues} lacks={[]} />;
}

/** What it does, in its order. */
function stepsOf({ lua, vendor, creates, updates, deletes }: Known): string[] {
  const helm = vendor?.helm;
  return [
    ...(lua == null ? [] : [lua.folder == null ? 'runs a script first' : `runs the scripts in ${lua.folder} first`]),
    ...(helm == null ? [] : [`unpacks the chart ${helm.chart} ${helm.version} into ${helm.destination}`]),
    ...listed(creates?.templates).map(
      ({ source, destination, external, condition }) =>
        `makes ${destination} of ${source}${external ? ', which is in the repository of templates' : ''}${condition == null ? '' : `, if ${condition}`}`,
    ),
    ...listed(updates?.regexReplacements).map(({ file }) => `changes ${file} where a regex matches`),
    ...listed(updates?.yamlOverlays).map(({ file }) => `puts YAML over ${file}`),
    ...listed(updates?.edits).map(({ file, edit }) => editWords(file, edit)),
    ...listed(updates?.files).map((files) => `changes files that match ${files}`),
    ...[...(deletes?.files ?? []), ...(deletes?.folders ?? [])].map((path) => `takes ${path} away`),
  ];
}

export function One({ id: name }: { id: string }) {
  const query = useQuery({
    queryKey: ['automations', 'one', name],
    queryFn: async ({ signal }) => (await ask(Automation, { name }, signal)).prAutomation,
  });
  const right = (verb: string) => ({ verb, thing: `pr-automation/${name}` });
  return (
    <OneThing
      noun="pr-automations"
      many="Automations of pull requests"
      name={name}
      query={query}
      title={(automation) => automation.name}
      actions={(automation) => (
        <>
          {automation.mayCreate === true && <RouteLink to={paths.automation(name)}>Open a pull request</RouteLink>}
          <RouteLink to={paths.settings('pr-instances')} search={{ automation: name }}>
            What it generated
          </RouteLink>
          <Action
            noun="automations"
            label="Change"
            icon={IconPencil}
            right={right('update')}
            explains="What it asks and does becomes its next version: what was generated with this one is brought there by pull requests."
            fields={[...common(automation), { ...actionsField, hint: `${actionsHint} What is not named stays as it is.` }]}
            command={`plural pr automations update ${quoted(name)} --file FILE`}
            run={async (values) =>
              ask(Update, { id: automation.id, attributes: { ...actionsOf(values), ...attributes(values, false) } })
            }
            done="Changed the automation"
          />
          <Action
            noun="automations"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            explains="Pull requests that it opened stay."
            confirm={automation.name}
            command={`plural pr automations delete ${quoted(name)}`}
            run={() => ask(Delete, { id: automation.id })}
            done="Deleted the automation"
          />
        </>
      )}
    >
      {(automation) => <Shown automation={automation} />}
    </OneThing>
  );
}

function Shown({ automation }: { automation: Known }) {
  const questions = listed(automation.configuration);
  const steps = stepsOf(automation);
  const may = listed(automation.createBindings).flatMap(({ user, group }) => user?.email ?? group?.name ?? []);
  return (
    <>
      <Panel title="Automation">
        <Facts
          facts={[
            ['For', automation.role == null ? null : roles[automation.role]],
            ['What it is for', automation.documentation && <Name key="d" of={automation.documentation} />],
            ['Project', automation.project && <Name key="p" of={automation.project.name} />],
            ['Connection', automation.connection ? <Name key="c" of={automation.connection.name} /> : 'one that you may not see'],
            [
              'Repository',
              automation.identifier ? <Name key="i" of={automation.identifier} /> : 'whoever opens a pull request names it',
            ],
            ['Branch', <Name key="b" of={automation.branch ?? 'main'} />],
            ['Branches begin with', automation.branchPrefix && <Name key="x" of={automation.branchPrefix} />],
            ['Title', automation.title && <Name key="t" of={automation.title} />],
            ['Says', automation.message && <Name key="m" of={automation.message} />],
            ['Labels', listed(automation.labels).length > 0 && <Name key="l" of={listed(automation.labels).join(', ')} />],
            [
              'Merge windows',
              listed(automation.mergeWindows).length > 0 && <MergeWindows key="mw" windows={listed(automation.mergeWindows)} />,
            ],
            ['Templates', automation.repository && <Name key="r" of={automation.repository.url} />],
            ['Cluster', automation.cluster?.handle && <Name key="k" of={automation.cluster.handle} />],
            ['Service', automation.service && <Name key="s" of={automation.service.name} />],
            ['Makes', automation.patch === true ? 'a patch' : 'a pull request'],
            ['You may open pull requests', automation.mayCreate === true ? 'yes' : 'no'],
            ['Others who may', may.length > 0 && <Name key="o" of={may.join(', ')} />],
            ['Created', <Ago key="at" at={automation.insertedAt} />],
            ['Changed', <Ago key="ch" at={automation.updatedAt} />],
          ]}
        />
      </Panel>
      <Panel title="Its form">
        {questions.length === 0 ? (
          <Text size="sm">It asks nothing.</Text>
        ) : (
          <>
            <Text size="sm" c="dimmed" mb="sm">
              As whoever opens a pull request fills it in. What is written here goes nowhere.
            </Text>
            <Asked key={automation.id} questions={questions} />
          </>
        )}
        {automation.confirmation != null && (
          <Text size="sm" mt="sm">
            Then it asks to confirm:{' '}
            <Name
              of={[automation.confirmation.text, ...listed(automation.confirmation.checklist).map(({ label }) => label)]
                .flatMap((word) => word ?? [])
                .join(' · ')}
            />
          </Text>
        )}
      </Panel>
      <Panel title="What it does">
        {steps.length === 0 ? (
          <Text size="sm">It changes nothing yet.</Text>
        ) : (
          steps.map((step, at) => (
            <div key={`${at.toString()}-${step}`}>
              <Name of={step} />
            </div>
          ))
        )}
      </Panel>
    </>
  );
}
