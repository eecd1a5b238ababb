import { Alert, Text } from '@mantine/core';
import { IconAlertTriangle, IconCalendarClock, IconClockX, IconGitMerge } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import type { MergeWindowAttributes, PrMergeMethod } from '../generated/graphql';
import { ask } from '../lib/client';
import { listed } from '../lib/list';
import { counted, quoted, short } from '../lib/text';
import { noticeOf } from '../parts/notice';
import { Action } from '../parts/action';
import { mergeWindowsField, mergeWindowsOf } from '../parts/mergewindow-form';
import { MergeWindows } from '../parts/mergewindows';
import { Ago, Name, Until } from '../parts/text';
import type { Field, Values } from '../parts/values';
import { CancelMerge, Merge, SetWindows, type Opened } from './queries';

const methods: Record<PrMergeMethod, string> = {
  MERGE: 'With a merge commit',
  SQUASH: 'As one commit with all changes',
  REBASE: 'Its commits on top of the base',
};
const isMethod = (word: string | undefined): word is PrMergeMethod => word !== undefined && word in methods;
const methodOf = ({ method }: Values): PrMergeMethod => (isMethod(method) ? method : 'MERGE');
const how: Field = {
  name: 'method',
  label: 'How',
  kind: 'choice',
  options: Object.entries(methods).map(([value, label]) => ({ value, label })),
  initial: 'MERGE',
  isRequired: true,
  hint: 'The git host may allow some of these only.',
};

/** A merge, at once or when a window opens; and the end of one that waits. */
export function MergeActions({ opened }: { opened: Opened }) {
  const { id, project, head, draft, merging, governance } = opened;
  const right = project != null && { right: { verb: 'update', thing: `project/${project.name}` } };
  const isKnown = head != null && head !== '';
  const wish = merging?.wish;
  if (wish != null && wish.dropped == null) {
    return (
      <Action
        noun="pull requests"
        label="Cancel the merge"
        icon={IconClockX}
        {...right}
        explains={
          <Text size="sm">
            Forgets that <Name of={wish.by ?? 'somebody'} /> asked to merge it when a window opens. It stays open.
          </Text>
        }
        command={`plural pr merge ${quoted(id)} --cancel`}
        run={() => ask(CancelMerge, { id })}
        done="It is not merged when a window opens"
      />
    );
  }
  const waits = merging?.open === false;
  return (
    <Action
      // Another commit is another question.
      key={head ?? ''}
      noun="pull requests"
      label={waits ? 'Merge in window' : 'Merge'}
      icon={IconGitMerge}
      {...right}
      unless={
        !isKnown
          ? 'Its newest commit is not known yet: refresh it, and look at what would be merged.'
          : draft === true
            ? 'It is a draft: whoever opened it says at the git host when it is ready.'
            : waits && merging.opensAt == null
              ? 'Its merge windows let nothing through for more than a year: give it other ones first.'
              : !waits && governance != null && governance.confirmed !== head
                ? 'Its governance did not confirm its newest commit yet.'
                : undefined
      }
      explains={<Merges opened={opened} />}
      fields={[how]}
      command={(values) =>
        `plural pr merge ${quoted(id)} --method ${methodOf(values).toLowerCase()} --head ${quoted(head ?? '')}${waits ? ' --in-window' : ''}`
      }
      run={(values) => ask(Merge, { id, head: head ?? '', method: methodOf(values), ...(waits && { inWindow: true }) })}
      done={waits ? 'It is merged when a window opens' : 'Merged the pull request'}
    />
  );
}

/** When it may be merged, to be changed. */
export function WindowsAction({ opened: { id, project, merging } }: { opened: Opened }) {
  const windows = listed(merging?.windows);
  const field = mergeWindowsField(windows);
  return (
    <Action
      noun="pull requests"
      label="Merge windows"
      icon={IconCalendarClock}
      {...(project != null && { right: { verb: 'update', thing: `project/${project.name}` } })}
      explains={
        merging?.wish != null && merging.wish.dropped == null
          ? 'The console merges it while they let it through. The merge that waits does so for these. Those of its automation stay.'
          : 'The console merges it while they let it through. Those of its automation stay.'
      }
      fields={[field]}
      command={(values) => windowsCommand(id, mergeWindowsOf(values))}
      run={async (values, begun) =>
        values[field.name] === begun[field.name] ? null : ask(SetWindows, { id, windows: mergeWindowsOf(values) })
      }
      done="Changed the merge windows"
    />
  );
}

/** The same by command line, which takes one window. */
function windowsCommand(id: string, [first, ...more]: MergeWindowAttributes[]): string {
  const of = `plural pr windows ${quoted(id)}`;
  if (!first) return `${of} --none`;
  if (more.length > 0) return '# Several windows are set here, or with mergeWindows in the file of the automation';
  return `${of} --kind ${first.kind === 'DENY' ? 'deny' : 'allow'} --schedule ${quoted(first.schedule)} --duration ${first.duration}s --time-zone ${quoted(first.timeZone ?? 'UTC')}`;
}

/** When it may be merged, and the merge that somebody asked for. */
export function mergeFacts({ status, merging }: Opened): [string, ReactNode][] {
  const windows = listed(merging?.windows);
  const wish = merging?.wish;
  const isOpen = status === 'OPEN';
  return [
    ['Merge windows', windows.length > 0 && <MergeWindows key="mw" windows={windows} />],
    [
      'May be merged',
      isOpen &&
        windows.length > 0 &&
        (merging?.open === true ? (
          'Now'
        ) : merging?.opensAt == null ? (
          'Not for more than a year'
        ) : (
          <Until key="o" at={merging.opensAt} />
        )),
    ],
    ['Waits to be merged', wish != null && wish.dropped == null && <Waits key="w" wish={wish} />],
    [
      'Not merged any more',
      isOpen && wish?.dropped != null && (
        <>
          <Name of={wish.dropped} /> (<Name of={wish.by ?? 'somebody'} />, <Ago at={wish.askedAt} />)
        </>
      ),
    ],
  ];
}

type Wish = NonNullable<NonNullable<Opened['merging']>['wish']>;

function Waits({ wish: { by, head, method, dueAt, error } }: { wish: Wish }) {
  return (
    <>
      <code title={head ?? ''}>{short(head ?? '')}</code>, for <Name of={by ?? 'somebody'} />
      {method != null && `, ${methods[method].toLowerCase()}`}
      {dueAt != null && (
        <>
          , <Until at={dueAt} />
        </>
      )}
      {error != null && error !== '' && (
        <Text size="sm" c="dimmed">
          The last try failed: <Name of={error} />
        </Text>
      )}
    </>
  );
}

function Merges({ opened: { head, base, checks, reviews, merging } }: { opened: Opened }) {
  const opensAt = merging?.open === false ? merging.opensAt : null;
  const failed = checks?.failed ?? 0;
  const pending = checks?.pending ?? 0;
  const wanted = reviews?.changesRequested ?? 0;
  const warnings = [
    failed > 0 && `${counted(failed, 'check')} of it failed.`,
    pending > 0 && `${counted(pending, 'check')} of it ${pending === 1 ? 'is' : 'are'} not done.`,
    checks?.incomplete === true && 'It has more checks than are read: look at them at the git host.',
    wanted > 0 && `${counted(wanted, 'reviewer')} asked for changes.`,
  ].filter((warning) => warning !== false);
  return (
    <>
      <Text size="sm">
        Merges it at the git host
        {base != null && (
          <>
            , into <Name of={base} />
          </>
        )}
        {opensAt != null && (
          <>
            {' '}
            <Until at={opensAt} />, when the next of its windows opens
          </>
        )}
        , as long as its newest commit is this one{opensAt != null && ' and you may merge it then'}. Commits that come meanwhile
        are not merged unseen:
      </Text>
      <Text size="sm" mt="sm" style={{ overflowWrap: 'anywhere' }}>
        <code>
          <Name of={head ?? ''} />
        </code>
      </Text>
      {warnings.length > 0 && (
        <Alert
          variant="outline"
          mt="sm"
          color="yellow"
          styles={noticeOf('warn')}
          icon={<IconAlertTriangle size={16} />}
          title="The host may merge it all the same"
        >
          {warnings.join(' ')}
        </Alert>
      )}
    </>
  );
}
