import { Button, CloseButton, Group, Paper, Text } from '@mantine/core';
import { useFocusTrap, useMergedRef } from '@mantine/hooks';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate, useRouterState } from '@tanstack/react-router';
import { useEffect, useId, useRef, useState } from 'react';

import { ON_HOME, servicesQuery } from '../service/queries';
import { useNamed } from './named';
import { stepsWith, type Shown, type Step } from './steps';
import classes from './tour.module.css';

/** Goes through the console with somebody who is new. What is named can be used meanwhile; Escape ends it. */
export default function Tour({ end }: { end: () => void }) {
  // What fails is what the tour is about: the first of it, else the first of all.
  const failing = useInfiniteQuery(servicesQuery({ status: 'FAILED' }, ON_HOME));
  const any = useInfiniteQuery(servicesQuery({}, 1));
  if (failing.isPending || any.isPending) return null;
  const [service] = [...(failing.data ?? []), ...(any.data ?? [])].flatMap(({ cluster, name, status }): Shown[] =>
    cluster?.handle == null ? [] : [{ cluster: cluster.handle, name, fails: status === 'FAILED' }],
  );
  return <Guide service={service} end={end} />;
}

function Guide({ service, end }: { service: Shown | undefined; end: () => void }) {
  // A service that becomes healthy meanwhile changes no step.
  const [steps] = useState(() => stepsWith(service));
  const [at, setAt] = useState(0);
  const step = steps[at];
  const pathname = useRouterState({ select: ({ location }) => location.pathname });
  const navigate = useNavigate();
  useEffect(() => {
    const hear = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || isAnothers(event.target)) return;
      end();
    };
    // Before a dialog hears it, and is gone.
    window.addEventListener('keydown', hear, true);
    return () => window.removeEventListener('keydown', hear, true);
  }, [end]);
  if (!step) return null;
  const go = (to: number) => {
    const next = steps[to];
    if (!next) {
      end();
      return;
    }
    setAt(to);
    if (pathname !== next.to || next.search !== step.search) void navigate({ to: next.to, search: (next.search ?? {}) as never });
  };
  return <Card step={step} at={at} of={steps.length} go={go} end={end} />;
}

/** A dialog, a popover or a menu that somebody opened meanwhile hears Escape first. */
function isAnothers(target: EventTarget | null): boolean {
  if (document.querySelector('[aria-modal="true"]')) return true;
  const within = target instanceof Element ? target.closest('[role="dialog"], [role="menu"], [role="listbox"]') : null;
  return within !== null && !within.hasAttribute('data-tour-card');
}

interface CardProps {
  step: Step;
  at: number;
  of: number;
  go: (to: number) => void;
  end: () => void;
}

function Card({ step, at, of, go, end }: CardProps) {
  const id = useId();
  const card = useRef<HTMLDivElement>(null);
  const onward = useRef<HTMLButtonElement>(null);
  const ref = useMergedRef(card, useFocusTrap());
  const where = useNamed(`[data-tour="${step.names}"]`, step.side, card);
  const turn = (to: number) => {
    // Back leaves with the first step. Before the step changes: after the last one, the focus is no longer here.
    onward.current?.focus({ preventScroll: true });
    go(to);
  };
  return (
    <>
      {where?.ring && <div className={classes['ring']} style={where.ring} data-tour-ring aria-hidden />}
      <Paper
        ref={ref}
        role="dialog"
        aria-labelledby={`${id}-title`}
        aria-describedby={`${id}-text`}
        data-tour-card
        withBorder
        shadow="md"
        className={classes['card'] ?? ''}
        {...(where && { style: { top: where.card.top, left: where.card.left } })}
      >
        <Group justify="space-between" wrap="nowrap" gap="sm">
          <Text size="xs" c="dimmed">
            Step {at + 1} of {of}
          </Text>
          <CloseButton size="md" aria-label="End the tour" onClick={end} />
        </Group>
        <div aria-live="polite">
          <Text fw={600} mb={4} id={`${id}-title`}>
            {step.title}
          </Text>
          <Text size="sm" id={`${id}-text`}>
            {step.text}
          </Text>
        </div>
        <Group justify="space-between" gap="sm">
          <Text size="xs" c="dimmed" className={classes['key'] ?? ''}>
            Esc ends the tour
          </Text>
          <Group gap="sm">
            {at > 0 && (
              <Button variant="default" onClick={() => turn(at - 1)}>
                Back
              </Button>
            )}
            <Button ref={onward} data-autofocus onClick={() => turn(at + 1)}>
              {at + 1 < of ? 'Next' : 'Done'}
            </Button>
          </Group>
        </Group>
      </Paper>
    </>
  );
}
