import { Alert, Text } from '@mantine/core';
import {
  IconAlertTriangle,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleXFilled,
  IconGitPullRequestClosed,
  IconProgress,
  IconRefresh,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';

import type { PrCheckState, PrReviewPhase } from '../generated/graphql';
import { ask } from '../lib/client';
import { counted, quoted, short } from '../lib/text';
import { noticeOf } from '../parts/notice';
import { Action, Copy } from '../parts/action';
import { Facts, Panel } from '../parts/page';
import { State, type Look } from '../parts/state';
import { Ago, Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { mergeFacts, MergeActions, WindowsAction } from './merge';
import { Close, Refresh, type Opened } from './queries';

const checkStates: Record<PrCheckState, Look> = {
  NONE: { word: 'No checks', tone: 'none', Icon: IconCircleDashed },
  PENDING: { word: 'Checks are going on', tone: 'busy', Icon: IconProgress },
  PASSED: { word: 'Checks passed', tone: 'good', Icon: IconCircleCheckFilled },
  FAILED: { word: 'Checks failed', tone: 'bad', Icon: IconCircleXFilled },
};

/** What may be done to a pull request that the git host has. */
export function LifeActions({ opened }: { opened: Opened }) {
  const { id, phase, status, project, url } = opened;
  if (phase !== 'OPENED') return null;
  const right = project != null && { right: { verb: 'update', thing: `project/${project.name}` } };
  return (
    <>
      <Action
        noun="pull requests"
        label="Refresh"
        icon={IconRefresh}
        {...right}
        explains="Reads at the git host how it stands now. What follows by itself, from a webhook or within minutes, happens at once."
        command={`plural pr refresh ${quoted(id)}`}
        run={() => ask(Refresh, { id })}
        done="Read how it stands"
      />
      {/* Without an address it is a branch of plain git, which people merge with git. */}
      {status === 'OPEN' && url !== '' && (
        <>
          <MergeActions opened={opened} />
          <WindowsAction opened={opened} />
          <Action
            noun="pull requests"
            label="Close"
            icon={IconGitPullRequestClosed}
            isDangerous
            {...right}
            explains="Closes it at the git host without a merge. Its branch stays, and it can be opened again there."
            command={`plural pr close ${quoted(id)}`}
            run={() => ask(Close, { id })}
            done="Closed the pull request"
          />
        </>
      )}
    </>
  );
}

/** How it stands at the git host, and what it is about; nothing before the host has it. */
export function Life({ opened }: { opened: Opened }) {
  if (opened.phase !== 'OPENED') return null;
  const { head, base, author, draft, fork, mergeCommit, readAt, readError, service, stack, cluster } = opened;
  const handle = service?.cluster?.handle;
  return (
    <Panel title="At its git host">
      {readError != null && readError !== '' && (
        <Alert
          m="md"
          mb={0}
          variant="outline"
          color="yellow"
          styles={noticeOf('warn')}
          icon={<IconAlertTriangle size={16} />}
          title="It could not be read the last time: this is what was known before"
        >
          <Name of={readError} />
        </Alert>
      )}
      <Facts
        facts={[
          ['Newest commit', head != null && head !== '' && <Commit key="h" of={head} label="Copy the newest commit" />],
          ['Goes to', base != null && <Name key="b" of={base} />],
          ['Its author there', author != null && <Name key="a" of={author} />],
          ['Draft', draft === true && 'Its author says that it is not ready'],
          ['Fork', fork === true && 'It comes from another repository'],
          ['Checks', <Checks key="c" opened={opened} />],
          ['Reviews', <Reviews key="r" opened={opened} />],
          ['Governance', opened.governance != null && <Governed key="g" opened={opened} />],
          [
            'Merged by',
            mergeCommit != null && mergeCommit !== '' && <Commit key="m" of={mergeCommit} label="Copy the merge commit" />,
          ],
          [
            'About the service',
            service != null && handle != null && (
              <RouteLink key="s" to={paths.service(handle, service.name)}>
                <Name of={`${handle}/${service.name}`} />
              </RouteLink>
            ),
          ],
          [
            'About the stack',
            stack != null && (
              <RouteLink key="st" to={paths.stack(stack.name)}>
                <Name of={stack.name} />
              </RouteLink>
            ),
          ],
          [
            'About the cluster',
            cluster?.handle != null && (
              <RouteLink key="cl" to={paths.cluster(cluster.handle)}>
                <Name of={cluster.handle} />
              </RouteLink>
            ),
          ],
          ...mergeFacts(opened),
          ['Read', <Ago key="at" at={readAt} absent="Not yet" />],
        ]}
      />
    </Panel>
  );
}

function Commit({ of, label }: { of: string; label: string }) {
  return (
    <>
      <code title={of}>{short(of)}</code> <Copy text={of} label={label} />
    </>
  );
}

function Checks({ opened: { checks } }: { opened: Opened }): ReactNode {
  if (checks?.state == null) return 'The host does not tell';
  const { state, passed, failed, pending, incomplete } = checks;
  const counts = [
    [failed, 'failed'],
    [pending, 'not done'],
    [passed, 'passed'],
  ] as const;
  const told = counts.filter(([count]) => (count ?? 0) > 0).map(([count, word]) => `${String(count)} ${word}`);
  if (incomplete === true) told.push('and more that are not read');
  return (
    <>
      <State look={checkStates[state]} />
      {told.length > 0 && (
        <Text component="span" size="sm" c="dimmed">
          {' '}
          {told.join(', ')}
        </Text>
      )}
    </>
  );
}

const phases: Record<PrReviewPhase, Look> = {
  OPEN: { word: 'Was not reached yet', tone: 'busy', Icon: IconProgress },
  CONFIRM: { word: 'Did not confirm the newest commit yet', tone: 'busy', Icon: IconProgress },
  APPROVE: { word: 'Confirmed, and not approved at the host yet', tone: 'busy', Icon: IconProgress },
  APPROVED: { word: 'Confirmed the newest commit', tone: 'good', Icon: IconCircleCheckFilled },
  CLOSE: { word: 'Is to be told that it is over', tone: 'none', Icon: IconCircleDashed },
  CLOSED: { word: 'Knows that it is over', tone: 'none', Icon: IconCircleDashed },
};
const refusal: Look = { word: 'Says no', tone: 'bad', Icon: IconCircleXFilled };

/** What its governance says. */
function Governed({ opened: { governance } }: { opened: Opened }): ReactNode {
  if (governance?.phase == null) return null;
  const isRefused = governance.phase === 'CONFIRM' && governance.refused === true;
  return (
    <>
      {governance.governance != null && (
        <>
          <Name of={governance.governance.name} />{' '}
        </>
      )}
      <State look={isRefused ? refusal : phases[governance.phase]} />
      {governance.message != null && governance.message !== '' && (
        <Text component="span" size="sm" c="dimmed">
          {' '}
          <Name of={governance.message} />
        </Text>
      )}
    </>
  );
}

function Reviews({ opened: { reviews } }: { opened: Opened }): ReactNode {
  if (reviews == null) return 'The host does not tell';
  const approved = reviews.approved ?? 0;
  const wanted = reviews.changesRequested ?? 0;
  if (approved === 0 && wanted === 0) return 'None yet';
  return [
    approved > 0 ? `${counted(approved, 'reviewer')} approved` : '',
    wanted > 0 ? `${counted(wanted, 'reviewer')} asked for changes` : '',
  ]
    .filter((told) => told !== '')
    .join(', ');
}
