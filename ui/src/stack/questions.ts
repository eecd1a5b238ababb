import { visible } from '../lib/text';
import type { Field, Values } from '../parts/values';
import { faultOf, whole } from './answer';
import type { Question } from './custom-queries';
import { newNames, pickers } from './pick';

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
  const compares = (fits: (is: bigint, than: bigint) => boolean) => {
    const [is, than] = [answer, value].map((text) => (text === undefined ? undefined : whole(text)));
    return is !== undefined && than !== undefined && fits(is, than);
  };
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

const kinds: Partial<Record<Question['type'], Field['kind']>> = {
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
  FLOW: 'The name of a flow. There are none in this console yet, so no answer passes.',
  JSON: 'A JSON document.',
};

/** What is wrong with an answer as a sentence: the console tells it without its subject. */
export const sentence = (why: string): string => `${visible(why.replace(/^./, (letter) => letter.toUpperCase()))}.`;

/** The fields of a form that asks these questions. */
export function fieldsOf(questions: readonly Question[]): Field[] {
  return questions.map((question, place) => {
    const { name, type, values } = question;
    const choices = type === 'BOOL' ? ['true', 'false'] : (values ?? []).flatMap((value) => value ?? []);
    const placeholder = some(question.placeholder);
    const told = [question.documentation, question.longform].flatMap((text) => some(text) ?? []);
    const initial = some(question.default);
    // It is taken where the field is empty, and cannot be taken away.
    const fallback = initial === undefined ? [] : [`Empty: ${initial}.`];
    const hint = some(visible([...(told.length === 0 ? [hints[type] ?? ''] : told), ...fallback].join(' ').trim()));
    const scope = question.validation?.uniqBy?.scope;
    const input = pickers[type] ?? (scope == null || type !== 'STRING' ? undefined : newNames[scope]);
    return {
      name,
      label: visible(some(question.displayName) ?? name),
      kind: kinds[type] ?? 'text',
      initial: question.default ?? '',
      isRequired: question.optional !== true && some(question.default) === undefined,
      when: (filled) => isAsked(question, answered(questions.slice(0, place), filled)),
      fault: (value) => {
        const why = faultOf(question, value);
        return why === undefined ? undefined : sentence(why);
      },
      ...(type === 'ENUM' || type === 'BOOL' ? { options: choices.map((value) => ({ value, label: visible(value) })) } : {}),
      ...(input === undefined ? {} : { input }),
      ...(hint === undefined ? {} : { hint }),
      ...(placeholder === undefined ? {} : { placeholder: visible(placeholder) }),
    };
  });
}

/** What is sent: answers to what is asked, and nothing that was filled in before it was hidden. */
export function answersOf(questions: readonly Question[], values: Values): Record<string, string> {
  return Object.fromEntries(answered(questions, values));
}
