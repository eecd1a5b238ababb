import { Stack, Text } from '@mantine/core';
import { IconAlertTriangleFilled, IconCircleXFilled } from '@tabler/icons-react';

import type { VulnSeverity } from '../generated/graphql';
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
      meta: { track: '110px' },
      cell: ({ row }) => <State look={row.original.refuses ? refuses : warns} />,
    },
    {
      id: 'severity',
      header: 'Severity',
      meta: { track: '90px' },
      cell: ({ row }) => severities[row.original.severity],
    },
    {
      id: 'title',
      header: 'What it says',
      meta: { track: 'minmax(200px, 3fr)' },
      cell: ({ row: { original: one } }) => (
        <>
          <Name of={one.title} />{' '}
          {one.policyUrl != null && one.policyUrl !== '' && <Outside address={one.policyUrl}>about it</Outside>}
        </>
      ),
    },
    {
      id: 'resource',
      header: 'Resource',
      meta: { track: 'minmax(140px, 2fr)' },
      cell: ({ row }) => {
        const resource = row.original.causes?.[0]?.resource;
        return resource != null && <Name of={resource} />;
      },
    },
    {
      id: 'rule',
      header: 'Rule',
      meta: { track: 'minmax(120px, 1fr)' },
      cell: ({ row: { original: one } }) => <Name of={`${one.policyId} (${one.policyModule ?? 'unknown'})`} />,
    },
  ];
  return (
    <Panel title="Policy">
      <Table
        isShort
        label="What policies say of the plan"
        rows={all}
        columns={columns}
        id={(one) => one.id}
        empty={<Empty title="Nothing">No rule has anything against the plan.</Empty>}
      />
    </Panel>
  );
}

function Costs({ cost }: { cost: Cost }) {
  const resources = (cost.resources ?? []).flatMap((one) => one ?? []);
  const money = (amount: string | null | undefined) => amount != null && <Name of={`${amount} ${cost.currency}`} />;
  const columns: Columns<Resource> = [
    {
      id: 'name',
      header: 'Resource',
      meta: { track: 'minmax(200px, 3fr)' },
      cell: ({ row }) => <Name of={row.original.name} />,
    },
    {
      id: 'monthly',
      header: 'A month',
      meta: { track: '160px' },
      cell: ({ row }) => money(row.original.monthly),
    },
  ];
  return (
    <Panel title="Cost">
      <Facts
        facts={[
          ['A month', money(cost.monthly)],
          ['An hour', money(cost.hourly)],
          ['Before', money(cost.pastMonthly)],
          ['The plan changes', money(cost.diffMonthly)],
        ]}
      />
      {resources.length > 0 && (
        <Table
          isShort
          label="What resources would cost"
          rows={resources}
          columns={columns}
          id={(one) => `${one.project} ${one.name}`}
          empty={<Empty title="Nothing">No resource has a price.</Empty>}
        />
      )}
      {cost.omitted > 0 && (
        <Text size="sm" c="dimmed" p="sm">
          {cost.omitted} more are not kept; the totals are of all.
        </Text>
      )}
    </Panel>
  );
}
