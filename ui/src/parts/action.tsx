import { ActionIcon, Button, Code, CopyButton, Group, Modal, Popover, Stack, Text, Tooltip } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { IconCheck, IconCopy, IconLock, type Icon } from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';

import { graphql } from '../generated';
import { ask, explain } from '../lib/client';
import { visible } from '../lib/text';
import { Name } from './text';

const Decision = graphql(/* GraphQL */ `
  query Decision($verb: String!, $thing: String!) {
    accessDecision(verb: $verb, thing: $thing) {
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
          <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={copy}>
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
        <Code block flex={1} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {visible(line)}
        </Code>
        <Copy text={line} label="Copy the command" />
      </Group>
    </Stack>
  );
}

interface ActionProps {
  label: string;
  icon: Icon;
  /** What it is, as `plural auth can-i` takes it: the verb and the thing. */
  right: { verb: string; thing: string };
  /** What it does, before it does it. */
  explains: ReactNode;
  command: string;
  /** Why it makes no sense now, whoever asks. */
  unless?: string | undefined;
  run: () => Promise<unknown>;
  done: string;
  noun: 'service' | 'cluster';
  /** In a row of a table. */
  isSmall?: boolean;
}

/** A change: asked for once more with what it does, or disabled with the reason. */
export function Action(props: ActionProps) {
  const { label, icon: Sign, right, unless, isSmall = false } = props;
  const size = isSmall ? 'compact-xs' : 'xs';
  const decision = useQuery({
    queryKey: ['decision', right.verb, right.thing],
    queryFn: ({ signal }) => ask(Decision, right, signal),
    select: (data) => data.accessDecision,
    staleTime: 30_000,
  });
  const [asks, { open, close }] = useDisclosure(false);
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
            {refused ? (
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
                <Command line={`plural auth explain ${right.verb} ${right.thing}`} />
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
      <Button variant="default" size={size} leftSection={<Sign size={14} />} loading={decision.isPending} onClick={open}>
        {label}
      </Button>
      <Ask {...props} opened={asks} close={close} />
    </>
  );
}

function Ask({ label, explains, command, run, done, noun, opened, close }: ActionProps & { opened: boolean; close: () => void }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      notifications.show({ message: visible(done) });
      close();
      await queries.invalidateQueries({ queryKey: [noun] });
    },
  });
  const failed = change.isError ? explain(change.error) : undefined;
  return (
    <Modal opened={opened} onClose={close} title={label} centered>
      <Stack gap="md">
        <Text size="sm" component="div">
          {explains}
        </Text>
        <Command line={command} />
        {failed && (
          <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
            <Name of={failed.what} />. {failed.next}
          </Text>
        )}
        <Group justify="flex-end" gap="sm">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button data-autofocus loading={change.isPending} onClick={() => change.mutate()}>
            {label}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
