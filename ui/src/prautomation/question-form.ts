import type { ConfigurationType, Operation, PrConfigurationAttributes, ValidationUniqScope } from '../generated/graphql';
import type { Question } from '../stack/custom-queries';
import { operations, types as common } from '../stack/custom-form';
import { given, isOn, rowsOfThings, thingsOfRows, type Field, type Values } from '../parts/values';

/** What an answer has to be. */
const types: Partial<Record<ConfigurationType, string>> = { ...common, FLOW: 'a flow, of which there are none yet' };
const scopes: Record<ValidationUniqScope, string> = { PROJECT: 'projects', CLUSTER: 'clusters' };

const NAME = 'configuration';
const choices = (all: Partial<Record<string, string>>) => Object.entries(all).map(([value, label = value]) => ({ value, label }));
const oneOf = <Word extends string>(all: Partial<Record<Word, string>>, word: string | undefined): Word | undefined =>
  (Object.keys(all) as Word[]).find((one) => one === word);

export const linesOf = (text: string | undefined) => (text ?? '').split('\n').filter((line) => line.trim() !== '');
/** Nothing where a text is empty. A text may begin with a space, so none is cut. */
export const kept = (row: Values, name: string): string | null => ((row[name] ?? '') === '' ? null : (row[name] ?? null));

/** Fields that most questions do not have: in sight where one of them says something. */
const MORE = ['displayName', 'placeholder', 'longform', 'page', 'regex', 'json', 'scope'];

/** A question as a row of the form. */
function show(question: Question): Values {
  const { condition, validation } = question;
  const row: Values = {
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
    longform: question.longform ?? '',
    page: question.page == null ? '' : String(question.page),
    regex: validation?.regex ?? '',
    json: validation?.json === true ? 'yes' : '',
    scope: validation?.uniqBy?.scope ?? '',
  };
  return { ...row, more: MORE.some((name) => row[name] !== '') ? 'yes' : '' };
}

/** A row as the console takes it. */
function give(row: Values): PrConfigurationAttributes {
  const type = oneOf(types, row['type']) ?? 'STRING';
  const regex = kept(row, 'regex');
  const json = isOn(row, 'json');
  const scope = oneOf(scopes, row['scope']);
  const field = given(row, 'field');
  return {
    type,
    name: (row['name'] ?? '').trim(),
    documentation: kept(row, 'documentation'),
    displayName: kept(row, 'displayName'),
    placeholder: kept(row, 'placeholder'),
    longform: kept(row, 'longform'),
    page: given(row, 'page') === null ? null : Number(row['page']),
    // Everybody would read that of a secret.
    default: type === 'PASSWORD' ? null : kept(row, 'default'),
    values: type === 'ENUM' ? linesOf(row['values']) : [],
    optional: isOn(row, 'optional'),
    condition:
      field === null
        ? null
        : { field, operation: oneOf<Operation>(operations, row['operation']) ?? 'EQ', value: kept(row, 'value') },
    validation:
      regex === null && !json && scope === undefined ? null : { regex, json, uniqBy: scope === undefined ? null : { scope } },
  };
}

const isOf = (type: ConfigurationType) => (row: Values) => row['type'] === type;
const hasMore = (row: Values) => isOn(row, 'more');
const hasCondition = (row: Values) => given(row, 'field') !== null;

const row = (rows: Values[], at: number): Field[] => {
  const before = [...new Set(rows.slice(0, at).flatMap((one) => given(one, 'name') ?? []))];
  const field = rows[at]?.['field'] ?? '';
  const known = field === '' || before.includes(field) ? before : [...before, field];
  return [
    {
      name: 'name',
      label: 'Name',
      isRequired: true,
      placeholder: 'name',
      hint: 'Templates have the answer as context and this name',
      fault: (name) => (/^\s*[\w-]+\s*$/.test(name) ? undefined : 'Must be of letters, digits, _ and -.'),
    },
    { name: 'type', label: 'Answer', kind: 'choice', isRequired: true, initial: 'STRING', options: choices(types) },
    { name: 'documentation', label: 'What it is about', placeholder: 'What it is called' },
    { name: 'values', label: 'Values', kind: 'area', isRequired: true, hint: 'One a line', when: isOf('ENUM') },
    { name: 'default', label: 'Answer of who gives none', when: (one) => !isOf('PASSWORD')(one) },
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
    { name: 'more', label: 'Label, example, page and validation', kind: 'check' },
    { name: 'displayName', label: 'Label', hint: 'The name when empty', when: hasMore },
    { name: 'placeholder', label: 'Example', when: hasMore },
    { name: 'longform', label: 'At length', kind: 'area', when: hasMore },
    { name: 'page', label: 'Page of the form', kind: 'number', when: hasMore },
    {
      name: 'regex',
      label: 'Pattern',
      placeholder: '^[a-z-]+$',
      hint: 'A regular expression that is found in the answer',
      when: hasMore,
    },
    { name: 'json', label: 'The answer is a JSON document', kind: 'check', when: hasMore },
    {
      name: 'scope',
      label: 'The answer is a name that is new among',
      kind: 'choice',
      options: choices(scopes),
      when: hasMore,
    },
  ];
};

function summary(one: Values): string {
  const type = types[oneOf(types, one['type']) ?? 'STRING'] ?? '';
  const condition = hasCondition(one) ? `, where ${one['field'] ?? ''} is so` : '';
  return `${one['name'] ?? ''}: ${type}${isOn(one, 'optional') ? ', or nothing' : ''}${condition}`;
}

export const questionsField = (questions: Question[]): Field => ({
  name: NAME,
  label: 'Questions',
  kind: 'list',
  each: 'question',
  hint: 'What whoever opens a pull request is asked, in this order',
  initial: rowsOfThings(questions, show),
  row,
  summary,
});

export const questionsOf = (values: Values): PrConfigurationAttributes[] =>
  thingsOfRows<Question, PrConfigurationAttributes>(values, NAME, show, give);
