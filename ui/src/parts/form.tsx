import { Checkbox, NumberInput, PasswordInput, Select, Stack, Textarea, TextInput } from '@mantine/core';

import type { Field, Values } from './values';

export * from './values';

/** The fields of a form, each with its label, hint and fault. */
export function Fields(props: { fields: Field[]; values: Values; onChange: (values: Values) => void; lacks: string[] }) {
  const { fields, values, onChange, lacks } = props;
  return (
    <Stack gap="sm">
      {fields
        .filter(({ when }) => when?.(values) !== false)
        .map((field, at) => (
          <One
            key={field.name}
            field={field}
            value={values[field.name] ?? ''}
            isFirst={at === 0}
            isLacking={lacks.includes(field.name)}
            onChange={(value) => onChange({ ...values, [field.name]: value })}
          />
        ))}
    </Stack>
  );
}

function One(props: { field: Field; value: string; isFirst: boolean; isLacking: boolean; onChange: (value: string) => void }) {
  const { field, value, isFirst, isLacking, onChange } = props;
  const { label, hint, kind = 'text', options = [], isRequired = false, placeholder } = field;
  const common = {
    label,
    description: hint,
    required: isRequired,
    error: isLacking ? 'This is needed.' : undefined,
    ...(isFirst && { 'data-autofocus': true }),
    ...(placeholder !== undefined && { placeholder }),
  };
  const typed = {
    ...common,
    value,
    autoComplete: 'off',
    spellCheck: false,
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) => onChange(currentTarget.value),
  };
  switch (kind) {
    case 'check':
      return (
        <Checkbox
          label={label}
          description={hint}
          checked={value === 'yes'}
          onChange={({ currentTarget }) => onChange(currentTarget.checked ? 'yes' : '')}
          {...(isFirst && { 'data-autofocus': true })}
        />
      );
    case 'choice':
      return (
        <Select
          {...common}
          data={options}
          value={value === '' ? null : value}
          clearable={!isRequired}
          searchable={options.length > 8}
          onChange={(next) => onChange(next ?? '')}
        />
      );
    case 'area':
      return <Textarea {...typed} autosize minRows={2} maxRows={12} size="xs" />;
    case 'secret':
      return <PasswordInput {...typed} autoComplete="new-password" size="xs" />;
    case 'number':
      return (
        <NumberInput
          {...common}
          size="xs"
          allowNegative={false}
          value={value === '' ? '' : Number(value)}
          onChange={(next) => onChange(String(next))}
        />
      );
    case 'text':
      return <TextInput {...typed} />;
  }
}
