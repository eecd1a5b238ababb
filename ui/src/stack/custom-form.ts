import type { ConfigurationType, Operation, PrConfigurationAttributes } from '../generated/graphql';
import { asRows, given, isOn, rowsOf, type Field, type Values } from '../parts/values';
import type { CustomRun, Question } from './custom-queries';

/** What an answer has to be, as far as commands of stacks ask for it. */
export const types: Partial<Record<ConfigurationType, string>> = {
  STRING: 'a text',
  INT: 'a whole number',
  BOOL: 'yes or no',
  ENUM: 'one of some values',
  PASSWORD: 'a secret text',
  JSON: 'a JSON document',
  CLUSTER: 'a cluster',
  PROJECT: 'a project',
  GROUP: 'a group',
  USER: 'a user',
};
export const operations: Record<Operation, string> = {
  EQ: 'is; without a value, is there and not false',
  NOT: 'is not; without a value, is not there or false',
  GT: 'is greater than',
  GTE: 'is at least',
  LT: 'is less than',
  LTE: 'is at most',
  PREFIX: 'begins with',
  SUFFIX: 'ends with',
};
const typeOf = (row: Values) => (Object.keys(types) as ConfigurationType[]).find((type) => type === row['type']) ?? 'STRING';
const operationOf = (row: Values) => (Object.keys(operations) as Operation[]).find((one) => one === row['operation']) ?? 'EQ';
const hasCondition = (row: Values) => given(row, 'field') !== null;
const lines = (text: string) => text.split('\n').flatMap((one) => (one.trim() === '' ? [] : [one]));
const choices = (all: Partial<Record<string, string>>) => Object.entries(all).map(([value, label = value]) => ({ value, label }));

export const questionsOf = (row: CustomRun): Question[] => (row.configuration ?? []).flatMap((question) => question ?? []);

/** A question as a row of the form. What the form does not ask for is in it, too, and stays. */
const asRow = (question: Question): Values => {
  const { condition, validation } = question;
  return {
    name: question.name,
    type: question.type,
    documentation: question.documentation ?? '',
    default: question.default ?? '',
    values: (question.values ?? []).flatMap((value) => value ?? []).join('\n'),
    optional: question.optional === true ? 'yes' : '',
    field: condition?.field ?? '',
    operation: condition?.operation ?? 'EQ',
    value: condition?.value ?? '',
    displayName: question.displayName ?? '',
    placeholder: question.placeholder ?? '',
    regex: validation?.regex ?? '',
    more: [question.displayName, question.placeholder, validation?.regex].some((text) => text != null && text !== '')
      ? 'yes'
      : '',
    json: validation?.json === true ? 'yes' : '',
    longform: question.longform ?? '',
    page: question.page == null ? '' : String(question.page),
  };
};

/** A row as the console takes it: what is empty is left out. */
function ofRow(row: Values): PrConfigurationAttributes {
  const type = typeOf(row);
  // A text may begin with a space, so none is cut.
  const kept = (name: string) => ((row[name] ?? '') === '' ? undefined : row[name]);
  const text = { documentation: kept('documentation'), displayName: kept('displayName'), placeholder: kept('placeholder') };
  const regex = kept('regex');
  const value = kept('value');
  return {
    type,
    name: (row['name'] ?? '').trim(),
    ...Object.fromEntries(Object.entries(text).filter(([, one]) => one !== undefined)),
    ...(kept('longform') !== undefined && { longform: row['longform'] }),
    ...(kept('page') !== undefined && { page: Number(row['page']) }),
    ...(type !== 'PASSWORD' && kept('default') !== undefined && { default: row['default'] }),
    ...(type === 'ENUM' && { values: lines(row['values'] ?? '') }),
    ...(isOn(row, 'optional') && { optional: true }),
    ...(hasCondition(row) && {
      condition: { field: row['field'] ?? '', operation: operationOf(row), ...(value !== undefined && { value }) },
    }),
    ...((regex !== undefined || isOn(row, 'json')) && {
      validation: { ...(regex !== undefined && { regex }), ...(isOn(row, 'json') && { json: true }) },
    }),
  };
}

const questionFields = (rows: Values[], at: number): Field[] => {
  // A name that is there twice is refused by the console; a choice has each once.
  const before = [...new Set(rows.slice(0, at).flatMap((row) => given(row, 'name') ?? []))];
  const field = rows[at]?.['field'] ?? '';
  const known = field === '' || before.includes(field) ? before : [...before, field];
  return [
    { name: 'name', label: 'Name', isRequired: true, placeholder: 'SIZE', hint: 'The answer is the variable of this name' },
    { name: 'type', label: 'Answer', kind: 'choice', isRequired: true, initial: 'STRING', options: choices(types) },
    { name: 'documentation', label: 'What it is about', placeholder: 'How many nodes' },
    {
      name: 'values',
      label: 'Values',
      kind: 'area',
      isRequired: true,
      hint: 'One a line',
      when: (row) => typeOf(row) === 'ENUM',
    },
    {
      name: 'default',
      label: 'Answer of who gives none',
      // Everybody would read it.
      when: (row) => typeOf(row) !== 'PASSWORD',
    },
    { name: 'optional', label: 'Needs no answer', kind: 'check' },
    {
      name: 'field',
      label: 'Asked only when the answer to',
      kind: 'choice',
      options: known.map((value) => ({ value, label: value })),
      hint: 'Always when empty',
      when: () => known.length > 0,
    },
    {
      name: 'operation',
      label: 'Compares',
      kind: 'choice',
      isRequired: true,
      initial: 'EQ',
      options: choices(operations),
      when: hasCondition,
    },
    { name: 'value', label: 'With', when: hasCondition },
    { name: 'more', label: 'Label, example and pattern', kind: 'check' },
    { name: 'displayName', label: 'Label', hint: 'The name when empty', when: (row) => isOn(row, 'more') },
    { name: 'placeholder', label: 'Example', when: (row) => isOn(row, 'more') },
    {
      name: 'regex',
      label: 'Pattern',
      placeholder: '^[a-z]+$',
      hint: 'A regular expression that is found in the answer',
      when: (row) => isOn(row, 'more'),
    },
  ];
};

const stored = (row?: CustomRun) => (row?.commands ?? []).flatMap((command) => command ?? []);
const wordsOf = ({ cmd, args }: { cmd: string; args?: readonly (string | null)[] | null }) =>
  [cmd, ...(args ?? []).flatMap((word) => word ?? [])].join('\n');

/** What stored commands are, as a form asks for them. */
export const customRunFields = (row?: CustomRun): Field[] => [
  { name: 'name', label: 'Name', isRequired: true, initial: row?.name ?? '', placeholder: 'grow' },
  { name: 'documentation', label: 'What it is for', kind: 'area', initial: row?.documentation ?? '' },
  {
    name: 'commands',
    label: 'Commands',
    kind: 'list',
    each: 'command',
    hint: 'In this order; the first one that fails is the last',
    initial: asRows(
      row
        ? stored(row).map((command) => ({
            words: wordsOf(command),
            dir: command.dir ?? '',
            approve: command.approve === true ? 'yes' : '',
          }))
        : [{ words: '', dir: '', approve: '' }],
    ),
    row: () => [
      {
        name: 'words',
        label: 'Program and arguments',
        kind: 'area',
        isRequired: true,
        hint: 'The program, and each argument on a line of its own. No shell reads it',
        placeholder: 'tofu\nstate\nlist',
      },
      { name: 'dir', label: 'Folder', hint: 'Below the one in which the tool runs; that itself when empty' },
      {
        name: 'approve',
        label: 'With the rights to apply, when people agreed',
        kind: 'check',
        hint: 'Where the stack needs approval, it waits for that',
      },
    ],
  },
  {
    name: 'questions',
    label: 'Questions',
    kind: 'list',
    each: 'question',
    hint: 'An answer is a variable of the environment of the commands',
    initial: asRows(row ? questionsOf(row).map(asRow) : []),
    row: questionFields,
  },
];

/** What the form says, as the console takes it. */
export const customRunAttributes = (values: Values, row?: CustomRun) => ({
  name: (values['name'] ?? '').trim(),
  documentation: values['documentation'] ?? '',
  commands: rowsOf(values, 'commands').map((asked) => {
    const text = asked['words'] ?? '';
    // An argument may have lines of its own: one that stays as it is stays what it is.
    const same = stored(row).find((command) => wordsOf(command) === text);
    const [cmd = '', ...args] = text.replace(/\n+$/, '').split('\n');
    return {
      ...(same ? { cmd: same.cmd, args: (same.args ?? []).flatMap((word) => word ?? []) } : { cmd: cmd.trim(), args }),
      ...(given(asked, 'dir') !== null && { dir: given(asked, 'dir') }),
      approve: isOn(asked, 'approve'),
    };
  }),
  configuration: rowsOf(values, 'questions').map(ofRow),
});
