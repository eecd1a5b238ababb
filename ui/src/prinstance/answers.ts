import type { Field, Values } from '../parts/values';
import { quoted } from '../lib/text';
import type { Question } from '../stack/custom-queries';
import { answersOf } from '../stack/questions';

/** Answers that are kept, as texts of a form, by their questions. */
export function keptOf(answers: unknown): Record<string, string> {
  if (typeof answers !== 'object' || answers === null) return {};
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return Object.fromEntries(
    Object.entries(answers).flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, text(value)]])),
  );
}

/** What is sent of a filled form: what is answered otherwise than before, and nothing that follows a default. An empty one takes an answer
 * back. */
export function changesOf(questions: readonly Question[], values: Values, kept: Record<string, string>): Record<string, string> {
  const now = answersOf(questions, values);
  return Object.fromEntries(
    questions.flatMap(({ name, default: fallback }): [string, string][] => {
      const [is, was] = [now[name], kept[name]];
      const isEmpty = (values[name] ?? '') === '';
      if (was !== undefined && (is === undefined || isEmpty)) return [[name, '']];
      if (is === undefined || is === was) return [];
      return was === undefined && is === (fallback ?? '') ? [] : [[name, is]];
    }),
  );
}

/** A name that had to be new is taken by now, by what was generated. The console looks at it where it is answered otherwise. */
export const settled = (questions: readonly Question[], kept: Record<string, string>): Question[] =>
  questions.map((question) =>
    kept[question.name] === undefined || question.validation == null
      ? question
      : { ...question, validation: { ...question.validation, uniqBy: null } },
  );

/** Secret answers, which have to be given again. */
export const secretFields = (names: readonly string[]): Field[] =>
  names.map((name) => ({
    name,
    label: name,
    kind: 'secret',
    isRequired: true,
    hint: 'A secret answer is not kept, so it has to be given again, as it was.',
  }));

/** Secret answers as they are sent. */
export const secretsOf = (names: readonly string[], values: Values): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, values[name] ?? '']));

/** Answers for the command line, which asks for secret ones itself. */
export const optionsOf = (given: Record<string, string>, secrets: readonly string[]): string =>
  Object.entries(given)
    .map(([name, value]) => (secrets.includes(name) ? ` --secret-set ${quoted(name)}` : ` --set ${quoted(`${name}=${value}`)}`))
    .join('');
