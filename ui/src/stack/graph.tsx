import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';

import { visible } from '../lib/text';
import { Graph as Drawing, type Arrow } from '../parts/graph';
import classes from '../parts/graph.module.css';
import { State } from '../parts/state';
import { paths } from '../paths';
import type { GraphStack, StackGraph } from './graph-queries';
import { noRun, runStatuses } from './states';

/** One stack. The graph is for people who see it; the list below says the same to everybody. */
function StackBox({ stack }: { stack: GraphStack }) {
  const look = stack.status == null ? noRun : runStatuses[stack.status];
  return (
    <Link to={paths.stack(stack.name)} className={classes['node']} data-tone={look.tone} title={visible(stack.name)}>
      <span className={classes['kind']}>
        <span>{stack.deletedAt == null ? 'Stack' : 'Being deleted'}</span>
        <State look={look} />
      </span>
      <span className={classes['name']}>
        <bdi>{visible(stack.name)}</bdi>
      </span>
    </Link>
  );
}

const id = (stack: GraphStack): string => stack.id;
const draw = (stack: GraphStack) => <StackBox stack={stack} />;

/** From left to right: what is depended on, and what depends on it. */
export default function Graph({ graph: { stacks, edges } }: { graph: StackGraph }) {
  const arrows = useMemo(() => edges.map(({ stackId, upstreamId }): Arrow => ({ from: upstreamId, to: stackId })), [edges]);
  return <Drawing label="Stacks that depend on each other" items={stacks} id={id} arrows={arrows} draw={draw} />;
}
