import { useQuery } from '@tanstack/react-query';
import { IconPencil } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { Action } from '../parts/action';
import { Fault, Page, Panel, Waiting } from '../parts/page';
import { JobFacts, jobCommand, jobFields, jobSettings } from './job';

const Read = graphql(/* GraphQL */ `
  query StackSettingsOfAll {
    deploymentSettings {
      stacks {
        jobSpec {
          ...JobDefaults
        }
      }
    }
  }
`);
const Change = graphql(/* GraphQL */ `
  mutation SayStackSettingsOfAll($attributes: DeploymentSettingsAttributes!) {
    updateDeploymentSettings(attributes: $attributes) {
      stacks {
        jobSpec {
          namespace
        }
      }
    }
  }
`);

/** What all stacks have where neither they nor their projects say anything. */
export function List() {
  const query = useQuery({
    queryKey: ['stack-settings'],
    queryFn: async ({ signal }) => (await ask(Read, {}, signal)).deploymentSettings?.stacks?.jobSpec ?? null,
  });
  const job = query.data;
  return (
    <Page title="Stack settings">
      {query.isPending ? (
        <Waiting />
      ) : query.isError ? (
        <Fault error={query.error} what="settings of stacks" retry={() => void query.refetch()} />
      ) : (
        <Panel
          title="Jobs of stacks, where neither a stack nor its project says anything"
          aside={
            <Action
              key={JSON.stringify(job)}
              noun="stack-settings"
              label="Change"
              icon={IconPencil}
              right={{ verb: 'create', thing: 'projects' }}
              explains="In place of what was said so far, for the stacks of all projects. What a stack or its project says counts before it, and the limits of each project hold. It holds for runs that are made from now on."
              fields={jobFields(job)}
              command={(values) => jobCommand('plural cd settings stacks', values)}
              run={(values) => ask(Change, { attributes: { stacks: jobSettings(values) } })}
              done="Changed the settings of stacks"
            />
          }
        >
          <JobFacts job={job}>
            A Job has what its agent gives it: the namespace plural-runs, 100m CPU and 256 MiB, no account.
          </JobFacts>
        </Panel>
      )}
    </Page>
  );
}
