import { quoted } from '../lib/text';
import { answersOf, fieldsOf } from '../stack/questions';
import { faulty, missing, type Field, type Values } from '../parts/values';
import type { Asking } from './form-queries';

/** What a wizard asks on one of its pages. */
export interface Step {
  key: string;
  title: string;
  fields: Field[];
}

export const questionsOf = ({ configuration }: Asking) => (configuration ?? []).flatMap((question) => question ?? []);

/** The repository, where the automation names none. No question has this name, nor the other one. */
export const REPOSITORY = ' repository';
export const BRANCH = ' branch';

/** The pages of a form: where it goes to, if that is open, and the questions by the pages that they say. */
export function stepsOf(automation: Asking): Step[] {
  const questions = questionsOf(automation);
  const fields = fieldsOf(questions);
  const pageOf = (at: number) => questions[at]?.page ?? 0;
  const pages = [...new Set(questions.map((_, at) => pageOf(at)))].sort((one, other) => one - other);
  const steps = pages.map((page, at): Step => ({
    key: `page ${page}`,
    title: pages.length === 1 ? 'Questions' : `Questions ${at + 1}`,
    fields: fields.filter((_, place) => pageOf(place) === page),
  }));
  if (automation.identifier != null) return steps;
  const repository: Field = {
    name: REPOSITORY,
    label: 'Repository',
    isRequired: true,
    placeholder: 'acme/shop',
    hint: 'The one that is changed. The connection of the automation says which ones that may be.',
  };
  return [{ key: 'repository', title: 'Repository', fields: [repository] }, ...steps];
}

/** The pages on which something is asked: what is not may hang on an answer. */
export const askedOf = (steps: Step[], values: Values): Step[] =>
  steps.filter(({ fields }) => fields.some(({ when }) => when?.(values) !== false));

/** The fields of a page that somebody has to look at. */
export const lackingOf = ({ fields }: Step, values: Values): string[] => [...missing(fields, values), ...faulty(fields, values)];

/** What is asked of the console. */
export function askOf(automation: Asking, values: Values) {
  const repository = (values[REPOSITORY] ?? '').trim();
  return {
    id: automation.id,
    identifier: repository === '' ? null : repository,
    context: answersOf(questionsOf(automation), values),
  };
}

/** The same by command line; a secret is asked for by that. */
export function commandOf(verb: 'create' | 'preview', automation: Asking, values: Values): string {
  const questions = questionsOf(automation);
  const isSecret = (name: string) => questions.some((question) => question.name === name && question.type === 'PASSWORD');
  const option = (flag: string, name: string) => {
    const value = (values[name] ?? '').trim();
    return value === '' ? [] : [`--${flag} ${quoted(value)}`];
  };
  return [
    `plural pr ${verb} ${quoted(automation.name)}`,
    ...Object.entries(answersOf(questions, values)).map(([name, value]) =>
      isSecret(name) ? `--secret-set ${quoted(name)}` : `--set ${quoted(`${name}=${value}`)}`,
    ),
    ...option('repository', REPOSITORY),
    ...(verb === 'create' ? option('branch', BRANCH) : []),
  ].join(' ');
}
