import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type uPlot from 'uplot';

import { Panel } from '../parts/page';
import { kindsQuery } from './discovery';
import classes from './metrics.module.css';
import { listAt, quantity, textAt, type KubeObject } from './objects';
import { selectorOf } from './object';
import { kubeJson, kubePath, type Kind } from './request';

interface Sample {
  at: number;
  cpu: number;
  memory: number;
}

const EVERY = 15_000;
const MOST = 480;

/** What a pod, a node or the pods of a workload use, as metrics-server measures it, from when the page was opened on. */
export function Metrics({ handle, kind, object }: { handle: string; kind: Kind; object: KubeObject }) {
  const kinds = useQuery(kindsQuery(handle)).data ?? [];
  const resource = kind.id === 'nodes' ? 'nodes' : 'pods';
  const metrics = kinds.find(({ id }) => id === `${resource}.metrics.k8s.io`);
  const isMeasured = kind.id === 'nodes' || kind.id === 'pods' || selectorOf(kind, object) !== undefined;
  if (metrics === undefined || !isMeasured) return null;
  return <Measured handle={handle} kind={kind} object={object} metrics={metrics} />;
}

function Measured({ handle, kind, object, metrics }: { handle: string; kind: Kind; object: KubeObject; metrics: Kind }) {
  const { name, namespace } = object.metadata;
  const labelSelector = selectorOf(kind, object);
  const isOne = kind.id === 'nodes' || kind.id === 'pods';
  const path = kubePath(handle, metrics, { namespace, ...(isOne ? { name } : { query: { labelSelector } }) });
  const measured = useQuery({
    queryKey: ['kubernetes', handle, 'metrics', path],
    // Where there is no measurement, or no right to it, there will not soon be one.
    refetchInterval: ({ state }) => (state.error === null ? EVERY : 120_000),
    retry: false,
    queryFn: ({ signal }) =>
      kubeJson<object>(path, { signal, wanted: { verb: isOne ? 'get' : 'list', kind: metrics, namespace } }),
    select: (answer) => sum(isOne ? [answer] : listAt(answer, 'items')),
  });
  const [samples, setSamples] = useState<Sample[]>([]);
  const { data, dataUpdatedAt, error } = measured;
  const [seen, setSeen] = useState(0);
  if (data !== undefined && seen !== dataUpdatedAt) {
    setSeen(dataUpdatedAt);
    setSamples([...samples.slice(1 - MOST), { at: dataUpdatedAt / 1000, ...data }]);
  }
  const last = samples.at(-1);
  return (
    <Panel title="Use, since this page was opened">
      {last === undefined ? (
        <p className={classes['note']}>{error === null ? 'Measuring.' : 'metrics-server has no measurement of it now.'}</p>
      ) : (
        <div className={classes['charts']}>
          <Chart
            title="CPU"
            value={`${last.cpu.toFixed(3)} cores`}
            at={samples.map(({ at }) => at)}
            values={samples.map(({ cpu }) => cpu)}
            unit={cores}
            steps={CORES}
          />
          <Chart
            title="Memory"
            value={bytes(last.memory)}
            at={samples.map(({ at }) => at)}
            values={samples.map(({ memory }) => memory)}
            unit={bytes}
            steps={BYTES}
          />
        </div>
      )}
    </Panel>
  );
}

const CORES = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** (power - 3))).flat();
const BYTES = Array.from({ length: 44 }, (_, power) => 2 ** power);

function cores(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)}m` : value.toFixed(2);
}

function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${(value / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power] ?? ''}`;
}

function sum(measured: unknown[]): { cpu: number; memory: number } {
  const usages = measured.flatMap((one) => [one, ...listAt(one, 'containers')]);
  const of = (resource: string) =>
    usages.reduce<number>((total, one) => total + (quantity(textAt(one, 'usage', resource)) ?? 0), 0);
  return { cpu: of('cpu'), memory: of('memory') };
}

interface ChartProps {
  title: string;
  value: string;
  at: number[];
  values: number[];
  unit: (value: number) => string;
  /** Between its marks. */
  steps: number[];
}

/** A line over time; the last value stands beside it as text. */
function Chart({ title, value, at, values, unit, steps }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef<[number[], number[]]>([at, values]);
  useEffect(() => {
    latest.current = [at, values];
    plot.current?.setData([at, values]);
  }, [at, values]);
  useEffect(() => {
    let isGone = false;
    const element = place.current;
    let observer: ResizeObserver | undefined;
    void Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')]).then(([{ default: Plot }]) => {
      if (isGone || !element) return;
      const style = getComputedStyle(element);
      const colour = style.getPropertyValue('--tone-busy');
      const axis = {
        stroke: style.getPropertyValue('--tone-none'),
        grid: { stroke: style.getPropertyValue('--line'), width: 1 },
      };
      plot.current = new Plot(
        {
          width: element.clientWidth,
          height: 130,
          legend: { show: false },
          cursor: { show: false },
          scales: {
            // Five minutes at least: a first measurement has no span of its own.
            x: { range: (_, min, max) => [Math.min(min, max - 300), max] },
            y: { range: (_, __, max) => [0, max > 0 ? max * 1.2 : 1] },
          },
          axes: [axis, { ...axis, size: 84, incrs: steps, values: (_, ticks) => ticks.map(unit) }],
          series: [{}, { stroke: colour, width: 2, points: { show: true, size: 4, fill: colour } }],
        },
        latest.current,
        element,
      );
      observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 130 }));
      observer.observe(element);
    });
    return () => {
      isGone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [unit, steps]);
  return (
    <figure className={classes['chart']}>
      <figcaption>
        {title}: <strong>{value}</strong>
      </figcaption>
      <div ref={place} aria-hidden />
    </figure>
  );
}
