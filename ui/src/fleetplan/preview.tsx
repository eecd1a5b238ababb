import { Alert, Button, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconAlertTriangle, IconTopologyStar3 } from '@tabler/icons-react';

import { listed } from '../lib/list';
import { noticeOf } from '../parts/notice';
import { Fault, Panel, Waiting } from '../parts/page';
import { held, Shown } from '../parts/shown';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { Clusters, Rest } from './plans';
import { planQuery, type Plan, type PlannedStack } from './queries';

interface Planning {
  data: { id: string } | null | undefined;
  error: Error | null;
  isPending: boolean;
}

/** What a pull request would change in services, before it is opened: on request. */
export function Effects({ planning, plan }: { planning: Planning; plan: () => void }) {
  const { data, error, isPending } = planning;
  if (data != null) return <Planned key={data.id} id={data.id} again={plan} />;
  return (
    <>
      {error && <Fault error={error} what="what it would do" retry={plan} />}
      {!error && (
        <Button
          variant="default"
          w="fit-content"
          loading={isPending}
          leftSection={<IconTopologyStar3 size={14} />}
          onClick={plan}
        >
          Show what it would do
        </Button>
      )}
    </>
  );
}

function Planned({ id, again }: { id: string; again: () => void }) {
  const query = useQuery(planQuery(id));
  const plan = held(query);
  return (
    <Shown query={query} what="what it would do">
      <Panel
        title="What it would do to services"
        aside={
          plan?.phase === 'DONE' || plan?.phase === 'FAILED' ? (
            <Button size="xs" variant="default" onClick={again}>
              Plan it again
            </Button>
          ) : undefined
        }
      >
        <Stack gap="sm" p="md">
          {plan == null ? <Waiting /> : <Told plan={plan} />}
        </Stack>
      </Panel>
    </Shown>
  );
}

/** A stack whose code changes, and the status of the run that plans it. */
function StackPlan({ stack: { stack, run, problem } }: { stack: PlannedStack }) {
  const name = stack?.name ?? '';
  const planned = run?.plan;
  return (
    <Text size="sm">
      Stack{' '}
      <RouteLink to={paths.stack(name)}>
        <Name of={name} />
      </RouteLink>
      {': '}
      {run != null && (
        <>
          {planned == null
            ? `its plan is ${run.status === 'FAILED' || run.status === 'CANCELLED' ? 'not made' : 'being made'}`
            : `${planned.add} to add, ${planned.change} to change, ${planned.destroy} to destroy`}
          {', '}
          <RouteLink to={paths.stackRun(name, run.id)}>run {run.number}</RouteLink>
        </>
      )}
      {run == null && (problem == null ? 'its code changes' : <Name of={problem} />)}
    </Text>
  );
}

function Told({ plan }: { plan: Plan }) {
  const parts = listed(plan.reach?.parts);
  const stacks = listed(plan.stacks);
  switch (plan.phase) {
    case 'FAILED':
      return (
        <Alert
          variant="outline"
          color="red"
          styles={noticeOf('bad')}
          icon={<IconAlertTriangle size={16} />}
          title="It cannot be planned"
        >
          <Text size="sm">
            <Name of={plan.error ?? 'The console does not say why.'} />
          </Text>
        </Alert>
      );
    case 'SUPERSEDED':
      return <Text size="sm">A newer one of yours took its place.</Text>;
    case 'LOOKING':
    case 'HELD':
      return <Text size="sm">The console makes the changes, and looks which services they reach.</Text>;
    case 'ASKED':
    case 'DONE':
    case null:
      break;
  }
  return (
    <>
      {parts.length === 0 && <Text size="sm">It reaches no service that you may see.</Text>}
      {parts.length > 0 && <Clusters plan={plan} parts={parts} />}
      {stacks.map((stack) => (
        <StackPlan key={stack.stack?.id} stack={stack} />
      ))}
      <Rest plan={plan} />
      <Text size="xs" c="dimmed">
        Nothing was written, and nothing is applied. Only you and administrators see this, for an hour.
      </Text>
    </>
  );
}
