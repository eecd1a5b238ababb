import { Stack, Text } from '@mantine/core';
import { IconAlertTriangleFilled, IconCircleXFilled } from '@tabler/icons-react';

import type { VulnSeverity } from '../generated/graphql';
import { counted } from '../lib/text';
import { Empty, Facts, Panel } from '../parts/page';
import { State, type Look } from '../parts/state';
import { Table, type Columns } from '../parts/table';
import { Name, Outside } from '../parts/text';
import type { Run } from './run-queries';

type Violation = NonNullable<NonNullable<Run['violations']>[number]>;
type Cost = NonNullable<Run['cost']>;
type Resource = NonNullable<NonNullable<Cost['resources']>[number]>;

const refuses: Look = { word: 'Refuses', tone: 'bad', Icon: IconCircleXFilled };
const warns: Look = { word: 'Warns', tone: 'warn', Icon: IconAlertTriangleFilled };

const severities: Record<VulnSeverity, string> = {
  CRITICAL: 'critical',
  HIGH: 'high',
  MEDIUM: 'medium',
  LOW: 'low',
  NONE: 'harmless',
  UNKNOWN: 'not rated',
};

/** What policies and Infracost say of a plan: whoever approves it reads that beside it. */
export function Findings({ run }: { run: Run }) {
  const violations = (run.violations ?? []).flatMap((one) => one ?? []);
  const { cost } = run;
  if (violations.length === 0 && cost == null) return null;
  return (
    <Stack gap="md" mb="md">
      {violations.length > 0 && <Violations all={violations} />}
      {cost != null && <Costs cost={cost} />}
    </Stack>
  );
}

function Violations({ all }: { all: Violation[] }) {
  const columns: Columns<Violation> = [
    {
      id: 'does',
      header: 'Policy',
      meta: { track: '96px' },
      cell: ({ row }) => <State look={row.original.refuses ? refuses : warns} />,
    },
    {
      id: 'severity',
      header: 'Severity',
      meta: { track: '80px', from: 480 },
      cell: ({ row }) => severities[row.original.severity],
    },
    {
      id: 'title',
      header: 'What it says of what, by which rule',
      meta: { track: 'minmax(180px, 1fr)' },
      cell: ({ row: { original: one } }) => {
        const resources = (one.causes ?? []).flatMap((cause) => (cause ? [cause.resource] : []));
        return (
          <>
            <Name of={one.title} />{' '}
            {one.policyUrl != null && one.policyUrl !== '' && <Outside address={one.policyUrl}>about it</Outside>}
            {resources.length > 0 && (
              <div>
                <Name of={[...new Set(resources)].join(', ')} />
              </div>
            )}
            <Text size="sm" c="dimmed" component="div">
              <Name of={one.policyId} />
              {one.policyModule != null && one.policyModule !== '' && (
                <>
                  {' '}
                  of <Name of={one.policyModule} />
                </>
              )}
            </Text>
          </>
        );
      },
    },
  ];
  return (
    <Panel title="Policy">
      <Table
        isShort
        isTall
        label="What policies say of the plan"
        rows={all}
        columns={columns}
        id={(one) => one.id}
        empty={<Empty title="Nothing">No rule has anything against the plan.</Empty>}
      />
    </Panel>
  );
}

/** `+12.50`, `-3.10`: by how much more or less. */
const signed = (amount: string | null | undefined) => (amount != null && Number(amount) > 0 ? `+${amount}` : amount);

function Costs({ cost }: { cost: Cost }) {
  const resources = (cost.resources ?? []).flatMap((one) => one ?? []);
  const money = (amount: string | null | undefined) => amount != null && <Name of={`${amount} ${cost.currency}`} />;
  const columns: Columns<Resource> = [
    {
      id: 'name',
      header: 'Resource',
      meta: { track: 'minmax(150px, 1fr)' },
      cell: ({ row }) => <Name of={row.original.name} />,
    },
    {
      id: 'monthly',
      header: 'A month',
      meta: { track: '130px', isNumber: true },
      cell: ({ row }) => money(row.original.monthly) || 'not known',
    },
  ];
  return (
    <Panel title="Cost">
      <Facts
        facts={[
          ['A month', money(cost.monthly)],
          ['An hour', money(cost.hourly)],
          ['A month before', money(cost.pastMonthly)],
          ['Change a month', money(signed(cost.diffMonthly))],
        ]}
      />
      {resources.length > 0 && (
        <Table
          isShort
          isTall
          label="What resources would cost"
          rows={resources}
          columns={columns}
          id={(one) => `${one.project} ${one.name}`}
          empty={<Empty title="Nothing">No resource has a price.</Empty>}
        />
      )}
      {cost.omitted > 0 && (
        <Text size="sm" c="dimmed" p="sm">
          {counted(cost.omitted, 'more resource')} {cost.omitted === 1 ? 'is' : 'are'} not listed; the totals are of all.
        </Text>
      )}
    </Panel>
  );
}
