import { useCallback } from 'react';

import { counted, visible } from '../lib/text';
import { Graph as Drawing } from '../parts/graph';
import classes from '../parts/graph.module.css';
import { shortProvider, type Box, type Picture } from './state-picture';

/** Three lines. */
const HEIGHT = 62;

const key = (box: Box): string => box.key;

/** A resource with how many instances it has, or many resources. The graph is for people who see it; the list says the same to everybody. */
function ResourceBox({
  box: { key, resources, many },
  isChosen,
  open,
}: {
  box: Box;
  isChosen: boolean;
  open: (key: string) => void;
}) {
  const [first] = resources;
  if (!first) return null;
  const { address, instances, provider } = first;
  const all = counted(resources.length, 'resource');
  const [kind, name, under] = !many
    ? [first.type, first.name, `${first.module === '' ? 'root module' : first.module} · ${shortProvider(provider)}`]
    : many.type === undefined
      ? ['Module', many.module ?? '', all]
      : [many.type, all, many.module === undefined ? 'in all modules' : many.module === '' ? 'root module' : many.module];
  return (
    <button
      type="button"
      className={classes['node']}
      data-many={many !== undefined || undefined}
      data-chosen={isChosen || undefined}
      title={visible(many ? `${kind}: ${all}` : `${address}: ${provider}`)}
      onClick={() => open(key)}
    >
      <span className={classes['kind']}>
        <bdi>{visible(kind)}</bdi>
        {!many && instances.length > 1 && <span>× {instances.length.toLocaleString('en')}</span>}
      </span>
      <span className={classes['name']}>
        <bdi>{visible(name)}</bdi>
      </span>
      <span className={classes['under']}>
        <bdi>{visible(under)}</bdi>
      </span>
    </button>
  );
}

/** From left to right: what is needed, and what needs it. */
export default function Graph(props: { shown: Picture; at: string | undefined; open: (key: string) => void }) {
  const { shown, at, open } = props;
  const draw = useCallback(
    (box: Box) => <ResourceBox box={box} isChosen={box.key === at} open={open} />,
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `open` closes over what the same render draws
    [at, shown],
  );
  return (
    <Drawing
      label="Resources and what they need"
      items={shown.boxes}
      id={key}
      arrows={shown.arrows}
      draw={draw}
      strong={at}
      boxHeight={HEIGHT}
    />
  );
}
