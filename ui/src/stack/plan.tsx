import { Button, Checkbox, SegmentedControl, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode } from 'react';

import { counted, short, visible } from '../lib/text';
import { Copy } from '../parts/action';
import { Empty, Panel, Waiting } from '../parts/page';
import { Shown } from '../parts/shown';
import { State } from '../parts/state';
import { Ago, Name } from '../parts/text';
import { Facets } from '../parts/filter';
import { byModule, readPlan, type Attribute, type Planned, type PlanTree } from './plan-json';
import classes from './plan.module.css';
import { Written } from './log';
import { planQuery, planTextQuery, type Run } from './run-queries';
import { fateOrder, fates, type Fate } from './states';
import { Summary } from './summary';

export type PlanView = 'tree' | 'text';

/** So many resources are drawn at first, and so many more each time. */
const STEP = 200;

/** What a run planned: what it would do by number, then each resource with its attributes, or the text that its tool wrote. */
export function PlanPanel(props: { run: Run; view: PlanView; setView: (view: PlanView) => void }) {
  const { run, view, setView } = props;
  const { plan } = run;
  if (!plan)
    return (
      <Panel title="Plan">
        <Empty title="No plan yet">
          {run.finishedAt == null
            ? 'It appears here as soon as it is stored, with what would be made, changed and destroyed.'
            : 'The run ended before its plan was stored.'}
        </Empty>
      </Panel>
    );
  return (
    <Panel
      title="Plan"
      aside={
        <SegmentedControl
          size="xs"
          aria-label="View of the plan"
          data-no-print
          value={view}
          onChange={(next) => setView(next as PlanView)}
          data={[
            { value: 'tree', label: 'Resources' },
            { value: 'text', label: 'Text' },
          ]}
        />
      }
    >
      <div className={classes['counts']}>
        <Summary plan={plan} />
        <Text size="sm" c="dimmed" component="span">
          planned <Ago at={plan.at} />, digest <code title={plan.digest}>{short(plan.digest)}</code>{' '}
          <Copy text={plan.digest} label="Copy the digest of the plan" />
        </Text>
      </div>
      {view === 'text' ? (
        <PlanText id={run.id} digest={plan.digest} />
      ) : (
        <PlanJson
          id={run.id}
          digest={plan.digest}
          isOfTerraform={run.stack?.type !== 'ANSIBLE' && run.stack?.type !== 'CUSTOM'}
        />
      )}
    </Panel>
  );
}

function PlanText({ id, digest }: { id: string; digest: string }) {
  const query = useQuery(planTextQuery(id, digest));
  if (query.isPending) return <Waiting lines={8} />;
  return (
    <Shown query={query} what="the text of the plan">
      {query.data === '' ? (
        <Empty title="Its tool wrote no text">The log of its step holds what it printed.</Empty>
      ) : (
        <Written text={query.data ?? ''} name="plan.txt" what="the plan" />
      )}
    </Shown>
  );
}

function PlanJson({ id, digest, isOfTerraform }: { id: string; digest: string; isOfTerraform: boolean }) {
  const query = useQuery(planQuery(id, digest));
  const tree = useMemo(() => readPlan(query.data), [query.data]);
  if (query.isPending) return <Waiting lines={8} />;
  return (
    <Shown query={query} what="the plan">
      {tree ? (
        <Tree tree={tree} />
      ) : (
        <Empty title="This plan has no list of resources">
          {isOfTerraform ? 'Its JSON is not there, or of another form.' : 'Its tool writes none.'} Its text says what it would do.
        </Empty>
      )}
    </Shown>
  );
}

function Tree({ tree }: { tree: PlanTree }) {
  const [wanted, setWanted] = useState('');
  const [fate, setFate] = useState<Fate>();
  const [hasAll, setAll] = useState(false);
  const [most, setMost] = useState(STEP);
  const counts = useMemo(() => {
    const found = new Map<Fate, number>();
    for (const one of tree.resources) found.set(one.fate, (found.get(one.fate) ?? 0) + 1);
    return found;
  }, [tree]);
  const chosen = useMemo(
    () =>
      tree.resources.filter(
        (one) =>
          (fate === undefined ? one.fate !== 'none' || one.previous !== undefined || one.isImported : one.fate === fate) &&
          one.address.toLowerCase().includes(wanted.trim().toLowerCase()),
      ),
    [tree, fate, wanted],
  );
  const outputs = tree.outputs.filter((one) => one.fate !== 'none');
  return (
    <>
      <div className={classes['tools']} data-no-print>
        <Facets<Fate>
          label="What becomes of it"
          value={fate}
          onChange={setFate}
          choices={[
            { value: undefined, label: 'All changes' },
            ...fateOrder
              .filter((one) => counts.has(one))
              .map((one) => ({ value: one, label: <State look={fates[one]} />, count: counts.get(one) })),
          ]}
        />
        <TextInput
          type="search"
          aria-label="Search by address"
          placeholder="Search by address"
          w={220}
          maxLength={200}
          value={wanted}
          onChange={({ currentTarget }) => setWanted(currentTarget.value)}
        />
        <Checkbox
          size="xs"
          label="Unchanged attributes too"
          checked={hasAll}
          onChange={({ currentTarget }) => setAll(currentTarget.checked)}
        />
      </div>
      <div className={classes['tree']}>
        {chosen.length === 0 && outputs.length === 0 && (
          <Empty title={tree.resources.length === 0 ? 'The plan names no resource' : 'No resource of the plan matches'} />
        )}
        {byModule(chosen.slice(0, most)).map(({ name, resources }) => (
          <details key={name} open className={classes['module']}>
            <summary>
              {name === '' ? 'Root module' : <Name of={name} />}{' '}
              <Text component="span" size="xs" c="dimmed">
                {counted(resources.length, 'resource')}
              </Text>
            </summary>
            {resources.map((one) => (
              <Resource key={`${one.address} ${one.fate}`} of={one} hasAll={hasAll} />
            ))}
          </details>
        ))}
        {chosen.length > most && (
          <Button variant="default" m="sm" onClick={() => setMost(most + STEP)}>
            Show {Math.min(STEP, chosen.length - most)} more of {counted(chosen.length, 'resource')}
          </Button>
        )}
        {outputs.length > 0 && wanted === '' && fate === undefined && (
          <details open className={classes['module']}>
            <summary>Outputs</summary>
            <Attributes rows={outputs.map(({ attribute }) => attribute)} label="Outputs" />
          </details>
        )}
        {tree.drift.length > 0 && wanted === '' && fate === undefined && (
          <details className={classes['module']}>
            <summary>
              Changed outside of the stack{' '}
              <Text component="span" size="xs" c="dimmed">
                {counted(tree.drift.length, 'resource')}, as its refresh found
              </Text>
            </summary>
            {tree.drift.slice(0, STEP).map((one) => (
              <Resource key={one.address} of={one} hasAll={hasAll} />
            ))}
          </details>
        )}
      </div>
    </>
  );
}

/** A resource; its attributes are worked out when it is opened. */
function Resource({ of: one, hasAll }: { of: Planned; hasAll: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const word =
    one.fate === 'replace'
      ? one.createsFirst
        ? 'Replace, the new one first'
        : 'Replace, destroyed first'
      : fates[one.fate].word;
  const notes = [
    one.reason !== undefined && `because ${one.reason}`,
    one.previous !== undefined && `was ${one.previous}`,
    one.isImported && 'is imported',
  ].filter((note) => typeof note === 'string');
  return (
    <details className={classes['resource']} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span>
          <State look={{ ...fates[one.fate], word }} />
          <span className={classes['address']}>
            <Name of={one.address} />
          </span>
        </span>
      </summary>
      {isOpen && (
        <>
          {notes.length > 0 && (
            <p className={classes['reason']}>
              <Name of={notes.join('; ')} />
            </p>
          )}
          <ResourceAttributes of={one} hasAll={hasAll} />
        </>
      )}
    </details>
  );
}

function ResourceAttributes({ of: one, hasAll }: { of: Planned; hasAll: boolean }) {
  const all = useMemo(() => one.attributes(), [one]);
  const rows = hasAll ? all : all.filter(({ isChanged }) => isChanged);
  if (rows.length === 0) return <p className={classes['reason']}>No attribute changes.</p>;
  return <Attributes rows={rows.slice(0, 1000)} label={one.address} more={rows.length - 1000} />;
}

function Attributes({ rows, label, more = 0 }: { rows: Attribute[]; label: string; more?: number }) {
  return (
    <>
      <table className={classes['attributes']} aria-label={`Attributes of ${visible(label)}`}>
        <thead>
          <tr>
            <th scope="col">Attribute</th>
            <th scope="col">Now</th>
            <th scope="col">Then</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.path}>
              <th scope="row">
                <Name of={row.path} />
                {row.forcesReplacement && <span className={classes['forces']}> forces the replacement</span>}
              </th>
              <td>{side(row, row.before, 'before')}</td>
              <td>{side(row, row.after, 'after')}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p className={classes['reason']}>{counted(more, 'attribute')} more: they are in the text.</p>}
    </>
  );
}

function side(row: Attribute, value: string | undefined, which: 'before' | 'after'): ReactNode {
  if (row.isSensitive) return <span className={classes['mark']}>sensitive, not shown</span>;
  if (which === 'after' && row.isUnknown) return <span className={classes['mark']}>known after apply</span>;
  if (value === undefined) return <span className={classes['mark']}>–</span>;
  const text = <Name of={value.length > 4000 ? `${value.slice(0, 4000)}…` : value} />;
  if (!row.isChanged) return text;
  return which === 'before' ? <del>{text}</del> : <ins>{text}</ins>;
}
