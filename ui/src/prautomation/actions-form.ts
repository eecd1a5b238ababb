import type {
  ListMerge,
  MatchStrategy,
  PrAutomationTemplateAttributes,
  PrDocumentSelectorAttributes,
  PrFileEditAttributes,
  RegexReplacementAttributes,
  YamlOverlayAttributes,
} from '../generated/graphql';
import { listed } from '../lib/list';
import { isOn, rowsOfThings, thingsOfRows, type Field, type Values } from '../parts/values';
import { editWords } from './edits';
import type { Known, Part } from './parts';
import { kept, linesOf } from './question-form';

type Of<List> = NonNullable<NonNullable<List>[keyof NonNullable<List> & number]>;
type Template = Of<NonNullable<Known['creates']>['templates']>;
type Replacement = Of<NonNullable<Known['updates']>['regexReplacements']>;
type Overlay = Of<NonNullable<Known['updates']>['yamlOverlays']>;
type Edit = Of<NonNullable<Known['updates']>['edits']>;

const json = (value: unknown) => (value == null ? '' : JSON.stringify(value, null, 2));
const parsed = (text: string | undefined): unknown => ((text ?? '').trim() === '' ? null : (JSON.parse(text ?? '') as unknown));
export const lines = (all: readonly (string | null)[] | null | undefined) => listed(all).join('\n');
/** Lines of a field; one of the things that were there may have lines of its own, and stays what it is while nobody writes. */
export const linesFrom = (values: Values, name: string, was: readonly (string | null)[] | null | undefined): string[] =>
  (values[name] ?? '') === lines(was) ? listed(was) : linesOf(values[name]);
const one = <Word extends string>(words: Record<Word, string>, word: string | undefined) =>
  (Object.keys(words) as Word[]).find((known) => known === word) ?? null;
const choices = (words: Record<string, string>) => Object.entries(words).map(([value, label]) => ({ value, label }));

function objectFault(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
  } catch {
    // What it is not, is said below.
  }
  return 'Must be a JSON object: {"name": "value"}.';
}

const showTemplate = ({ source, destination, external, condition, context, verbatim }: Template): Values => ({
  source,
  destination,
  external: external ? 'yes' : '',
  condition: condition ?? '',
  context: json(context),
  verbatim: lines(verbatim),
});
const giveTemplate = (row: Values): PrAutomationTemplateAttributes => ({
  source: row['source'] ?? '',
  destination: row['destination'] ?? '',
  external: isOn(row, 'external'),
  condition: kept(row, 'condition'),
  context: parsed(row['context']),
  verbatim: linesOf(row['verbatim']),
});
const templateRow = (): Field[] => [
  { name: 'source', label: 'Template', isRequired: true, placeholder: 'templates/service.yaml', hint: 'A file or a folder' },
  {
    name: 'destination',
    label: 'Becomes',
    isRequired: true,
    placeholder: 'apps/{{ context.name }}.yaml',
  },
  { name: 'external', label: 'It is in the repository of templates', kind: 'check' },
  { name: 'condition', label: 'Only if', placeholder: 'context.name == "shop"', hint: 'Always when empty' },
  { name: 'context', label: 'More values for it', kind: 'area', hint: 'A JSON object', fault: objectFault },
  {
    name: 'verbatim',
    label: 'Answers that may become more than one value',
    kind: 'area',
    hint: 'Names of questions, one a line',
  },
];

/** Files that are made. */
export const creates = (known?: Known): Part => ({
  fields: [
    {
      name: 'templates',
      label: 'Files that it makes',
      kind: 'list',
      each: 'template',
      initial: rowsOfThings(listed(known?.creates?.templates), showTemplate),
      row: templateRow,
      summary: (row) => `${row['source'] ?? ''} becomes ${row['destination'] ?? ''}`,
    },
  ],
  give: (values) => ({
    creates: {
      // Where its templates are is written in a file alone.
      git: known?.creates?.git ?? null,
      templates: thingsOfRows<Template, PrAutomationTemplateAttributes>(values, 'templates', showTemplate, giveTemplate),
    },
  }),
});

const listMerges: Record<ListMerge, string> = { OVERWRITE: 'take the place', APPEND: 'are added' };
const strategies: Record<MatchStrategy, string> = {
  ANY: 'each replaces what it finds',
  ALL: 'as before, in files in which each finds something',
  RECURSIVE: 'each looks in what the one before found',
};

const documentFields = (): Field[] => [
  { name: 'document', label: 'One document of several', kind: 'check' },
  ...(['kind', 'name'] as const).map((name): Field => ({
    name: `document ${name}`,
    label: name === 'kind' ? 'Its kind' : 'Its name',
    when: (row) => isOn(row, 'document'),
  })),
  { name: 'document index', label: 'Its place, from 0', kind: 'number', when: (row) => isOn(row, 'document') },
];
const showDocument = (document: Overlay['document']): Values => ({
  document: document == null ? '' : 'yes',
  'document kind': document?.kind ?? '',
  'document name': document?.name ?? '',
  'document index': document?.index == null ? '' : String(document.index),
});
const giveDocument = (row: Values): PrDocumentSelectorAttributes | null =>
  isOn(row, 'document')
    ? {
        kind: kept(row, 'document kind'),
        name: kept(row, 'document name'),
        index: kept(row, 'document index') === null ? null : Number(row['document index']),
      }
    : null;

const showReplacement = ({ file, regex, replacement }: Replacement): Values => ({ file, regex, replacement });
const giveReplacement = (row: Values): RegexReplacementAttributes => ({
  file: row['file'] ?? '',
  regex: row['regex'] ?? '',
  replacement: row['replacement'] ?? '',
});

const showOverlay = ({ file, yaml, templated, listMerge, listKey, document }: Overlay): Values => ({
  file,
  yaml,
  templated: templated === true ? 'yes' : '',
  listMerge: listMerge ?? 'OVERWRITE',
  listKey: listKey ?? '',
  ...showDocument(document),
});
const giveOverlay = (row: Values): YamlOverlayAttributes => ({
  file: row['file'] ?? '',
  yaml: row['yaml'] ?? '',
  templated: isOn(row, 'templated'),
  listMerge: one(listMerges, row['listMerge']),
  listKey: kept(row, 'listKey'),
  document: giveDocument(row),
});

const showEdit = ({ file, format, document, edit }: Edit): Values => ({
  file,
  format: format ?? '',
  edit: json(edit),
  ...showDocument(document),
});
const giveEdit = (row: Values): PrFileEditAttributes => ({
  file: row['file'] ?? '',
  format: kept(row, 'format'),
  document: giveDocument(row),
  edit: parsed(row['edit']),
});
const formats = ['yaml', 'json', 'toml', 'hcl'];
const file: Field = { name: 'file', label: 'File', isRequired: true, placeholder: 'apps/{{ context.name }}.yaml' };

function editSummary(row: Values): string {
  const text = row['edit'] ?? '';
  return editWords(row['file'] ?? '', text !== '' && objectFault(text) === undefined ? parsed(text) : {});
}

const updateLists = (updates?: Known['updates']): Field[] => [
  {
    name: 'regexReplacements',
    label: 'Texts that it replaces',
    kind: 'list',
    each: 'replacement',
    initial: rowsOfThings(listed(updates?.regexReplacements), showReplacement),
    row: () => [
      file,
      { name: 'regex', label: 'What a regex finds', isRequired: true, placeholder: 'replicas: \\d+' },
      { name: 'replacement', label: 'Becomes', kind: 'area', placeholder: 'replicas: {{ context.replicas }}' },
    ],
    summary: (row) => `${row['regex'] ?? ''} in ${row['file'] ?? ''}`,
  },
  {
    name: 'yamlOverlays',
    label: 'YAML that it puts over files',
    kind: 'list',
    each: 'overlay',
    initial: rowsOfThings(listed(updates?.yamlOverlays), showOverlay),
    row: () => [
      file,
      { name: 'yaml', label: 'YAML', kind: 'area', isRequired: true, placeholder: 'replicas: 2' },
      { name: 'templated', label: 'The YAML is a template', kind: 'check' },
      {
        name: 'listMerge',
        label: 'Its lists',
        kind: 'choice',
        isRequired: true,
        initial: 'OVERWRITE',
        options: choices(listMerges),
      },
      { name: 'listKey', label: 'Field that tells items of lists apart', placeholder: 'name' },
      ...documentFields(),
    ],
    summary: (row) => row['file'] ?? '',
  },
  {
    name: 'edits',
    label: 'Values that it edits',
    kind: 'list',
    each: 'edit',
    initial: rowsOfThings(listed(updates?.edits), showEdit),
    row: () => [
      file,
      {
        name: 'edit',
        label: 'Edit',
        kind: 'area',
        isRequired: true,
        hint: 'A JSON object with op: set, delete, merge, append, express or block, and what that takes',
        placeholder: '{"op": "set", "path": "spec.replicas", "value": 2}',
        fault: objectFault,
      },
      {
        name: 'format',
        label: 'Language',
        kind: 'choice',
        hint: 'By the name of the file when empty',
        options: formats.map((value) => ({ value, label: value })),
      },
      ...documentFields(),
    ],
    summary: editSummary,
  },
];

/** Files that are changed. */
export function updates(known?: Known): Part {
  const old = known?.updates;
  const hasOld = [old?.regexes, old?.files].some((all) => listed(all).length > 0) || (old?.replaceTemplate ?? '') !== '';
  const isOld = (values: Values) => isOn(values, 'oldest');
  return {
    fields: [
      ...updateLists(old),
      {
        name: 'oldest',
        label: 'Replaces in the oldest form, by regexes of files',
        kind: 'check',
        initial: hasOld || old?.matchStrategy != null ? 'yes' : '',
      },
      { name: 'regexes', label: 'Regexes', kind: 'area', hint: 'One a line', initial: lines(old?.regexes), when: isOld },
      {
        name: 'files',
        label: 'Regexes of paths of files',
        kind: 'area',
        hint: 'One a line',
        initial: lines(old?.files),
        when: isOld,
      },
      {
        name: 'replaceTemplate',
        label: 'What takes their place',
        kind: 'area',
        initial: old?.replaceTemplate ?? '',
        when: isOld,
      },
      {
        name: 'matchStrategy',
        label: 'How the regexes work together',
        kind: 'choice',
        options: choices(strategies),
        initial: old?.matchStrategy ?? '',
        when: isOld,
      },
    ],
    give: (values) => ({
      updates: {
        yq: old?.yq ?? null,
        regexReplacements: thingsOfRows<Replacement, RegexReplacementAttributes>(
          values,
          'regexReplacements',
          showReplacement,
          giveReplacement,
        ),
        yamlOverlays: thingsOfRows<Overlay, YamlOverlayAttributes>(values, 'yamlOverlays', showOverlay, giveOverlay),
        edits: thingsOfRows<Edit, PrFileEditAttributes>(values, 'edits', showEdit, giveEdit),
        ...(isOld(values) && {
          regexes: linesFrom(values, 'regexes', old?.regexes),
          files: linesFrom(values, 'files', old?.files),
          replaceTemplate: kept(values, 'replaceTemplate'),
          matchStrategy: one(strategies, values['matchStrategy']),
        }),
      },
    }),
  };
}

/** Files that are taken away. */
export const deletes = (known?: Known): Part => ({
  fields: [
    {
      name: 'deleteFiles',
      label: 'Files that it takes away',
      kind: 'area',
      hint: 'Globs, one a line',
      initial: lines(known?.deletes?.files),
    },
    {
      name: 'deleteFolders',
      label: 'Folders that it takes away',
      kind: 'area',
      hint: 'One a line',
      initial: lines(known?.deletes?.folders),
    },
  ],
  give: (values) => ({
    deletes: {
      files: linesFrom(values, 'deleteFiles', known?.deletes?.files),
      folders: linesFrom(values, 'deleteFolders', known?.deletes?.folders),
    },
  }),
});

/** A chart that is unpacked. */
export function vendor(known?: Known): Part {
  const helm = known?.vendor?.helm;
  const isAsked = (values: Values) => isOn(values, 'vendor');
  const asked = (name: string, label: string, initial: string | undefined, placeholder: string): Field => ({
    name: `chart ${name}`,
    label,
    isRequired: true,
    initial: initial ?? '',
    placeholder,
    when: isAsked,
  });
  return {
    fields: [
      { name: 'vendor', label: 'Unpacks a chart', kind: 'check', initial: helm == null ? '' : 'yes' },
      asked('url', 'Address of the chart’s repository', helm?.url, 'https://charts.example.com'),
      asked('name', 'Chart', helm?.chart, 'ingress-nginx'),
      asked('version', 'Version of the chart', helm?.version, '4.12.0'),
      asked('destination', 'Folder that it is unpacked into', helm?.destination, 'charts/ingress-nginx'),
    ],
    give: (values) => ({
      vendor: {
        helm: isAsked(values)
          ? {
              url: (values['chart url'] ?? '').trim(),
              chart: (values['chart name'] ?? '').trim(),
              version: (values['chart version'] ?? '').trim(),
              destination: values['chart destination'] ?? '',
            }
          : null,
      },
    }),
  };
}

/** A script that runs first. */
export function lua(known?: Known): Part {
  const script = known?.lua;
  const isAsked = (values: Values) => isOn(values, 'lua');
  return {
    fields: [
      { name: 'lua', label: 'Runs a script first', kind: 'check', initial: script == null ? '' : 'yes' },
      { name: 'script', label: 'Script', kind: 'area', hint: 'In Lua', initial: script?.script ?? '', when: isAsked },
      {
        name: 'scriptFolder',
        label: 'Or a folder of scripts',
        initial: script?.folder ?? '',
        placeholder: 'scripts',
        when: isAsked,
      },
      {
        name: 'scriptExternal',
        label: 'The folder is in the repository of templates',
        kind: 'check',
        initial: script?.external === true ? 'yes' : '',
        when: isAsked,
      },
    ],
    give: (values) => ({
      lua: isAsked(values)
        ? {
            script: kept(values, 'script'),
            folder: kept(values, 'scriptFolder'),
            external: isOn(values, 'scriptExternal'),
          }
        : {},
    }),
  };
}
