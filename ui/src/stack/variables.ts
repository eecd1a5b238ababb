import { quoted } from '../lib/text';
import { isOn, rowsOf, type Field, type Values } from '../parts/values';

const asked = (values: Values) =>
  rowsOf(values, 'environment').map((row) => {
    const secret = isOn(row, 'secret');
    return { name: (row['name'] ?? '').trim(), value: row[secret ? 'value' : 'open'] ?? '', secret };
  });

/** Variables of the environment of runs, as the form of a new stack asks for them. */
export const environmentField: Field = {
  name: 'environment',
  label: 'Variables of the environment',
  kind: 'list',
  each: 'variable',
  hint: 'Every command of a run gets them: credentials of clouds, TF_VAR_…',
  row: () => [
    { name: 'name', label: 'Variable', isRequired: true, placeholder: 'AWS_REGION' },
    { name: 'secret', label: 'Its value is secret: kept encrypted, and shown to nobody again', kind: 'check', initial: 'yes' },
    { name: 'value', label: 'Its value', kind: 'secret', isRequired: true, when: (row) => isOn(row, 'secret') },
    { name: 'open', label: 'Its value', isRequired: true, when: (row) => !isOn(row, 'secret') },
  ],
};

/** What is given by it, where something is. */
export const environmentAttributes = (values: Values) => {
  const environment = asked(values);
  return environment.length === 0 ? {} : { environment };
};

/** The same as options, without what is secret: that is asked for. */
export const environmentOptions = (values: Values): string[] =>
  asked(values).map(({ name, value, secret }) =>
    secret ? `--secret-env ${quoted(name === '' ? 'NAME' : name)}` : `--env ${quoted(`${name === '' ? 'NAME' : name}=${value}`)}`,
  );

/** The names of these. */
export const environmentNames = (values: Values): string =>
  asked(values)
    .map(({ name, secret }) => (secret ? `${name} (secret)` : name))
    .join(', ');
