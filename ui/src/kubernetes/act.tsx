import { Button, Group, Modal, Popover, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { IconLock, type Icon } from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';

import { explain } from '../lib/client';
import { useDialog } from '../lib/dialog';
import { quoted, visible } from '../lib/text';
import { Command } from '../parts/action';
import { Name } from '../parts/text';
import { whoQuery } from './frame';
import { clusterPath, kubeJson, type Kind } from './request';

/** What somebody may do, as the cluster's authorizer is asked. */
export interface Right {
  verb: string;
  kind: Kind;
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
}

interface Review {
  status?: { allowed?: boolean; reason?: string };
}

/** Whether the cluster allows it to us. */
export function rightQuery(cluster: string, { verb, kind, namespace, name, subresource }: Right) {
  return {
    queryKey: ['kubernetes', cluster, 'right', verb, kind.id, namespace, name, subresource],
    staleTime: 30_000,
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const path = clusterPath(cluster, 'apis/authorization.k8s.io/v1/selfsubjectaccessreviews');
      const resourceAttributes = { verb, group: kind.group, resource: kind.resource, namespace, name, subresource };
      const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } };
      const { status } = await kubeJson<Review>(path, { method: 'POST', body, signal });
      return { allowed: status?.allowed === true, reason: status?.reason ?? '' };
    },
  };
}

interface ActProps {
  cluster: string;
  label: string;
  icon: Icon;
  right: Right;
  /** What it does, before it does it; and what is to be chosen for it. */
  explains: ReactNode;
  command: string;
  /** Why it makes no sense now, whoever asks. */
  unless?: string | undefined;
  /** To be typed before. */
  confirm?: string | undefined;
  isDangerous?: boolean;
  run: () => Promise<unknown>;
  done: string;
}

/** A change to an object: asked for once more with what it does, or disabled with the reason. */
export function Act(props: ActProps) {
  const { cluster, label, icon: Sign, right, unless, isDangerous = false } = props;
  const decision = useQuery(rightQuery(cluster, right));
  const { isOpen, open, close, opener } = useDialog();
  const refused = decision.data?.allowed === false;
  if (refused || unless !== undefined) {
    return <WhyNot cluster={cluster} label={label} right={right} unless={refused ? undefined : unless} />;
  }
  return (
    <>
      <Button
        ref={opener}
        variant="default"
        leftSection={<Sign size={14} />}
        loading={decision.isPending}
        onClick={open}
        {...(isDangerous && { c: 'var(--tone-bad)' })}
      >
        {label}
      </Button>
      {isOpen && <Asks {...props} close={close} />}
    </>
  );
}

/** Disabled, and why. */
export function WhyNot(props: { cluster: string; label: string; right: Right; unless?: string | undefined }) {
  const { cluster, label, right, unless } = props;
  const [told, setTold] = useState(false);
  const who = useQuery({ ...whoQuery(cluster), enabled: told }).data;
  const what = right.subresource === undefined ? right.kind.id : `${right.kind.id}/${right.subresource}`;
  const flags = right.namespace === undefined ? '' : ` -n ${quoted(right.namespace)}`;
  const below = right.subresource === undefined ? '' : ` --subresource=${right.subresource}`;
  return (
    <Popover opened={told} onChange={setTold} width={340} withArrow shadow="sm" trapFocus>
      <Popover.Target>
        <Button variant="default" aria-disabled c="dimmed" leftSection={<IconLock size={14} />} onClick={() => setTold(!told)}>
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          <Text size="sm" fw={600}>
            Why can’t I?
          </Text>
          {unless !== undefined ? (
            <Text size="sm">{unless}</Text>
          ) : (
            <>
              <Text size="sm">
                The cluster allows you no <code>{right.verb}</code> of <Name of={what} />.
              </Text>
              {who && (
                <Text size="sm">
                  It knows you as <Name of={who.name} />, in the groups <Name of={who.groups.join(', ')} />. Who administers it
                  can give a role to you or to one of these groups.
                </Text>
              )}
              <Command line={`kubectl auth can-i ${right.verb} ${quoted(right.kind.id)}${below}${flags}`} />
            </>
          )}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function Asks({
  cluster,
  label,
  explains,
  command,
  confirm,
  isDangerous = false,
  run,
  done,
  close,
}: ActProps & { close: () => void }) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState('');
  const change = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      notifications.show({ message: visible(done) });
      close();
      await queries.invalidateQueries({ queryKey: ['kubernetes', cluster] });
    },
  });
  const failed = change.isError ? explain(change.error) : undefined;
  const isReady = confirm === undefined || typed === confirm;
  return (
    <Modal opened onClose={close} title={label} centered closeButtonProps={{ 'aria-label': 'Close' }}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) change.mutate();
        }}
      >
        <Stack gap="md">
          <Text size="sm" component="div">
            {explains}
          </Text>
          {confirm !== undefined && (
            <TextInput
              label={
                <>
                  Type <Name of={confirm} /> to go on
                </>
              }
              value={typed}
              autoComplete="off"
              data-autofocus
              onChange={({ currentTarget }) => setTyped(currentTarget.value)}
            />
          )}
          <Command line={command} />
          {failed && (
            <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)', overflowWrap: 'anywhere' }}>
              <Name of={failed.what} />. {failed.next}
            </Text>
          )}
          <Group justify="flex-end" gap="sm">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button
              type="submit"
              loading={change.isPending}
              disabled={!isReady}
              {...(isDangerous && { color: 'red.9' })}
              {...(confirm === undefined && { 'data-autofocus': true })}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
