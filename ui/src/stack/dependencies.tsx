import { Stack, Text } from '@mantine/core';

import { Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import type { StackOne } from './queries';

/** The stacks that one depends on, with what it takes from them, and those that depend on it. */
export function Dependencies({ stack }: { stack: StackOne }) {
  const upstream = (stack.dependencies ?? []).flatMap((one) => one ?? []);
  const dependents = (stack.dependents ?? []).flatMap((one) => one ?? []);
  if (upstream.length === 0 && dependents.length === 0) return null;
  return (
    <Panel title="Dependencies">
      <Stack gap="xs">
        {upstream.map(({ stackId, stack: other, outputs }) => {
          const taken = (outputs ?? []).flatMap((one) => one ?? []);
          return (
            <Text key={stackId} size="sm">
              Needs{' '}
              {other == null ? 'a stack that you may not see' : <RouteLink to={paths.stack(other.name)}>{other.name}</RouteLink>}
              {taken.length > 0 && ': '}
              {taken.map(({ output, variable }, index) => (
                <span key={variable}>
                  {index > 0 && ', '}
                  <Name of={output === variable ? output : `${output} as ${variable}`} />
                </span>
              ))}
            </Text>
          );
        })}
        {dependents.map(({ id, name }) => (
          <Text key={id} size="sm">
            Needed by <RouteLink to={paths.stack(name)}>{name}</RouteLink>
          </Text>
        ))}
        <Text size="sm">
          <RouteLink to={paths.stackGraph()}>All stacks that depend on each other</RouteLink>
        </Text>
      </Stack>
    </Panel>
  );
}
