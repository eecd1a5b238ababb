import { Button, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconLock } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { paths } from '../paths';
import { quoted } from '../lib/text';
import { Command } from '../parts/action';
import { Fault, Page } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import classes from './frame.module.css';
import { clusterPath, kubeJson, KubeError } from './request';
import { listAt, textAt } from './objects';

const places = [
  ['Objects', (handle: string) => paths.kubernetes(handle)],
  ['Kinds', (handle: string) => paths.kubernetesKinds(handle)],
  ['Access', (handle: string) => paths.kubernetesAccess(handle)],
] as const;

interface FrameProps {
  handle: string;
  title: string;
  within?: { name: string; to: string }[];
  state?: ReactNode;
  actions?: ReactNode;
  isFull?: boolean;
  children: ReactNode;
}

/** What every page of a cluster's Kubernetes begins with. */
export function Frame({ handle, title, within = [], state, actions, isFull = false, children }: FrameProps) {
  return (
    <Page
      title={title}
      isFull={isFull}
      within={[
        { name: 'Clusters', to: paths.clusters() },
        { name: handle, to: paths.cluster(handle) },
        ...(title === 'Kubernetes' ? [] : [{ name: 'Kubernetes', to: paths.kubernetes(handle) }]),
        ...within,
      ]}
      state={state}
      actions={
        actions ?? (
          <nav aria-label="Kubernetes" className={classes['places']}>
            {places.map(([name, to]) =>
              (title === 'Kubernetes' ? 'Objects' : title) === name ? (
                <span key={name} aria-current="page">
                  {name}
                </span>
              ) : (
                <RouteLink key={name} to={to(handle)}>
                  {name}
                </RouteLink>
              ),
            )}
          </nav>
        )
      }
    >
      {children}
    </Page>
  );
}

interface Review {
  status?: { userInfo?: unknown };
}

/** Who the cluster takes us for. */
export function whoQuery(cluster: string) {
  const path = clusterPath(cluster, 'apis/authentication.k8s.io/v1/selfsubjectreviews');
  return {
    queryKey: ['kubernetes', cluster, 'who'],
    staleTime: Infinity,
    refetchInterval: false as const,
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
      const { status } = await kubeJson<Review>(path, { method: 'POST', body, signal });
      const groups = listAt(status, 'userInfo', 'groups').filter((group): group is string => typeof group === 'string');
      return { name: textAt(status, 'userInfo', 'username') ?? '', groups };
    },
  };
}

interface TroubleProps {
  handle: string;
  error: unknown;
  what: string;
  retry?: (() => void) | undefined;
}

/** Why there is nothing to see: a refusal says who asked for what, all else what failed. */
export function Trouble({ handle, error, what, retry }: TroubleProps) {
  if (error instanceof KubeError && error.status === 403) return <Refused handle={handle} error={error} retry={retry} />;
  return <Fault error={error} what={what} {...(retry && { retry })} />;
}

/** The cluster, or the console before it, refuses. */
function Refused({ handle, error, retry }: { handle: string; error: KubeError; retry: (() => void) | undefined }) {
  const who = useQuery(whoQuery(handle)).data;
  const { verb, kind, namespace, name } = error.wanted ?? { verb: 'get' };
  const what = kind === undefined ? 'this' : kind.id;
  const scope = namespace === undefined ? (kind?.isNamespaced === true ? ['-A'] : []) : ['-n', quoted(namespace)];
  const line = ['kubectl', 'auth', 'can-i', verb, quoted(what), ...(name === undefined ? [] : [quoted(name)]), ...scope].join(
    ' ',
  );
  return (
    <div role="alert" className={classes['refused']}>
      <IconLock size={18} aria-hidden />
      <Stack gap="sm">
        <Text size="sm" fw={600}>
          You may not {verb} <Name of={what} />
          {namespace !== undefined && (
            <>
              {' '}
              in <Name of={namespace} />
            </>
          )}
        </Text>
        <Text size="sm" className={classes['told'] ?? ''}>
          <Name of={error.message} />
        </Text>
        {who && (
          <Text size="sm">
            The cluster knows you as <Name of={who.name} />, in the groups <Name of={who.groups.join(', ')} />.
          </Text>
        )}
        <Text size="sm">
          {kind?.isNamespaced === true && namespace === undefined ? 'You may see those of one namespace: choose it above. ' : ''}
          Who administers the cluster can give a role with the verb <code>{verb}</code> to you or to one of these groups.{' '}
          <RouteLink to={paths.kubernetesAccess(handle)}>What you may do here</RouteLink>
        </Text>
        <Command line={line} />
        {retry && (
          <Group>
            <Button variant="default" onClick={retry}>
              Try again
            </Button>
          </Group>
        )}
      </Stack>
    </div>
  );
}
