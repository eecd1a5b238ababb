import { useCallback, useMemo } from 'react';

import { visible } from '../lib/text';
import { Graph as Drawing, type Arrow } from '../parts/graph';
import classes from '../parts/graph.module.css';
import { componentStates, State, unknown } from '../parts/state';
import type { Drawn } from './tree';

interface Box {
  /** Absent of the service itself. */
  item?: Drawn;
  id: string;
}

const SERVICE: Box = { id: 'n' };
const id = (box: Box): string => box.id;

interface ObjectProps {
  item: Drawn | undefined;
  name: string;
  isChosen: boolean;
  open: (key: string) => void;
}

/** One object. The graph is for people who see it; the list says the same to everybody. */
function ObjectBox({ item, name, isChosen, open }: ObjectProps) {
  const look = item?.state === undefined ? unknown : componentStates[item.state];
  const content = (
    <>
      <span className={classes['kind']}>
        <span>{item ? item.kind : 'Service of Plural'}</span>
        {item && <State look={look} />}
      </span>
      <span className={classes['name']}>
        <bdi>{visible(item?.stands === undefined ? name : `${item.stands.toLocaleString('en')} objects`)}</bdi>
      </span>
    </>
  );
  const tone = item ? look.tone : 'none';
  return item && item.stands === undefined ? (
    <button
      type="button"
      className={classes['node']}
      data-tone={tone}
      data-chosen={isChosen || undefined}
      title={visible(item.message === '' ? name : `${name}: ${item.message}`)}
      onClick={() => open(item.key)}
    >
      {content}
    </button>
  ) : (
    <div className={classes['node']} data-tone={tone}>
      {content}
    </div>
  );
}

/** The service, what it applies, and what that owns: from left to right, what is broken first. */
export default function Graph(props: { name: string; items: Drawn[]; chosen: string | undefined; open: (key: string) => void }) {
  const { name, items, chosen, open } = props;
  const boxes = useMemo(() => [SERVICE, ...items.map((item): Box => ({ item, id: `n${item.key}` }))], [items]);
  const arrows = useMemo(() => items.map(({ key, parent = '' }): Arrow => ({ from: `n${parent}`, to: `n${key}` })), [items]);
  const draw = useCallback(
    ({ item }: Box) => (
      <ObjectBox item={item} name={item?.name ?? name} isChosen={item !== undefined && item.key === chosen} open={open} />
    ),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `open` closes over the address, which is chosen already
    [name, chosen],
  );
  return <Drawing label={`Objects of ${visible(name)}`} items={boxes} id={id} arrows={arrows} draw={draw} />;
}
