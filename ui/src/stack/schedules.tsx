import { Code } from '@mantine/core';
import { IconClock } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { quoted, visible } from '../lib/text';
import { Action } from '../parts/action';
import { Facts, Panel } from '../parts/page';
import { Name, Until } from '../parts/text';
import type { Field, Values } from '../parts/values';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import type { StackOne } from './queries';

type Schedule =
  { crontab?: string | null; timeZone?: string | null; nextAt?: string | null; error?: string | null } | null | undefined;

const at = (values: Values, field: string): string => (values[field] ?? '').trim();

/** Both schedules as they are, as the form begins with them. */
const begins = ({ cron, driftSchedule }: StackOne): Values => ({
  cron: cron?.crontab ?? '',
  zone: cron?.timeZone ?? '',
  drift: driftSchedule?.crontab ?? '',
  driftZone: driftSchedule?.timeZone ?? '',
});

/** What of the two is other than before: a schedule is given whole, so one that stays is not given. */
function changed(stack: StackOne, values: Values) {
  const was = begins(stack);
  const differs = (...fields: string[]) => fields.some((field) => at(values, field) !== (was[field] ?? ''));
  const zone = at(values, 'zone');
  return {
    ...(differs('cron', 'zone') && {
      cron: {
        crontab: at(values, 'cron'),
        ...(zone !== '' && { timeZone: zone }),
        ...(stack.cron?.autoApprove === true && { autoApprove: true }),
      },
    }),
    ...(differs('drift', 'driftZone') && { drift: { crontab: at(values, 'drift'), timeZone: at(values, 'driftZone') } }),
  };
}

const fields = (stack: StackOne): Field[] => {
  const was = begins(stack);
  return [
    {
      name: 'cron',
      label: 'Runs',
      initial: was['cron'] ?? '',
      placeholder: '0 3 * * mon-fri',
      hint: "Cron's five fields, or @hourly, @daily, @weekly, @monthly, @yearly; none when empty",
    },
    {
      name: 'zone',
      label: 'Time zone of runs',
      initial: was['zone'] ?? '',
      placeholder: 'Europe/Berlin',
      hint: 'UTC when empty',
    },
    { name: 'drift', label: 'Looks for drift', initial: was['drift'] ?? '', placeholder: '30 * * * *', hint: 'None when empty' },
    {
      name: 'driftZone',
      label: 'Time zone of looks for drift',
      initial: was['driftZone'] ?? '',
      placeholder: 'Europe/Berlin',
      hint: 'UTC when empty',
    },
  ];
};

/** When the clock does something for a stack. */
export function Schedules({ stack }: { stack: StackOne }) {
  const { id, name } = stack;
  return (
    <Panel
      title="Schedules"
      aside={
        <Action
          key={JSON.stringify(begins(stack))}
          noun="stack"
          label="Change"
          icon={IconClock}
          right={stackRight(name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains="The clock makes runs of the newest commit, and looks for drift. A schedule of runs that changes here loses settings of the tool that are its own: give those in a file, by command line."
          fields={fields(stack)}
          command={(values) => {
            const { cron, drift } = changed(stack, values);
            if (cron?.autoApprove === true) return commands.settings(name, { cron, ...(drift && { drift }) });
            return commands.update(
              name,
              ...(cron ? [`--cron ${quoted(cron.crontab)}`] : []),
              ...(cron?.timeZone === undefined ? [] : [`--cron-time-zone ${quoted(cron.timeZone)}`]),
              ...(drift ? [`--drift-cron ${quoted(drift.crontab)}`, `--drift-time-zone ${quoted(drift.timeZone)}`] : []),
            );
          }}
          run={(values) => ask(Update, { id, attributes: changed(stack, values) })}
          done="Changed the schedules"
        />
      }
    >
      <Facts
        facts={[
          ['Runs', told(stack.cron), 'wide'],
          ['Looks for drift', told(stack.driftSchedule), 'wide'],
        ]}
      />
    </Panel>
  );
}

function told(schedule: Schedule) {
  if (schedule?.crontab == null || schedule.crontab === '') return 'only when somebody asks';
  return (
    <>
      <Code>{visible(schedule.crontab)}</Code> {visible(schedule.timeZone ?? 'UTC')}
      {schedule.nextAt != null && (
        <>
          , next <Until at={schedule.nextAt} />
        </>
      )}
      {schedule.error != null && (
        <>
          . The last one failed: <Name of={schedule.error} />
        </>
      )}
    </>
  );
}
