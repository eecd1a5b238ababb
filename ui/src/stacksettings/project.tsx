import { useQuery } from '@tanstack/react-query';
import { IconPencil } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Fault, Panel, Waiting } from '../parts/page';
import { JobFacts, jobCommand, jobFields, jobSettings } from './job';

const Read = graphql(/* GraphQL */ `
  query StackSettingsOfProject($id: ID!) {
    project(id: $id) {
      id
      stackSettings {
        jobSpec {
          ...JobDefaults
        }
      }
    }
  }
`);
const Say = graphql(/* GraphQL */ `
  mutation SayStackSettings($projectId: ID!, $attributes: StackSettingsAttributes!) {
    setProjectStackSettings(projectId: $projectId, attributes: $attributes) {
      id
    }
  }
`);

/** What the stacks of a project have where they say nothing themselves. */
export function ProjectStackSettings({ id, name }: { id: string; name: string }) {
  const query = useQuery({
    queryKey: ['projects', 'stack-settings', id],
    queryFn: async ({ signal }) => (await ask(Read, { id }, signal)).project?.stackSettings?.jobSpec ?? null,
  });
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="settings of stacks" retry={() => void query.refetch()} />;
  const job = query.data;
  return (
    <Panel
      title="Jobs of its stacks, where a stack says nothing"
      aside={
        <Action
          key={JSON.stringify(job)}
          noun="projects"
          label="Change"
          icon={IconPencil}
          right={{ verb: 'limit', thing: `project/${name}` }}
          explains="In place of what was said so far. A stack’s own counts before it, and it counts before what the installation says. It is held to the limits above, and holds for runs that are made from now on."
          fields={jobFields(job)}
          command={(values) => jobCommand(`plural cd projects stack-settings ${quoted(name)}`, values)}
          run={(values) => ask(Say, { projectId: id, attributes: jobSettings(values) })}
          done="Changed the settings of stacks"
        />
      }
    >
      <JobFacts job={job}>A stack that says nothing of its Jobs has what the installation says of them.</JobFacts>
    </Panel>
  );
}
