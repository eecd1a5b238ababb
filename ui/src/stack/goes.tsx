import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { counted } from '../lib/text';
import { Fault, Waiting } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { stackGraphQuery, type StackGraph } from './graph-queries';
import { resourcesQuery, type StackOne } from './queries';

interface GoesProps {
  stack: StackOne;
  isDestroyed: boolean;
  /** Only the resources of the stack are destroyed, and the stack stays. */
  isKept?: boolean;
  /** Its dependents lose it, and cannot prevent that. */
  isLeaving: boolean;
}

/** What a deletion removes, shown before it happens. */
export function Goes({ stack, isDestroyed, isKept = false, isLeaving }: GoesProps) {
  const { stateVersion: state } = stack;
  const resources = useQuery({ ...resourcesQuery(stack.id, state?.id ?? ''), enabled: state != null && state.resources !== 0 });
  const hasMade = stack.sha != null || (state != null && state.resources !== 0);
  const found = (resources.data?.state ?? []).flatMap((one) => one ?? []);
  return (
    <>
      <Text size="sm">
        {!isDestroyed
          ? 'The stack is forgotten with all versions of its state. Nothing is destroyed: what it made stays where it is, and nothing knows of it any more.'
          : !isKept && !hasMade
            ? 'No run of it made anything: the stack is deleted at once.'
            : `A run plans the destruction of everything that the stack made${
                stack.approval === true ? ', waits for approval,' : ' and'
              } carries it out${isKept ? '. The stack stays.' : '; when all of it is gone, the stack is deleted.'}`}
      </Text>
      {!isKept && <First stack={stack} isLeaving={isLeaving} />}
      {state != null && state.resources !== 0 && (
        <div style={{ maxHeight: 220, overflow: 'auto' }} tabIndex={0} role="region" aria-label="What goes">
          <Text size="sm" mt="xs">
            {state.resources == null
              ? 'Its state is encrypted by its tool: the console cannot say what is in it.'
              : `${isDestroyed ? 'Destroyed are' : 'Forgotten are'} ${counted(state.resources, 'resource')}:`}
          </Text>
          {resources.isFetching && <Waiting lines={3} />}
          {resources.isError && <Fault error={resources.error} what="what would go" retry={() => void resources.refetch()} />}
          <ul style={{ margin: 0, paddingLeft: 20 }}>
            {found.slice(0, 200).map((one) => (
              <li key={one.identifier}>
                <Name of={one.identifier} />
              </li>
            ))}
            {found.length > 200 && <li>and {counted(found.length - 200, 'more resource')}</li>}
          </ul>
        </div>
      )}
    </>
  );
}

/** All direct and indirect dependents of this stack, in the order of deletion. */
function before(id: string, { stacks, edges }: StackGraph): { id: string; name: string }[] {
  const found = new Set([id]);
  // Dependencies come first, so that one pass finds all.
  for (const one of stacks)
    if (edges.some(({ stackId, upstreamId }) => stackId === one.id && found.has(upstreamId))) found.add(one.id);
  return stacks.filter((one) => one.id !== id && found.has(one.id)).reverse();
}

/** Its dependents are deleted before it: the console refuses any other order. */
function First({ stack, isLeaving }: { stack: StackOne; isLeaving: boolean }) {
  const dependents = (stack.dependents ?? []).flatMap((one) => one ?? []);
  const graph = useQuery({ ...stackGraphQuery, enabled: dependents.length > 0 });
  if (dependents.length === 0) return null;
  const all = graph.data ? before(stack.id, graph.data) : [];
  return (
    <Text size="sm" mt="xs" component="div" role="note">
      {isLeaving ? 'These depend on it, and are left without it: ' : 'These depend on it, and go first, in this order: '}
      {(all.length === 0 ? dependents : all).map(({ id, name }, at) => (
        <span key={id}>
          {at > 0 && ', '}
          <RouteLink to={paths.stack(name)}>
            <Name of={name} />
          </RouteLink>
        </span>
      ))}
      .
    </Text>
  );
}
