import { ActionIcon, Button, Code, CopyButton, Group, Popover, Stack, Text, Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconCheck, IconCopy, IconLock, type Icon } from '@tabler/icons-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { useDialog } from '../lib/dialog';
import { quoted, visible } from '../lib/text';
import { Name } from './text';
import type { Field, Values } from './values';

const Decision = graphql(/* GraphQL */ `
  query Decision($verb: String!, $thing: String!, $within: String) {
    accessDecision(verb: $verb, thing: $thing, within: $within) {
      allowed
      reason
      needed
      givers {
        role
        thing
        user {
          name
          email
        }
        group {
          name
        }
      }
    }
  }
`);

/** Text for the clipboard. */
export function Copy({ text, label }: { text: string; label: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : label}>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={label}
            onClick={copy}
            style={{ verticalAlign: 'middle' }}
          >
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** The same by command line. */
export function Command({ line, caption = 'The same by command line' }: { line: string; caption?: string }) {
  return (
    <Stack gap={4}>
      <Text size="xs" c="dimmed">
        {caption}
      </Text>
      <Group gap="xs" wrap="nowrap">
        <Code block flex={1} bd="1px solid var(--line)" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {visible(line)}
        </Code>
        <Copy text={line} label="Copy the command" />
      </Group>
    </Stack>
  );
}

/** What it is, as `plural auth can-i` takes it: the verb, the thing, and what a new one is in. */
export interface Right {
  verb: string;
  thing: string;
  within?: string;
}

export interface ActionProps<Answer> {
  label: string;
  icon: Icon;
  /** Absent where everybody may: then the console alone decides. */
  right?: Right;
  /** What it does, before it does it; asked anew as the form is filled. */
  explains: ReactNode | ((values: Values) => ReactNode);
  command: string | ((values: Values) => string);
  /** Why it makes no sense now, whoever asks. */
  unless?: string | undefined;
  /** What its form offers is not read yet. */
  isReading?: boolean;
  /** What is asked for before. */
  fields?: Field[];
  /** A name that is typed before something is gone. */
  confirm?: string;
  /** `begun`: what its form began with, whatever was read since. */
  run: (values: Values, begun: Values) => Promise<Answer>;
  done: string;
  /** What the answer says, where it must be read now: a token that is shown once. Absent: a short message is enough. */
  tells?: (answer: Answer) => ReactNode;
  /** First words of the keys of what is read again. */
  noun: string;
  /** In a row of a table. */
  isSmall?: boolean;
  /** It takes something away. */
  isDangerous?: boolean;
}

/** The dialog and its fields are as much script as all of a list's page: they are read while nothing else is, and at the latest when a
 * pointer or the focus comes to the button. */
const readAsk = () => import('./ask');
const Ask = lazy(readAsk) as unknown as <Answer>(props: ActionProps<Answer> & { close: () => void }) => ReactNode;
const readSoon = () => void readAsk().catch(() => undefined);

/** A change: asked for once more with what it does, or disabled with the reason. */
export function Action<Answer>(props: ActionProps<Answer>) {
  const { label, icon: Sign, right, unless, isReading = false, isSmall = false, isDangerous = false } = props;
  const size = isSmall ? 'compact-xs' : 'xs';
  const decision = useQuery({
    queryKey: ['decision', right],
    queryFn: ({ signal }) =>
      ask(Decision, { verb: right?.verb ?? '', thing: right?.thing ?? '', within: right?.within ?? null }, signal),
    select: (data) => data.accessDecision,
    staleTime: 30_000,
    enabled: right !== undefined,
  });
  const { isOpen, open, close, opener } = useDialog();
  const [told, setTold] = useState(false);
  const refused = decision.data?.allowed === false ? decision.data : undefined;

  if (refused || unless !== undefined) {
    return (
      <Popover opened={told} onChange={setTold} width={340} withArrow shadow="sm" trapFocus>
        <Popover.Target>
          <Button
            variant="default"
            size={size}
            aria-disabled
            c="dimmed"
            leftSection={refused ? <IconLock size={14} /> : <Sign size={14} />}
            onClick={() => setTold(!told)}
          >
            {label}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <Stack gap="sm">
            <Text size="sm" fw={600}>
              Why can’t I?
            </Text>
            {refused && right ? (
              <>
                <Text size="sm">
                  <Name of={refused.reason} />
                </Text>
                {refused.needed != null && (
                  <Text size="sm">
                    <Name of={refused.needed} />
                  </Text>
                )}
                {(refused.givers ?? []).map((giver, at) => (
                  <Text size="sm" key={at}>
                    Ask <Name of={giver?.user?.name ?? giver?.group?.name ?? 'an administrator'} /> ({giver?.role})
                  </Text>
                ))}
                <Command
                  line={`plural auth explain ${right.verb} ${quoted(right.thing)}${right.within === undefined ? '' : ` --in ${quoted(right.within)}`}`}
                />
              </>
            ) : (
              <Text size="sm">{unless}</Text>
            )}
          </Stack>
        </Popover.Dropdown>
      </Popover>
    );
  }
  return (
    <>
      <Button
        ref={opener}
        variant="default"
        size={size}
        leftSection={<Sign size={14} />}
        loading={isReading || (right !== undefined && decision.isPending)}
        {...(isDangerous && !isSmall && { c: 'var(--tone-bad)' })}
        onPointerEnter={readSoon}
        onFocus={readSoon}
        onClick={open}
      >
        {label}
      </Button>
      <Suspense>{isOpen && <Ask {...props} close={close} />}</Suspense>
    </>
  );
}

/** Something that is told now and never again. */
export function Once({ text, what }: { text: string; what: string }) {
  return (
    <Stack gap={4}>
      <Text size="sm" fw={600}>
        {what} is shown now and never again.
      </Text>
      <Group gap="xs" wrap="nowrap">
        <Code block flex={1} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {text}
        </Code>
        <Copy text={text} label={`Copy ${what.toLowerCase()}`} />
      </Group>
    </Stack>
  );
}
