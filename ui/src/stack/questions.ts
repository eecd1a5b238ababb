import type { Field, Values } from '../parts/values';
import type { Question } from './custom-queries';

/** What a form shows of a text, without what is not there. */
const some = (text: string | null | undefined): string | undefined => (text == null || text === '' ? undefined : text);

/** The answers as the console takes them by their questions: an empty one is none, and the default takes its place. */
function answered(questions: readonly Question[], values: Values): Map<string, string> {
  const all = new Map<string, string>();
  for (const question of questions) {
    if (!isAsked(question, all)) continue;
    const value = (values[question.name] ?? '') || (question.default ?? '');
    if (value !== '') all.set(question.name, value);
  }
  return all;
}

/** Whether a question is asked, as the console decides it: by the answers before it. */
function isAsked({ condition }: Question, before: ReadonlyMap<string, string>): boolean {
  if (condition == null) return true;
  const answer = before.get(condition.field);
  const value = condition.value ?? undefined;
  const isTrue = answer !== undefined && answer !== 'false';
  const compares = (fits: (is: bigint, than: bigint) => boolean) =>
    answer !== undefined && value !== undefined && isWhole(answer) && isWhole(value) && fits(BigInt(answer), BigInt(value));
  switch (condition.operation) {
    case 'NOT':
      return value === undefined ? !isTrue : answer !== value;
    case 'EQ':
      return value === undefined ? isTrue : answer === value;
    case 'GT':
      return compares((is, than) => is > than);
    case 'LT':
      return compares((is, than) => is < than);
    case 'GTE':
      return compares((is, than) => is >= than);
    case 'LTE':
      return compares((is, than) => is <= than);
    case 'PREFIX':
      return answer !== undefined && value !== undefined && answer.startsWith(value);
    case 'SUFFIX':
      return answer !== undefined && value !== undefined && answer.endsWith(value);
  }
}

const isWhole = (text: string) => /^-?\d+$/.test(text);

const kinds: Partial<Record<Question['type'], Field['kind']>> = {
  INT: 'number',
  PASSWORD: 'secret',
  JSON: 'area',
  ENUM: 'choice',
  BOOL: 'choice',
};

const hints: Partial<Record<Question['type'], string>> = {
  CLUSTER: 'The handle of a cluster that you may see.',
  PROJECT: 'The name of a project that you may see.',
  GROUP: 'The name of a group.',
  USER: 'The e-mail of a user.',
  JSON: 'A JSON document.',
};

/** The fields of a form that asks these questions. */
export function fieldsOf(questions: readonly Question[]): Field[] {
  return questions.map((question, place) => {
    const { name, type, values } = question;
    const choices = type === 'BOOL' ? ['true', 'false'] : (values ?? []).flatMap((value) => value ?? []);
    const placeholder = some(question.placeholder);
    const hint = some(question.documentation) ?? hints[type];
    return {
      name,
      label: some(question.displayName) ?? name,
      kind: kinds[type] ?? 'text',
      initial: question.default ?? '',
      isRequired: question.optional !== true && some(question.default) === undefined,
      when: (filled) => isAsked(question, answered(questions.slice(0, place), filled)),
      ...(type === 'ENUM' || type === 'BOOL' ? { options: choices.map((value) => ({ value, label: value })) } : {}),
      ...(hint === undefined ? {} : { hint }),
      ...(placeholder === undefined ? {} : { placeholder }),
    };
  });
}

/** What is sent: answers to what is asked, and nothing that was filled in before it was hidden. */
export function answersOf(questions: readonly Question[], values: Values): Record<string, string> {
  return Object.fromEntries(answered(questions, values));
}
