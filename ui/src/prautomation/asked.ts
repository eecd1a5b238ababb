import { quoted, visible } from '../lib/text';
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
/** What the names of fields begin with that ask for values of the automation's Secret. */
export const SECRET = ' secret ';

/** The values of the Secret that the automation asks for; a patch has none. */
export const entriesOf = ({ secrets, patch }: Asking) =>
  patch === true ? [] : (secrets?.entries ?? []).flatMap((entry) => entry ?? []);

/** The page that asks for them. */
function secretStep(automation: Asking): Step[] {
  const fields = entriesOf(automation).map(({ name, documentation, autogenerate }): Field => {
    const told = [documentation, autogenerate === true ? 'Empty: generated.' : undefined];
    const hint = visible(told.filter((text) => text != null && text !== '').join(' '));
    return {
      name: `${SECRET}${name ?? ''}`,
      label: visible(name ?? ''),
      kind: 'secret',
      isRequired: autogenerate !== true,
      ...(hint === '' ? {} : { hint }),
    };
  });
  return fields.length === 0 ? [] : [{ key: 'secret', title: 'Secret', fields }];
}

/** The values that are given; nothing where there are none. They are sent when the pull request is opened, and with no preview. */
export function secretsOf(automation: Asking, values: Values): Record<string, string> | null {
  const given = entriesOf(automation).flatMap(({ name }): [string, string][] => {
    const value = values[`${SECRET}${name ?? ''}`] ?? '';
    return value === '' ? [] : [[name ?? '', value]];
  });
  return given.length === 0 ? null : Object.fromEntries(given);
}

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
  const secret = secretStep(automation);
  if (automation.identifier != null) return [...steps, ...secret];
  const repository: Field = {
    name: REPOSITORY,
    label: 'Repository',
    isRequired: true,
    placeholder: 'acme/shop',
    hint: 'The one that is changed. The connection of the automation says which ones that may be.',
  };
  return [{ key: 'repository', title: 'Repository', fields: [repository] }, ...steps, ...secret];
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
    ...(verb === 'create' ? Object.keys(secretsOf(automation, values) ?? {}).map((name) => `--secret ${quoted(name)}`) : []),
  ].join(' ');
}
