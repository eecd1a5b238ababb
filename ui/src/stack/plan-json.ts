import { hasOwn, isRecord, list, text } from './json';
import { fateOrder, type Fate } from './states';

/*
 * The JSON of a plan, of which Terraform's and OpenTofu's documentation says what it holds, as a tree to read. Other tools' plans
 * have no such JSON. Nothing is taken for granted of it: it comes from a program in a cluster.
 */

/** One attribute of a resource. */
export interface Attribute {
  path: string;
  before: string | undefined;
  after: string | undefined;
  isSensitive: boolean;
  /** Known only when it is applied. */
  isUnknown: boolean;
  /** Its change has the resource destroyed and made anew. */
  forcesReplacement: boolean;
  isChanged: boolean;
}

export interface Planned {
  address: string;
  /** "" for the root module. */
  module: string;
  type: string;
  name: string;
  fate: Fate;
  /** For a replacement: the new one is made before the old one goes. */
  createsFirst: boolean;
  /** Why, in the tool's word. */
  reason: string | undefined;
  /** Where it was before it moved. */
  previous: string | undefined;
  isImported: boolean;
  /** Read when they are looked at. */
  attributes: () => Attribute[];
}

export interface PlannedOutput {
  name: string;
  fate: Fate;
  attribute: Attribute;
}

export interface PlanTree {
  resources: Planned[];
  /** What differs from the state without anybody having planned it. */
  drift: Planned[];
  outputs: PlannedOutput[];
}

function fateOf(actions: string[]): Fate {
  const has = (action: string) => actions.includes(action);
  if (has('create') && has('delete')) return 'replace';
  if (has('delete')) return 'destroy';
  if (has('create')) return 'create';
  if (has('update')) return 'update';
  if (has('forget')) return 'forget';
  return has('read') ? 'read' : 'none';
}

const REASONS: Record<string, string> = {
  replace_because_tainted: 'it is tainted: its last creation failed half-way',
  replace_because_cannot_update: 'an attribute cannot be changed in its place',
  replace_by_request: 'somebody asked for its replacement',
  replace_by_triggers: 'what it is triggered by changes',
  delete_because_no_resource_config: 'it is not in the code any more',
  delete_because_no_module: 'its module is not in the code any more',
  delete_because_wrong_repetition: 'count or for_each names it no more',
  delete_because_count_index: 'its number is beyond count',
  delete_because_each_key: 'its key is not in for_each any more',
  delete_because_no_move_target: 'it moved to an address that is not in the code',
  read_because_config_unknown: 'what it is read by is known only when it is applied',
  read_because_dependency_pending: 'what it depends on changes first',
  read_because_check_nested: 'a check reads it',
};

/** Marks of values as the plan has them: `true` for all of it, or of the shape of the value. */
function markAt(marks: unknown, key: string | number): unknown {
  if (marks === true) return true;
  if (Array.isArray(marks)) return marks[Number(key)] as unknown;
  return isRecord(marks) && hasOwn(marks, String(key)) ? marks[String(key)] : undefined;
}

const shown = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value));

const isNested = (value: unknown): boolean =>
  (Array.isArray(value) && value.length > 0) || (isRecord(value) && Object.keys(value).length > 0);

interface Marks {
  unknown: unknown;
  sensitiveBefore: unknown;
  sensitiveAfter: unknown;
}

/** Attributes of values within values are rows of their own, until so deep. */
const DEEPEST = 8;

function walk(path: (string | number)[], before: unknown, after: unknown, marks: Marks, replaced: Set<string>): Attribute[] {
  const isSensitive = marks.sensitiveBefore === true || marks.sensitiveAfter === true;
  const isUnknown = marks.unknown === true;
  if (!isSensitive && !isUnknown && path.length < DEEPEST && (isNested(before) || isNested(after) || isNested(marks.unknown))) {
    const isList = [before, after, marks.unknown].some((value) => Array.isArray(value));
    const keys = new Set<string | number>();
    for (const value of [before, after, marks.unknown]) {
      if (Array.isArray(value)) value.forEach((_, at) => keys.add(at));
      else if (isRecord(value)) for (const key of Object.keys(value)) keys.add(isList ? Number(key) : key);
    }
    return [...keys].flatMap((key) =>
      walk(
        [...path, key],
        at(before, key),
        at(after, key),
        {
          unknown: markAt(marks.unknown, key),
          sensitiveBefore: markAt(marks.sensitiveBefore, key),
          sensitiveAfter: markAt(marks.sensitiveAfter, key),
        },
        replaced,
      ),
    );
  }
  const was = before === null ? undefined : before;
  const is = after === null ? undefined : after;
  const isSame = shown(was) === shown(is);
  if (was === undefined && is === undefined && !isUnknown && !isSensitive) return [];
  const forcesReplacement = path.some((_, end) => replaced.has(JSON.stringify(path.slice(0, end + 1))));
  return [
    {
      path: path.map((part, place) => (typeof part === 'number' ? `[${part}]` : place === 0 ? part : `.${part}`)).join(''),
      before: isSensitive ? undefined : shown(was),
      after: isSensitive || isUnknown ? undefined : shown(is),
      isSensitive,
      isUnknown,
      forcesReplacement,
      // The console answers no sensitive value: whether it changes is not known here.
      isChanged: isUnknown || forcesReplacement || (isSensitive ? true : !isSame),
    },
  ];
}

function at(value: unknown, key: string | number): unknown {
  if (Array.isArray(value)) return value[Number(key)] as unknown;
  return isRecord(value) && hasOwn(value, String(key)) ? value[String(key)] : undefined;
}

function attributesOf(change: Record<string, unknown>): Attribute[] {
  const replaced = new Set(list(change['replace_paths']).map((path) => JSON.stringify(path)));
  const rows = walk(
    [],
    change['before'] ?? {},
    change['after'] ?? {},
    {
      unknown: change['after_unknown'],
      sensitiveBefore: change['before_sensitive'],
      sensitiveAfter: change['after_sensitive'],
    },
    replaced,
  );
  return rows.sort((a, b) => Number(b.isChanged) - Number(a.isChanged) || a.path.localeCompare(b.path));
}

function planned(raw: unknown): Planned[] {
  if (!isRecord(raw)) return [];
  const change = isRecord(raw['change']) ? raw['change'] : {};
  const actions = list(change['actions']).filter((action) => typeof action === 'string');
  const reason = text(raw['action_reason']);
  return [
    {
      address: text(raw['address']) ?? '',
      module: text(raw['module_address']) ?? '',
      type: text(raw['type']) ?? '',
      name: text(raw['name']) ?? '',
      fate: fateOf(actions),
      createsFirst: actions[0] === 'create' && actions.includes('delete'),
      reason: reason === undefined ? undefined : (REASONS[reason] ?? reason),
      previous: text(raw['previous_address']),
      isImported: isRecord(change['importing']),
      attributes: () => attributesOf(change),
    },
  ];
}

function outputs(raw: unknown): PlannedOutput[] {
  if (!isRecord(raw)) return [];
  return Object.entries(raw).flatMap(([name, change]) => {
    if (!isRecord(change)) return [];
    const fate = fateOf(list(change['actions']).filter((action) => typeof action === 'string'));
    const isSensitive = change['before_sensitive'] === true || change['after_sensitive'] === true;
    const isUnknown = change['after_unknown'] === true;
    const value = (part: string) => (isSensitive || change[part] === null ? undefined : shown(change[part]));
    return [
      {
        name,
        fate,
        attribute: {
          path: name,
          before: value('before'),
          after: isUnknown ? undefined : value('after'),
          isSensitive,
          isUnknown,
          forcesReplacement: false,
          isChanged: fate !== 'none',
        },
      },
    ];
  });
}

/** What a plan's JSON says; nothing for one that is of another form. */
export function readPlan(json: unknown): PlanTree | undefined {
  if (!isRecord(json) || (!Array.isArray(json['resource_changes']) && !isRecord(json['output_changes']))) return undefined;
  const byFate = (a: Planned, b: Planned) =>
    fateOrder.indexOf(a.fate) - fateOrder.indexOf(b.fate) || a.address.localeCompare(b.address, 'en', { numeric: true });
  return {
    resources: list(json['resource_changes']).flatMap(planned).sort(byFate),
    drift: list(json['resource_drift'])
      .flatMap(planned)
      .filter(({ fate }) => fate !== 'none')
      .sort(byFate),
    outputs: outputs(json['output_changes']),
  };
}

export interface ModuleOf {
  name: string;
  resources: Planned[];
}

/** Resources by module, the root first. */
export function byModule(resources: Planned[]): ModuleOf[] {
  const modules = new Map<string, Planned[]>();
  for (const one of resources) {
    const some = modules.get(one.module);
    if (some) some.push(one);
    else modules.set(one.module, [one]);
  }
  return [...modules]
    .map(([name, some]) => ({ name, resources: some }))
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}
