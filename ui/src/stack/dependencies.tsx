import { Text } from '@mantine/core';

import { Facts, Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import type { StackOne } from './queries';

type Needed = NonNullable<NonNullable<StackOne['dependencies']>[number]>;
type Taken = NonNullable<Needed['outputs']>;

/** `address, token as db_token`: what a stack takes, and the variables that it becomes. */
export function taken(outputs: Taken | null | undefined): string {
  return (outputs ?? [])
    .flatMap((one) => one ?? [])
    .map(({ output, variable }) => (output === variable ? output : `${output} as ${variable}`))
    .join(', ');
}

/** A stack that one depends on, and what it takes from it. */
export function NeededFact({ of: { stack: other, outputs } }: { of: Needed }) {
  return (
    <>
      {other == null ? (
        'a stack that you may not see'
      ) : (
        <RouteLink to={paths.stack(other.name)}>
          <Name of={other.name} />
        </RouteLink>
      )}
      {taken(outputs) !== '' && (
        <>
          : <Name of={taken(outputs)} />
        </>
      )}
    </>
  );
}

/** The stacks that one depends on, with what it takes from them, and those that depend on it. */
export function Dependencies({ stack }: { stack: StackOne }) {
  const upstream = (stack.dependencies ?? []).flatMap((one) => one ?? []);
  const dependents = (stack.dependents ?? []).flatMap((one) => one ?? []);
  if (upstream.length === 0 && dependents.length === 0) return null;
  return (
    <Panel
      title="Dependencies"
      aside={
        <Text size="sm" component="span">
          <RouteLink to={paths.stackGraph()}>Graph of all stacks</RouteLink>
        </Text>
      }
    >
      <Facts
        facts={[
          [
            'Needs',
            upstream.length > 0 &&
              upstream.map((one) => (
                <div key={one.stackId}>
                  <NeededFact of={one} />
                </div>
              )),
            'wide',
          ],
          [
            'Needed by',
            dependents.length > 0 &&
              dependents.map(({ id, name }, at) => (
                <span key={id}>
                  {at > 0 && ', '}
                  <RouteLink to={paths.stack(name)}>
                    <Name of={name} />
                  </RouteLink>
                </span>
              )),
            'wide',
          ],
        ]}
      />
    </Panel>
  );
}
