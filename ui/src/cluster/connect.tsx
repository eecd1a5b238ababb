import { Button, Code, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { projectsQuery } from '../access/queries';
import { ask, explain } from '../lib/client';
import { quoted } from '../lib/text';
import { Copy } from '../parts/action';
import { pairs } from '../parts/values';
import { Page, Panel } from '../parts/page';
import { componentStates, State } from '../parts/state';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { CreateRegistrationToken } from '../registrationtoken/page';
import { arrivalQuery } from './queries';

const HANDLE = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

interface Wanted {
  handle: string;
  project: string;
  image: string;
  tags: string;
}

/** Brings a cluster into the fleet: a token for one cluster, one command to paste, and the agent as it arrives. */
export function ConnectPage() {
  const projects = useInfiniteQuery(projectsQuery);
  const first = (projects.data ?? []).find((project) => project.default === true) ?? projects.data?.[0];
  const [wanted, setWanted] = useState<Wanted>({ handle: '', project: '', image: '', tags: '' });
  const [isTried, setTried] = useState(false);
  const project = wanted.project === '' ? (first?.id ?? '') : wanted.project;
  const isNamed = HANDLE.test(wanted.handle);
  const isReady = isNamed && wanted.image.trim() !== '' && project !== '';
  const make = useMutation({
    gcTime: 0,
    mutationFn: () =>
      ask(CreateRegistrationToken, {
        attributes: {
          projectId: project,
          name: `to connect ${wanted.handle}`,
          expiry: '1h',
          limit: 1,
          tags: pairs({ tags: wanted.tags }, 'tags'),
        },
        currentPassword: null,
      }),
  });
  const failed = make.isError ? explain(make.error) : undefined;
  const token = make.data?.createBootstrapToken?.token;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    setTried(true);
    if (isReady) make.mutate();
  };
  const change = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  return (
    <Page title="Connect a cluster" within={[{ name: 'Clusters', to: paths.clusters() }]}>
      <Panel title="1. Which cluster">
        <form onSubmit={submit} noValidate>
          <Stack gap="md" p="md" maw={560}>
            <TextInput
              label="Handle"
              description="A short name, unique in the fleet: small letters, digits, hyphens"
              required
              placeholder="eu-prod-1"
              value={wanted.handle}
              disabled={token != null}
              error={isTried && !isNamed ? 'Small letters, digits and hyphens, at most 63.' : undefined}
              onChange={({ currentTarget }) => change({ handle: currentTarget.value.trim() })}
            />
            <Select
              label="Project"
              required
              value={project}
              disabled={token != null}
              data={(projects.data ?? []).map((one) => ({ value: one.id, label: one.name }))}
              onChange={(next) => change({ project: next ?? '' })}
            />
            <TextInput
              label="Image of the agent"
              description="An image whose entry point is the plural program, in a registry that the cluster can pull from"
              required
              placeholder="registry.example.com/plural:1"
              value={wanted.image}
              disabled={token != null}
              error={isTried && wanted.image.trim() === '' ? 'This is needed.' : undefined}
              onChange={({ currentTarget }) => change({ image: currentTarget.value })}
            />
            <TextInput
              label="Tags"
              description="What global services and searches choose clusters by; they can be changed later"
              placeholder="tier=prod, region=eu"
              value={wanted.tags}
              disabled={token != null}
              onChange={({ currentTarget }) => change({ tags: currentTarget.value })}
            />
            {failed && (
              <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
                <Name of={failed.what} />. {failed.next} Registration tokens are created within ten minutes of signing in, or
                under <RouteLink to={paths.settings('registration-tokens')}>Registration tokens</RouteLink> with your password.
              </Text>
            )}
            {token == null && (
              <Button type="submit" w="fit-content" loading={make.isPending}>
                Create the command
              </Button>
            )}
          </Stack>
        </form>
      </Panel>
      {token != null && (
        <>
          <CommandOf wanted={wanted} token={token} />
          <Arrival handle={wanted.handle} />
        </>
      )}
    </Page>
  );
}

function CommandOf({ wanted, token }: { wanted: Wanted; token: string }) {
  const { origin, protocol } = window.location;
  const line = [
    `plural cd clusters bootstrap ${quoted(wanted.handle)} --handle ${quoted(wanted.handle)} --url ${origin} \\`,
    `  --image ${quoted(wanted.image.trim())}${protocol === 'http:' ? ' --insecure-http' : ''} --token-file - --apply <<'TOKEN'`,
    token,
    'TOKEN',
  ].join('\n');
  return (
    <Panel title="2. Paste this where kubectl reaches the cluster">
      <Stack gap="sm" p="md">
        <Group gap="xs" wrap="nowrap" align="start">
          <Code block flex={1} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            {line}
          </Code>
          <Copy text={line} label="Copy the command" />
        </Group>
        <Text size="sm" c="dimmed">
          It needs the program plural and a kubeconfig whose user may create cluster roles. The token in it registers this one
          cluster, for an hour, and does nothing else; it is shown now and never again. The command can be repeated until the
          agent has joined.
        </Text>
      </Stack>
    </Panel>
  );
}

function Arrival({ handle }: { handle: string }) {
  const query = useQuery(arrivalQuery(handle));
  const cluster = query.data;
  const isThere = cluster?.pingedAt != null;
  const done = { ...componentStates.RUNNING, word: 'Done' };
  const waits = { ...componentStates.PENDING, word: 'Waits' };
  return (
    <Panel title="3. The agent arrives">
      <Stack gap="sm" p="md" role="status" aria-live="polite">
        <Group gap="md">
          <State look={cluster ? done : waits} />
          <Text size="sm">
            The command registers <Name of={handle} />
            {cluster && (
              <>
                , <Ago at={cluster.insertedAt} />
              </>
            )}
          </Text>
        </Group>
        <Group gap="md">
          <State look={isThere ? done : waits} />
          <Text size="sm">
            Its agent connects
            {isThere && (
              <>
                : version {cluster.agentVersion}, Kubernetes {cluster.currentVersion ?? 'not told yet'}
              </>
            )}
          </Text>
        </Group>
        {isThere ? (
          <Text size="sm">
            <RouteLink to={paths.cluster(handle)} strong>
              To the cluster
            </RouteLink>
          </Text>
        ) : (
          <Text size="sm" c="dimmed">
            {cluster
              ? 'Registered, and nothing heard yet. If it stays so: kubectl -n plural-system logs deployment/plural-agent. The cluster must reach this console’s address by HTTPS.'
              : 'This page asks every two seconds.'}
          </Text>
        )}
      </Stack>
    </Panel>
  );
}
