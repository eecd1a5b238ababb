import { Text } from '@mantine/core';
import { queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import type { PrRole } from '../generated/graphql';
import { ask } from '../lib/client';
import { listed, type RowOf } from '../lib/list';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Linked, text, tracks } from '../parts/cells';
import { Facets } from '../parts/filter';
import { Fields, given, initialValues } from '../parts/form';
import { Listing } from '../parts/listing';
import { mergeWindowsAsked, WindowsOpen } from '../parts/mergewindow-form';
import { MergeWindows } from '../parts/mergewindows';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import type { Columns } from '../parts/table';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import type { Question } from '../stack/custom-queries';
import { fieldsOf } from '../stack/questions';
import { editWords } from './edits';
import { partsOf, type Offers } from './form';
import { allOf, changesOf, fieldsOfParts, type Known } from './parts';
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
      icon
      darkIcon
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
        id
        name
      }
      governance {
        id
        name
      }
      repository {
        id
        url
      }
      git {
        ref
        folder
        files
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
        git {
          ref
          folder
          files
        }
        templates {
          source
          destination
          external
          condition
          context
          verbatim
        }
      }
      updates {
        regexes
        files
        replaceTemplate
        matchStrategy
        yq
        regexReplacements {
          file
          regex
          replacement
          templated
        }
        yamlOverlays {
          file
          yaml
          templated
          listMerge
          listKey
          document {
            index
            kind
            name
          }
        }
        edits {
          file
          format
          document {
            index
            kind
            name
          }
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
        script
        folder
        external
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
const Offered = graphql(/* GraphQL */ `
  query OfferedToPrAutomations {
    scmConnections(first: 100) {
      edges {
        node {
          id
          name
        }
      }
    }
    prGovernances(first: 100) {
      edges {
        node {
          id
          name
        }
      }
    }
    gitRepositories(first: 100) {
      edges {
        node {
          id
          url
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

const route = getRouteApi('/settings/$noun');

/** What an automation can be given. */
const offersQuery = queryOptions({
  queryKey: ['connections', 'for automations'],
  queryFn: async ({ signal }): Promise<Offers> => {
    const { scmConnections, prGovernances, gitRepositories } = await ask(Offered, {}, signal);
    return {
      connections: listed(listed(scmConnections?.edges).map(({ node }) => node)),
      governances: listed(listed(prGovernances?.edges).map(({ node }) => node)),
      repositories: listed(listed(gitRepositories?.edges).map(({ node }) => node)),
    };
  },
});
const nothing: Offers = { connections: [], governances: [], repositories: [] };

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
  const offers = useQuery(offersQuery);
  const parts = partsOf(offers.data ?? nothing);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  return (
    <Action
      noun="automations"
      label="Add an automation"
      icon={IconPlus}
      isReading={projects.isPending || offers.isPending}
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
        ...fieldsOfParts(parts),
      ]}
      command={(values) =>
        `plural pr automations create --file FILE --name ${quoted(values['name'] ?? '')} --connection CONNECTION`
      }
      run={async (values) =>
        ask(Create, {
          attributes: {
            ...allOf(parts, values),
            name: (values['name'] ?? '').trim(),
            projectId: given(values, 'project'),
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
          <Change automation={automation} />
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

/** As it is now. What nobody changes in the form is not sent, and neither is what the form does not ask for: both stay. */
function Change({ automation }: { automation: Known }) {
  const offers = useQuery(offersQuery);
  const parts = partsOf(offers.data ?? nothing, automation);
  return (
    <Action
      noun="automations"
      label="Change"
      icon={IconPencil}
      right={{ verb: 'update', thing: `pr-automation/${automation.name}` }}
      isReading={offers.isPending}
      explains="What it asks and does becomes its next version: what was generated with this one is brought there by pull requests. Pull requests that are there keep their merge windows."
      fields={fieldsOfParts(parts)}
      command={`plural pr automations update ${quoted(automation.name)} --file FILE`}
      run={(values, begun) => ask(Update, { id: automation.id, attributes: changesOf(parts, values, begun) })}
      done="Changed the automation"
    />
  );
}

function Shown({ automation }: { automation: Known }) {
  const questions = listed(automation.configuration);
  const steps = stepsOf(automation);
  const windows = listed(automation.mergeWindows);
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
              windows.length > 0 && (
                <>
                  <MergeWindows key="mw" windows={windows} />
                  <WindowsOpen windows={mergeWindowsAsked(windows)} />
                </>
              ),
            ],
            ['Governance', automation.governance && <Name key="g" of={automation.governance.name} />],
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
