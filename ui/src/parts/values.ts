import type { ComponentType, ReactNode } from 'react';

/** One thing that a form asks for. Values are text; a box that is ticked is `yes`. */
export interface Field {
  name: string;
  label: string;
  hint?: ReactNode;
  kind?: 'text' | 'secret' | 'number' | 'area' | 'check' | 'choice' | 'list';
  /** Of a list: what is asked for in one of its rows. Its value has all rows, as `asRows` writes them. */
  row?: (rows: Values[], at: number) => Field[];
  /** Of a list: what a row is called, `question`. */
  each?: string;
  /** Of a list: a row in a few words. Rows of one that has this are folded until somebody opens them, and a hundred are no hundred forms. */
  summary?: (row: Values) => string;
  /** Of a list: what is said of its rows below them. */
  tells?: ComponentType<{ rows: Values[] }>;
  options?: { value: string; label: string }[];
  initial?: string;
  isRequired?: boolean;
  placeholder?: string;
  /** Only asked for with these values. */
  when?: (values: Values) => boolean;
  /** What is wrong with a value that is there, told as it is typed: `Must be a whole number.` */
  fault?: (value: string) => string | undefined;
  /** In place of the input of its kind. */
  input?: ComponentType<InputProps>;
}

/** What an input of its own gets of its field. */
export interface InputProps {
  label: string;
  description: ReactNode;
  required: boolean;
  error: string | undefined;
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
}

export type Values = Record<string, string>;

/** What a form begins with: secrets are never filled in. */
export function initialValues(fields: Field[]): Values {
  return Object.fromEntries(fields.map(({ name, initial = '' }) => [name, initial]));
}

/** The fields that must be filled and are not; of a list `name.2.field`. */
export function missing(fields: Field[], values: Values): string[] {
  return fields
    .filter(({ when }) => when?.(values) !== false)
    .flatMap(({ name, isRequired = false, row }) => {
      if (row) {
        const rows = rowsOf(values, name);
        return rows.flatMap((one, at) => missing(row(rows, at), one).map((below) => `${name}.${at}.${below}`));
      }
      return isRequired && (values[name] ?? '').trim() === '' ? [name] : [];
    });
}

/** The fields that are asked for and have something wrong in them; of a list `name.2.field`. */
export function faulty(fields: Field[], values: Values): string[] {
  return fields.flatMap(({ name, when, fault, row }) => {
    if (when?.(values) === false) return [];
    if (row) {
      const rows = rowsOf(values, name);
      return rows.flatMap((one, at) => faulty(row(rows, at), one).map((below) => `${name}.${at}.${below}`));
    }
    const value = values[name] ?? '';
    return value !== '' && fault?.(value) !== undefined ? [name] : [];
  });
}

/** The rows of a list. */
export function rowsOf(values: Values, name: string): Values[] {
  const text = values[name] ?? '';
  return text === '' ? [] : (JSON.parse(text) as Values[]);
}

/** Rows as the value of a list. */
export const asRows = (rows: Values[]): string => (rows.length === 0 ? '' : JSON.stringify(rows));

/** What a row was made of, under a name that no field has. */
const WAS = ' was';

/** Things as the rows of a list. Each row keeps the whole thing, with what the form does not ask for. */
export const rowsOfThings = <Thing>(things: readonly Thing[], show: (thing: Thing) => Values): string =>
  asRows(things.map((thing) => ({ ...show(thing), [WAS]: JSON.stringify(thing) })));

/** Things of the rows of a list: one that nobody changed as it was, and of one that somebody changed the rest. */
export function thingsOfRows<Thing extends Given, Given>(
  values: Values,
  name: string,
  show: (thing: Thing) => Values,
  give: (row: Values, was?: Thing) => Given,
): Given[] {
  return rowsOf(values, name).map((row) => {
    const was = row[WAS] === undefined ? undefined : (JSON.parse(row[WAS]) as Thing);
    if (was === undefined) return give(row);
    const isSame = Object.entries(show(was)).every(([field, value]) => (row[field] ?? '') === value);
    return isSame ? was : { ...was, ...give(row, was) };
  });
}

/** The value, or nothing where it is empty: what is not given is not changed. */
export function given(values: Values, name: string): string | null {
  const value = (values[name] ?? '').trim();
  return value === '' ? null : value;
}

/** Whether the box is ticked. */
export function isOn(values: Values, name: string): boolean {
  return values[name] === 'yes';
}

/** Words on lines or between commas. */
export function words(values: Values, name: string): string[] {
  return (values[name] ?? '')
    .split(/[\n,]/)
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

/** `a=b` on lines, as names and values. */
export function pairs(values: Values, name: string): { name: string; value: string }[] {
  return words(values, name).map((word) => {
    const [key = '', ...value] = word.split('=');
    return { name: key.trim(), value: value.join('=').trim() };
  });
}

/** Asked for where the console wants to know again who it is. */
export const password: Field = {
  name: 'currentPassword',
  label: 'Your own password',
  kind: 'secret',
  hint: 'Not needed within ten minutes of signing in. Who has none opens /auth/confirm and enters the code that it shows.',
};
