import type { StackResourcesQuery } from '../generated/graphql';

/* What a state holds, as a graph: resources with all of their instances, and boxes of many of them where they are too many to draw. */

export type Instance = NonNullable<NonNullable<NonNullable<StackResourcesQuery['stackState']>['state']>[number]>;

/** A resource with all of its instances. */
export interface Resource {
  /** Without keys of instances: what `links` names it by. */
  address: string;
  /** `module.a.module.b`; empty for the root module. */
  module: string;
  /** `aws_instance`, `data aws_ami`. */
  type: string;
  name: string;
  provider: string;
  instances: string[];
  /** What it needs by itself, of what is here. */
  needs: string[];
  neededBy: string[];
}

const KEY = /\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]/g;
const DEPOSED = / \(deposed [^)]*\)$/;

/** `module.a["x"].t.n[0]` without the keys of instances: `module.a.t.n`. */
function withoutKeys(identifier: string): string {
  return identifier.replace(DEPOSED, '').replace(KEY, '');
}

/** `module.a.module.b` of `module.a.module.b.t.n`. */
function moduleOf(address: string): string {
  const parts = address.split('.');
  let modules = 0;
  while (parts[modules] === 'module' && modules + 2 < parts.length) modules += 2;
  return parts.slice(0, modules).join('.');
}

/** `aws` of `provider["registry.opentofu.org/hashicorp/aws"]`. */
export function shortProvider(provider: string): string {
  return /([^/"[\]]+)"?\](?:\.[\w-]+)?$/.exec(provider)?.[1] ?? provider;
}

/** By their addresses, in order. */
export function resourcesOf(instances: Instance[]): Resource[] {
  const all = new Map<string, Resource>();
  const links = new Map<string, Set<string>>();
  for (const { identifier, resource, name, provider, links: own } of instances) {
    const address = withoutKeys(identifier);
    const known = all.get(address) ?? make(address, resource, name, provider);
    known.instances.push(identifier);
    all.set(address, known);
    const needs = links.get(address) ?? new Set();
    for (const link of own ?? []) if (link != null) needs.add(link);
    links.set(address, needs);
  }
  for (const [address, needs] of links)
    for (const link of needs) {
      const one = all.get(address);
      const other = all.get(link);
      if (!one || !other || one === other) continue;
      one.needs.push(link);
      other.neededBy.push(address);
    }
  return [...all.values()];
}

function make(address: string, type: string, name: string, provider: string): Resource {
  const module = moduleOf(address);
  const isData = address.startsWith(module === '' ? 'data.' : `${module}.data.`);
  return { address, module, type: isData ? `data ${type}` : type, name, provider, instances: [], needs: [], neededBy: [] };
}

/** More boxes are not drawn. */
const MOST = 150;
/** So many, where they stand for many. */
const MOST_OF_MANY = 40;

/** A resource, or many of them. */
export interface Box {
  /** What an address of the page names it by. */
  key: string;
  resources: Resource[];
  /** Of many: what they have in common. */
  many?: { module: string | undefined; type: string | undefined };
}

/** `aws_subnet of module.a`. */
function titleOf({ module, type }: NonNullable<Box['many']>): string {
  const where = module === '' ? 'the root module' : (module ?? 'all modules');
  return type === undefined ? where : `${type} of ${where}`;
}

type Common = (resource: Resource) => Pick<Box, 'key' | 'many'>;

const outermost = (module: string): string => module.split('.').slice(0, 2).join('.');
const isRoot = ({ module }: Resource): boolean => module === '';

/** How resources are put together, the finest way first. */
const byType: Common = ({ module, type }) => ({ key: `${module}/${type}`, many: { module, type } });
const byModule: Common = (one) =>
  isRoot(one) ? byType(one) : { key: `${one.module}/`, many: { module: one.module, type: undefined } };
const WAYS: Common[] = [
  ({ address }) => ({ key: address }),
  byType,
  byModule,
  (one) => {
    if (isRoot(one)) return byType(one);
    const module = outermost(one.module);
    return { key: `${module}/*`, many: { module, type: undefined } };
  },
  ({ type }) => ({ key: `*/${type}`, many: { module: undefined, type } }),
];

export interface Picture {
  /** Whether all resources are few enough to be drawn, each by itself. */
  isSmall: boolean;
  boxes: Box[];
  arrows: { from: string; to: string }[];
  /** Of what an address of the page names; empty where it names nothing. */
  title: string;
  /** The resource that it names. */
  chosen: Resource | undefined;
  /** Whether there are boxes that stand for many. */
  isCoarse: boolean;
  /** Whether only what was chosen or looked for is drawn, with what is around it. */
  isPart: boolean;
  /** Resources that are in no box: too many of what they are beside of. */
  left: number;
}

/** All resources where they are few; else what was looked for or chosen, with what it needs and what needs it; else boxes of many. */
export function picture(all: Resource[], wanted: string, at: string | undefined): Picture {
  const word = wanted.trim().toLowerCase();
  const isSmall = all.length <= MOST - MOST_OF_MANY;
  const known = new Map(all.map((resource) => [resource.address, resource]));
  const chosen = at === undefined ? undefined : known.get(at);
  let core = all;
  if (word !== '')
    core = all.filter(({ address, instances }) => [address, ...instances].some((text) => text.toLowerCase().includes(word)));
  else if (chosen && !isSmall) core = [chosen];
  else if (at !== undefined && !isSmall) core = all.filter((resource) => WAYS.some((way) => way(resource).key === at));
  // An address of the page that names nothing of this state.
  if (core.length === 0 && word === '') core = all;
  const isPart = core.length < all.length && core.length > 0;
  const here = new Set(core.map(({ address }) => address));
  const around = isPart
    ? [...new Set(core.flatMap(({ needs, neededBy }) => [...needs, ...neededBy]))].flatMap((address) => {
        const one = known.get(address);
        return one && !here.has(address) ? [one] : [];
      })
    : [];
  const inner = together(core, MOST - MOST_OF_MANY);
  const outer = together(around, MOST - inner.length);
  const boxes = merged([...inner, ...outer]);
  const drawn = boxes.reduce((sum, { resources }) => sum + resources.length, 0);
  const many = core.slice(0, 1).flatMap((one) => WAYS.map((way) => way(one)).filter(({ key }) => key === at))[0]?.many;
  return {
    isSmall,
    title: chosen?.address ?? (many && titleOf(many)) ?? '',
    boxes,
    arrows: between(boxes),
    chosen,
    isCoarse: boxes.some(({ many }) => many !== undefined),
    isPart,
    left: core.length + around.length - drawn,
  };
}

/** Each by itself if they are no more than that; else in the finest way that makes few boxes, at worst those of the most resources. */
function together(resources: Resource[], most: number): Box[] {
  let boxes: Box[] = [];
  for (const way of WAYS) {
    const byKey = new Map<string, Box>();
    for (const resource of resources) {
      const common = way(resource);
      const box = byKey.get(common.key) ?? { ...common, resources: [] };
      box.resources.push(resource);
      byKey.set(common.key, box);
    }
    // One alone is drawn as itself.
    boxes = [...byKey.values()].map((box) =>
      box.resources.length > 1 ? box : { key: box.resources[0]?.address ?? box.key, resources: box.resources },
    );
    if (boxes.length <= (boxes.length === resources.length ? most : MOST_OF_MANY)) return boxes;
  }
  return boxes.sort((a, b) => b.resources.length - a.resources.length).slice(0, MOST_OF_MANY);
}

/** What is chosen and what is around it may be of the same kind. */
function merged(boxes: Box[]): Box[] {
  const byKey = new Map<string, Box>();
  for (const box of boxes) {
    const known = byKey.get(box.key);
    byKey.set(box.key, known ? { ...known, resources: [...known.resources, ...box.resources] } : box);
  }
  return [...byKey.values()];
}

function between(boxes: Box[]): Picture['arrows'] {
  const boxOf = new Map(boxes.flatMap(({ key, resources }) => resources.map(({ address }) => [address, key] as const)));
  const arrows = new Map<string, { from: string; to: string }>();
  for (const { key: to, resources } of boxes)
    for (const { needs } of resources)
      for (const need of needs) {
        const from = boxOf.get(need);
        if (from !== undefined && from !== to) arrows.set(JSON.stringify([from, to]), { from, to });
      }
  return [...arrows.values()];
}
