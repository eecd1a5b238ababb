import type { PrAutomationAttributes, PrChecklistAttributes, PrSecretEntryAttributes } from '../generated/graphql';
import { listed } from '../lib/list';
import { mergeWindowsField, mergeWindowsOf } from '../parts/mergewindow-form';
import { given, isOn, rowsOfThings, thingsOfRows, type Field, type Values } from '../parts/values';
import { creates, deletes, lines, linesFrom, lua, updates, vendor } from './actions-form';
import type { Known, Part } from './parts';
import { kept, questionsField, questionsOf } from './question-form';
import { isRole, roles } from './roles';

/** What an automation can be given, as far as one may see it. */
export interface Offers {
  connections: { id: string; name: string }[];
  governances: { id: string; name: string }[];
  repositories: { id: string; url: string }[];
}

type Text = Exclude<
  {
    [Name in keyof PrAutomationAttributes]-?: PrAutomationAttributes[Name] extends string | null | undefined ? Name : never;
  }[keyof PrAutomationAttributes],
  'role'
>;

/** One attribute that is a text. An empty one ends it. */
const text = (field: Field & { name: Text }): Part => ({
  fields: [field],
  give: (values) => ({ [field.name]: field.kind === 'area' ? (values[field.name] ?? '') : (values[field.name] ?? '').trim() }),
});

/** One of some things, with the one that it has even where it is not offered. */
function offered(things: { id: string; label: string }[], known: { id: string; label: string } | undefined) {
  const all = known === undefined || things.some(({ id }) => id === known.id) ? things : [known, ...things];
  return all.map(({ id, label }) => ({ value: id, label }));
}
const labelled = (thing: { id: string; name: string } | null | undefined) =>
  thing == null ? undefined : { id: thing.id, label: thing.name };

const link = (name: Text, field: Omit<Field, 'name' | 'kind'>): Part => ({
  fields: [{ ...field, name, kind: 'choice' }],
  give: (values) => ({ [name]: values[name] ?? '' }),
});

/** Where it goes to, and with what. */
const target = (offers: Offers, known?: Known): Part[] => [
  link('connectionId', {
    label: 'Connection to the git host',
    initial: known?.connection?.id ?? '',
    // One that somebody may not see stays.
    isRequired: known === undefined || known.connection != null,
    options: offered(
      offers.connections.map(({ id, name }) => ({ id, label: name })),
      labelled(known?.connection),
    ),
  }),
  text({
    name: 'identifier',
    label: 'Repository that is changed',
    initial: known?.identifier ?? '',
    placeholder: 'acme/shop',
    hint: 'One that the connection may touch. Without one, whoever opens a pull request names it.',
  }),
  text({ name: 'branch', label: 'Branch', initial: known?.branch ?? '', placeholder: 'main' }),
  text({
    name: 'branchPrefix',
    label: 'Branches of pull requests begin with',
    initial: known?.branchPrefix ?? '',
    placeholder: 'plural/service',
  }),
  text({
    name: 'title',
    label: 'Title of its pull requests',
    isRequired: true,
    initial: known?.title ?? '',
    placeholder: 'Add {{ context.name }}',
  }),
  text({ name: 'message', label: 'What they say', kind: 'area', isRequired: true, initial: known?.message ?? '' }),
  {
    fields: [{ name: 'labels', label: 'Labels', kind: 'area', hint: 'One a line', initial: lines(known?.labels) }],
    give: (values) => ({ labels: linesFrom(values, 'labels', known?.labels) }),
  },
  link('governanceId', {
    label: 'Governance',
    initial: known?.governance?.id ?? '',
    hint: 'Who confirms its pull requests; nobody when empty',
    options: offered(
      offers.governances.map(({ id, name }) => ({ id, label: name })),
      labelled(known?.governance),
    ),
  }),
];

/** What people see of it. */
const looks = (known?: Known): Part[] => [
  {
    fields: [
      {
        name: 'role',
        label: 'For',
        kind: 'choice',
        initial: known?.role ?? '',
        // The console does not take it away.
        isRequired: known?.role != null,
        options: Object.entries(roles).map(([value, label]) => ({ value, label })),
      },
    ],
    give: ({ role }) => (isRole(role) ? { role } : {}),
  },
  text({ name: 'documentation', label: 'What it is for', kind: 'area', initial: known?.documentation ?? '' }),
  text({ name: 'addon', label: 'Add-on that it is about', initial: known?.addon ?? '' }),
  text({ name: 'icon', label: 'Address of a picture', initial: known?.icon ?? '', placeholder: 'https://example.com/icon.png' }),
  text({ name: 'darkIcon', label: 'The same on a dark background', initial: known?.darkIcon ?? '' }),
];

const isExternal = (values: Values) => given(values, 'repositoryId') !== null;

/** Where external templates are. The console does not take the repository away. */
const templates = (offers: Offers, known?: Known): Part[] => [
  link('repositoryId', {
    label: 'Repository of templates',
    initial: known?.repository?.id ?? '',
    isRequired: known?.repository != null,
    hint: 'For templates and scripts that are not in the repository that is changed',
    options: offered(
      offers.repositories.map(({ id, url }) => ({ id, label: url })),
      known?.repository == null ? undefined : { id: known.repository.id, label: known.repository.url },
    ),
  }),
  {
    fields: [
      {
        name: 'gitRef',
        label: 'Branch, tag or commit of the templates',
        isRequired: known?.git != null,
        initial: known?.git?.ref ?? '',
        placeholder: 'main',
        when: isExternal,
      },
      {
        name: 'gitFolder',
        label: 'Folder of the templates',
        initial: known?.git?.folder ?? '',
        hint: 'The root when empty',
        when: isExternal,
      },
    ],
    give: (values) =>
      isExternal(values)
        ? {
            git: {
              ref: (values['gitRef'] ?? '').trim(),
              folder: (values['gitFolder'] ?? '').trim(),
              files: known?.git?.files ?? null,
            },
          }
        : {},
  },
];

type Box = NonNullable<NonNullable<NonNullable<Known['confirmation']>['checklist']>[number]>;
const showBox = ({ label }: Box): Values => ({ label });
const giveBox = (row: Values): PrChecklistAttributes => ({ label: row['label'] ?? '' });

/** What is confirmed before a pull request is opened. */
function confirmation(known?: Known): Part {
  const isAsked = (values: Values) => isOn(values, 'confirmation');
  const now = known?.confirmation;
  return {
    fields: [
      { name: 'confirmation', label: 'Asks to confirm', kind: 'check', initial: now == null ? '' : 'yes' },
      { name: 'confirmationText', label: 'What it then says', kind: 'area', initial: now?.text ?? '', when: isAsked },
      {
        name: 'checklist',
        label: 'Boxes that have to be ticked',
        kind: 'list',
        each: 'box',
        initial: rowsOfThings(listed(now?.checklist), showBox),
        row: () => [{ name: 'label', label: 'What is confirmed', isRequired: true, placeholder: 'I asked the team' }],
        summary: (row) => row['label'] ?? '',
        when: isAsked,
      },
    ],
    give: (values) => ({
      confirmation: isAsked(values)
        ? {
            text: kept(values, 'confirmationText'),
            checklist: thingsOfRows<Box, PrChecklistAttributes>(values, 'checklist', showBox, giveBox),
          }
        : {},
    }),
  };
}

type Entry = NonNullable<NonNullable<NonNullable<Known['secrets']>['entries']>[number]>;
const showEntry = ({ name, documentation, autogenerate }: Entry): Values => ({
  name: name ?? '',
  documentation: documentation ?? '',
  autogenerate: autogenerate === true ? 'yes' : '',
});
const giveEntry = (row: Values): PrSecretEntryAttributes => ({
  name: (row['name'] ?? '').trim(),
  documentation: kept(row, 'documentation'),
  autogenerate: isOn(row, 'autogenerate'),
});

/** The Secret that comes with a pull request: what is in it is named here, and never said. */
function secrets(known?: Known): Part {
  const isAsked = (values: Values) => isOn(values, 'secrets');
  const now = known?.secrets;
  const asked = (name: string, label: string, initial: string | null | undefined, placeholder: string): Field => ({
    name: `secret ${name}`,
    label,
    initial: initial ?? '',
    placeholder,
    when: isAsked,
  });
  return {
    fields: [
      { name: 'secrets', label: 'Brings a Secret', kind: 'check', initial: now == null ? '' : 'yes' },
      asked('cluster', 'Cluster of the Secret', now?.cluster, 'eu-prod-0'),
      asked('namespace', 'Namespace of the Secret', now?.namespace, 'default'),
      asked('name', 'Name of the Secret', now?.name, '{{ context.name }}-db'),
      {
        name: 'entries',
        label: 'Values of the Secret',
        kind: 'list',
        each: 'value',
        hint: 'Their names. Whoever opens a pull request gives the values.',
        initial: rowsOfThings(listed(now?.entries), showEntry),
        row: () => [
          { name: 'name', label: 'Name of the value', isRequired: true, placeholder: 'password' },
          { name: 'documentation', label: 'What the value is' },
          { name: 'autogenerate', label: 'The console generates it where it is not given', kind: 'check' },
        ],
        summary: (row) => `${row['name'] ?? ''}${isOn(row, 'autogenerate') ? ', generated' : ''}`,
        when: isAsked,
      },
    ],
    give: (values) => ({
      secrets: isAsked(values)
        ? {
            cluster: kept(values, 'secret cluster'),
            namespace: kept(values, 'secret namespace'),
            name: kept(values, 'secret name'),
            entries: thingsOfRows<Entry, PrSecretEntryAttributes>(values, 'entries', showEntry, giveEntry),
          }
        : {},
    }),
  };
}

/** All that a form asks of an automation, as it is now. */
export const partsOf = (offers: Offers, known?: Known): Part[] => [
  ...looks(known),
  ...target(offers, known),
  { fields: [questionsField(listed(known?.configuration))], give: (values) => ({ configuration: questionsOf(values) }) },
  confirmation(known),
  secrets(known),
  creates(known),
  updates(known),
  deletes(known),
  vendor(known),
  lua(known),
  ...templates(offers, known),
  {
    fields: [
      { name: 'patch', label: 'Makes a patch, and no pull request', kind: 'check', initial: known?.patch === true ? 'yes' : '' },
    ],
    give: (values) => ({ patch: isOn(values, 'patch') }),
  },
  {
    fields: [mergeWindowsField(listed(known?.mergeWindows))],
    give: (values) => ({ mergeWindows: mergeWindowsOf(values) }),
  },
];
