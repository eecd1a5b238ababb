import { Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconRefresh } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { graphql } from '../generated';
import { ask } from '../lib/client';
import { Action } from '../parts/action';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { KeyTable } from './table';

const Keys = graphql(/* GraphQL */ `
  query DataKeys {
    installationDataKeys {
      id
      purpose
      encryptedBy
      version
      insertedAt
      retiredAt
      destroyedAt
    }
  }
`);
const Rotate = graphql(/* GraphQL */ `
  mutation RotateInstallation {
    rotateInstallationDataKey {
      id
    }
  }
`);

export function List() {
  const query = useQuery({ queryKey: ['data keys'], queryFn: ({ signal }) => ask(Keys, {}, signal) });
  const projects = useInfiniteQuery(projectsQuery);
  return (
    <Page
      title="Data keys"
      actions={
        <Action
          noun="data keys"
          label="Rotate"
          icon={IconRefresh}
          explains="Another data key seals the secrets of the installation from now on; what the old one sealed is sealed anew in the background."
          command="plural cd data-keys rotate"
          run={() => ask(Rotate, {})}
          done="Rotated the installation’s data key"
        />
      }
    >
      <Text size="sm" c="dimmed" maw={720}>
        Secrets are encrypted with data keys, and each data key with a key-encryption key that is outside of the database.
        Rotating creates a new data key and encrypts with it again what the old one encrypted.
      </Text>
      <Panel title="Of the installation: for what belongs to no project">
        {query.isPending && <Waiting />}
        {query.isError && <Fault error={query.error} what="data keys" retry={() => void query.refetch()} />}
        {query.isSuccess && <KeyTable keys={query.data.installationDataKeys ?? []} />}
      </Panel>
      <Panel title="Of projects">
        {projects.isError && <Fault error={projects.error} what="projects" />}
        {projects.data?.length === 0 && (
          <Empty title="No project that you may see">Each project has data keys of its own, on its page.</Empty>
        )}
        <Facts
          facts={(projects.data ?? []).map((project) => [
            project.name,
            <RouteLink key={project.id} to={paths.setting('projects', project.name)}>
              Secrets and data keys of <Name of={project.name} />
            </RouteLink>,
          ])}
        />
      </Panel>
    </Page>
  );
}
