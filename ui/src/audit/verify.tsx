import { Button, Group, Modal, Progress, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { IconShieldCheck } from '@tabler/icons-react';
import { useEffect, useState } from 'react';

import { graphql } from '../generated';
import type { AuditVerifyQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { Command, Copy } from '../parts/action';
import { Facts, Fault, Waiting } from '../parts/page';
import { componentStates, State } from '../parts/state';
import { Ago, Name } from '../parts/text';

const VerifyPart = graphql(/* GraphQL */ `
  query AuditVerify($attributes: AuditVerifyAttributes) {
    auditVerify(attributes: $attributes) {
      batches
      digest
      keptOutside
      lines
      more
      moreProblems
      sequence
      unchained
      problems {
        kind
        log
        message
        lineId
        sequence
      }
    }
  }
`);
const Checkpoints = graphql(/* GraphQL */ `
  query AuditCheckpoints {
    auditCheckpoints(last: 1) {
      sequence
      signedAt
      text
    }
  }
`);

type Part = NonNullable<AuditVerifyQuery['auditVerify']>;
interface Found {
  lines: number;
  batches: number;
  keptOutside: number;
  unchained: number;
  problems: NonNullable<NonNullable<Part['problems']>[number]>[];
  moreProblems: number;
  isDone: boolean;
}
const NOTHING: Found = { lines: 0, batches: 0, keptOutside: 0, unchained: 0, problems: [], moreProblems: 0, isDone: false };

/** Checks the whole audit log, a part after the other, and says what was edited, removed or reordered. */
export function Verify() {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button variant="default" leftSection={<IconShieldCheck size={14} />} onClick={open}>
        Verify
      </Button>
      <Modal opened={isOpen} onClose={close} title="Verify the audit log" centered size="lg">
        {isOpen && <Checking />}
      </Modal>
    </>
  );
}

function Checking() {
  const [found, setFound] = useState(NOTHING);
  const [error, setError] = useState<unknown>();
  const checkpoints = useQuery({ queryKey: ['audit', 'checkpoints'], queryFn: ({ signal }) => ask(Checkpoints, {}, signal) });
  useEffect(() => {
    const ends = new AbortController();
    const check = async () => {
      let sum = NOTHING;
      let after: number | null = null;
      for (;;) {
        const { auditVerify: part }: AuditVerifyQuery = await ask(
          VerifyPart,
          { attributes: { after, batches: 100 } },
          ends.signal,
        );
        if (!part) return;
        sum = {
          lines: sum.lines + part.lines,
          batches: sum.batches + part.batches,
          keptOutside: sum.keptOutside + part.keptOutside,
          unchained: part.unchained,
          problems: [...sum.problems, ...(part.problems ?? []).flatMap((problem) => problem ?? [])].slice(0, 200),
          moreProblems: sum.moreProblems + part.moreProblems,
          isDone: !part.more,
        };
        setFound(sum);
        if (!part.more) return;
        after = part.sequence;
      }
    };
    check().catch((failed: unknown) => {
      if (!ends.signal.aborted) setError(failed);
    });
    return () => ends.abort();
  }, []);
  const newest = checkpoints.data?.auditCheckpoints?.[0];
  if (error !== undefined) return <Fault error={error} what="whether the log is whole" />;
  const isGood = found.problems.length === 0;
  return (
    <Stack gap="md">
      {!found.isDone && <Progress value={100} animated aria-label="Checking" />}
      <div role="status">
        <State
          look={
            !found.isDone
              ? { ...componentStates.PENDING, word: 'Checking' }
              : isGood
                ? { ...componentStates.RUNNING, word: 'Nothing was edited, removed or reordered' }
                : { ...componentStates.FAILED, word: 'The log is not as it was written' }
          }
        />
      </div>
      <Facts
        facts={[
          ['Lines', found.lines.toLocaleString('en')],
          ['Batches', found.batches.toLocaleString('en')],
          ['Compared with', `${found.keptOutside.toLocaleString('en')} checkpoints of the blob store`],
          ['Too new', found.unchained > 0 && `${found.unchained.toLocaleString('en')} lines that are not in the chain yet`],
          ['More problems', found.moreProblems > 0 && found.moreProblems.toLocaleString('en')],
        ]}
      />
      {found.problems.map((problem, at) => (
        <Text size="sm" key={at} role="alert">
          {problem.kind.toLowerCase()}: <Name of={problem.message} />
        </Text>
      ))}
      {checkpoints.isPending && <Waiting lines={1} />}
      {newest && (
        <Group gap="xs">
          <Text size="sm">
            Newest checkpoint: batch {newest.sequence}, <Ago at={newest.signedAt} />. Keep it outside of the console.
          </Text>
          <Copy text={newest.text} label="Copy the checkpoint" />
        </Group>
      )}
      <Command line="plural audit verify" />
    </Stack>
  );
}
