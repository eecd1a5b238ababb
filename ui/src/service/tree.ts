import type { ComponentState } from '../generated/graphql';
import type { Service } from './queries';

/** An object of a service: one that it applies, or one that such an object owns. */
export interface Item {
  /** `group/kind/namespace/name`: what an address names it by. */
  key: string;
  /** Of its owner; absent for what the service applies. */
  parent: string | undefined;
  depth: number;
  group: string;
  version: string;
  kind: string;
  namespace: string;
  name: string;
  state: ComponentState | undefined;
  synced: boolean | undefined;
  message: string;
}

const RANK: Record<ComponentState, number> = { FAILED: 0, PAUSED: 1, PENDING: 2, RUNNING: 3 };
/** How bad it is: what is not known stands before what runs. */
export const rank = (state: ComponentState | undefined): number => (state === undefined ? 2.5 : RANK[state]);

type Component = NonNullable<NonNullable<Service['components']>[number]>;
type Child = NonNullable<NonNullable<Component['children']>[number]>;
const DEEPEST = 6;

/** Depth first, each level with what is broken first. A parent is as bad as its worst child for this order. */
export function items(service: Pick<Service, 'components'>): Item[] {
  return (service.components ?? [])
    .flatMap((component) => component ?? [])
    .map((component) => {
      const children = (component.children ?? []).flatMap((child) => child ?? []);
      const worst = Math.min(rank(component.state ?? undefined), ...children.map((child) => rank(child.state ?? undefined)));
      return { component, children, worst };
    })
    .sort((a, b) => a.worst - b.worst || compare(a.component, b.component))
    .flatMap(({ component, children }) => {
      const item = of(component, undefined, 0, component.synced);
      return [item, ...below(children, undefined, item.key, 1)];
    });
}

function of(thing: Component | Child, parent: string | undefined, depth: number, synced: boolean | undefined): Item {
  const group = thing.group ?? '';
  const namespace = thing.namespace ?? '';
  return {
    key: [group, thing.kind, namespace, thing.name].join('/'),
    parent,
    depth,
    group,
    version: thing.version ?? 'v1',
    kind: thing.kind,
    namespace,
    name: thing.name,
    state: thing.state ?? undefined,
    synced,
    message: thing.message ?? '',
  };
}

function below(children: Child[], owner: string | undefined, parent: string, depth: number): Item[] {
  if (depth > DEEPEST) return [];
  const uids = new Set(children.map(({ uid }) => uid));
  return (
    children
      // An owner that is not among the children is the component itself.
      .filter((child) => (owner === undefined ? !uids.has(child.parentUid) : child.parentUid === owner))
      .sort((a, b) => rank(a.state ?? undefined) - rank(b.state ?? undefined) || compare(a, b))
      .flatMap((child) => {
        const item = of(child, parent, depth, undefined);
        return [item, ...(child.uid == null ? [] : below(children, child.uid, item.key, depth + 1))];
      })
  );
}

function compare(a: { kind: string; name: string }, b: { kind: string; name: string }): number {
  return a.kind.localeCompare(b.kind) || a.name.localeCompare(b.name);
}

/** More than these are not drawn: what runs well is drawn as one box for each kind. */
const DRAWN = 200;

export interface Drawn extends Item {
  /** So many objects that run well in the place of one. */
  stands?: number;
}

/** What a graph shows: everything, or what is not well with its owners, and one box for the others of a kind. */
export function drawn(all: Item[], limit = DRAWN): Drawn[] {
  if (all.length <= limit) return all;
  const byKey = new Map(all.map((item) => [item.key, item]));
  const kept = new Set<string>();
  for (const item of all) {
    if (kept.size >= limit) break;
    if (item.state === 'RUNNING') continue;
    for (let at: Item | undefined = item; at; at = at.parent === undefined ? undefined : byKey.get(at.parent)) kept.add(at.key);
  }
  const rest = new Map<string, Drawn>();
  for (const item of all) {
    if (kept.has(item.key) || item.depth > 0) continue;
    const key = `all/${item.group}/${item.kind}/${item.state ?? ''}`;
    const known = rest.get(key);
    rest.set(key, { ...item, key, namespace: '', name: '', message: '', stands: (known?.stands ?? 0) + 1 });
  }
  return [...all.filter(({ key }) => kept.has(key)), ...rest.values()];
}
