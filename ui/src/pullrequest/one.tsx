import { Alert, Loader, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconAlertTriangle, IconCheck, IconCircleDashed, IconCircleX } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { FleetPlans } from '../fleetplan/plans';
import { short } from '../lib/text';
import { noticeOf } from '../parts/notice';
import { Copy } from '../parts/action';
import { One as OneThing } from '../parts/one';
import { Facts, Panel } from '../parts/page';
import { State, unknown } from '../parts/state';
import { Ago, Name, Outside, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { instancesOfQuery, titleOf } from '../prinstance/queries';
import { Life, LifeActions } from './life';
import { pullRequestQuery, type Opened } from './queries';
import { lookOf, secrets } from './state';
import classes from './one.module.css';

/** One pull request: how far the console is with it, how it stands, and where it comes from. */
export function One({ id }: { id: string }) {
  const query = useQuery(pullRequestQuery(id));
  return (
    <OneThing
      noun="pull-requests"
      many="Pull requests"
      name={id}
      query={query}
      title={({ title, url }) => title ?? url}
      state={(opened) => <State look={lookOf(opened)} />}
      actions={(opened) => (
        <>
          {opened.url !== '' && <Outside address={opened.url}>Open it at the git host</Outside>}
          <LifeActions opened={opened} />
        </>
      )}
    >
      {(opened) => (
        <>
          {opened.phase === 'FAILED' && <NotOpened opened={opened} />}
          <Progress opened={opened} />
          <Life opened={opened} />
          <Brought opened={opened} />
          <FleetPlans pullRequest={opened.id} openedAt={opened.insertedAt} />
          <Shown opened={opened} />
        </>
      )}
    </OneThing>
  );
}

function NotOpened({ opened: { error, automation } }: { opened: Opened }) {
  return (
    <Alert
      variant="outline"
      color="red"
      styles={noticeOf('bad')}
      icon={<IconAlertTriangle size={16} />}
      title="It was not opened, and will not be"
    >
      <Stack gap="xs">
        <Text size="sm">
          <Name of={error ?? 'The console does not say why.'} />
        </Text>
        <Text size="sm">
          {automation == null ? (
            'The automation is gone, or you may not see it: ask who administers the project.'
          ) : (
            <>
              Change what is said above, at the git host or in the answers, and{' '}
              <RouteLink to={paths.automation(automation.name)}>
                ask <Name of={automation.name} /> again
              </RouteLink>
              . What you answered is not kept.
            </>
          )}
        </Text>
      </Stack>
    </Alert>
  );
}

type Turn = 'done' | 'now' | 'later' | 'failed';

/** What the console does to open it, in its order. */
function turns({ phase, commit }: Opened): [string, Turn][] {
  const isMade = commit != null && commit !== '';
  const ends: Turn = phase === 'FAILED' ? 'failed' : 'now';
  if (phase === 'OPENED') return [];
  return [
    ['It is recorded: a console that ends goes on with it', 'done'],
    ['The changes are made on the newest commit, and put on a branch', isMade ? 'done' : ends],
    ['The pull request is opened at the git host', isMade ? ends : 'later'],
  ];
}

const signs: Record<Turn, ReactNode> = {
  done: <IconCheck size={16} aria-label="done" color="var(--tone-good)" />,
  now: <Loader size={14} role="img" aria-label="going on" />,
  later: <IconCircleDashed size={16} aria-label="not yet" color="var(--tone-none)" />,
  failed: <IconCircleX size={16} aria-label="failed" color="var(--tone-bad)" />,
};

function Progress({ opened }: { opened: Opened }) {
  const all = turns(opened);
  if (all.length === 0) return null;
  return (
    <Panel title={opened.phase === 'FAILED' ? 'How far it came' : 'It is being opened'}>
      <ol className={classes['turns']} aria-live="polite">
        {all.map(([told, turn]) => (
          <li key={told} data-turn={turn}>
            {signs[turn]}
            <span>{told}</span>
          </li>
        ))}
      </ol>
      {opened.phase === 'PENDING' && (
        <Text size="sm" c="dimmed" px="md" pb="sm">
          {opened.error != null && opened.error !== '' ? (
            <>
              Not yet: <Name of={opened.error} />. The console tries again by itself.
            </>
          ) : (
            'You may leave this page.'
          )}
        </Text>
      )}
    </Panel>
  );
}

/** The Secret that comes with it, and how far that is. */
function Brought({ opened: { secret } }: { opened: Opened }) {
  if (secret == null) return null;
  const { namespace, name, state, message, cluster } = secret;
  const entries = (secret.entries ?? []).flatMap((entry) => entry ?? []);
  return (
    <Panel title="Secret">
      <Facts
        facts={[
          ['Is', <State key="s" look={state == null ? unknown : secrets[state]} />],
          ['Why no further', message != null && <Name key="m" of={message} />],
          ['Name', <Name key="n" of={`${namespace ?? ''}/${name ?? ''}`} />],
          ['On', cluster != null && <Name key="c" of={cluster.handle ?? ''} />],
          [
            'Values',
            entries.length > 0 && (
              <Name
                key="v"
                of={entries.map((entry) => `${entry.name ?? ''}${entry.generated === true ? ' (generated)' : ''}`).join(', ')}
              />
            ),
          ],
        ]}
      />
    </Panel>
  );
}

function Shown({ opened }: { opened: Opened }) {
  const { url, repository, commit, automation, project } = opened;
  const instances = useQuery(instancesOfQuery(opened.id)).data ?? [];
  const labels = (opened.labels ?? []).flatMap((label) => label ?? []);
  const only = (search: Record<string, string>, of: string) => (
    <RouteLink to={paths.settings('pull-requests')} search={search}>
      <Name of={of} />
    </RouteLink>
  );
  return (
    <Panel title="Pull request">
      <Facts
        facts={[
          ['Status', <State key="s" look={lookOf(opened)} />],
          ['At the git host', url !== '' && <Outside key="u" address={url} />],
          ['Repository', repository != null && only({ repository }, repository)],
          ['Branch', opened.ref != null && <Name key="b" of={opened.ref} />],
          [
            'Commit',
            commit != null && commit !== '' && (
              <span key="c">
                <code title={commit}>{short(commit)}</code> <Copy text={commit} label="Copy the commit" />
              </span>
            ),
          ],
          ['Opened by', opened.creator != null && <Name key="w" of={opened.creator} />],
          [
            'With',
            automation == null ? (
              'an automation that is gone, or that you may not see'
            ) : (
              <RouteLink key="a" to={paths.setting('pr-automations', automation.name)}>
                <Name of={automation.name} />
              </RouteLink>
            ),
          ],
          [
            'What it made',
            instances.length > 0 && (
              <span key="i">
                {instances.map((instance, at) => (
                  <span key={instance.id}>
                    {at > 0 && ', '}
                    <RouteLink to={paths.setting('pr-instances', instance.id)}>
                      <Name of={titleOf(instance)} />
                    </RouteLink>
                  </span>
                ))}
              </span>
            ),
          ],
          ['Others with it', automation != null && only({ automation: automation.name }, 'all that it opened')],
          [
            'Project',
            project != null && (
              <RouteLink key="p" to={paths.setting('projects', project.name)}>
                <Name of={project.name} />
              </RouteLink>
            ),
          ],
          ['Labels', labels.length > 0 && <Name key="l" of={labels.join(', ')} />],
          ['Asked for', <Ago key="at" at={opened.insertedAt} />],
          ['Changed', <Ago key="ch" at={opened.updatedAt} />],
        ]}
      />
    </Panel>
  );
}
