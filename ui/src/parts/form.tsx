import {
  ActionIcon,
  Button,
  Checkbox,
  Fieldset,
  Group,
  NumberInput,
  PasswordInput,
  Select,
  Stack,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconArrowUp, IconChevronDown, IconChevronUp, IconPlus, IconTrash } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';

import { Name } from './text';
import { asRows, initialValues, rowsOf, type Field, type Values } from './values';

export * from './values';

interface FieldsProps {
  fields: Field[];
  values: Values;
  onChange: (values: Values) => void;
  /** Fields that are said to lack their value. */
  lacks: string[];
  /** What the console said of values, by the names of their fields. */
  told?: Record<string, string>;
}

/** The fields of a form, each with its label, hint and fault. */
export function Fields(props: FieldsProps) {
  return (
    <Stack gap="sm">
      <Asked {...props} isOutermost />
    </Stack>
  );
}

/** `isOutermost`: not in a row of a list; the first field has the focus. */
function Asked(props: FieldsProps & { isOutermost?: boolean }) {
  const { fields, values, onChange, lacks, told = {}, isOutermost = false } = props;
  return fields
    .filter(({ when }) => when?.(values) !== false)
    .map((field, at) => {
      const { name, row } = field;
      const change = (value: string) => onChange({ ...values, [name]: value });
      return row ? (
        <Rows
          key={name}
          field={field}
          row={row}
          rows={rowsOf(values, name)}
          lacks={lacks.flatMap((lack) => (lack.startsWith(`${name}.`) ? [lack.slice(name.length + 1)] : []))}
          onChange={(rows) => change(asRows(rows))}
        />
      ) : (
        <One
          key={name}
          field={field}
          value={values[name] ?? ''}
          isFirst={isOutermost && at === 0}
          isLacking={lacks.includes(name)}
          told={told[name]}
          onChange={change}
        />
      );
    });
}

/** Things of which there are any number, each with fields of its own, in an order. */
function Rows(props: {
  field: Field;
  row: NonNullable<Field['row']>;
  rows: Values[];
  lacks: string[];
  onChange: (rows: Values[]) => void;
}) {
  const { field, row, rows, lacks, onChange } = props;
  const { label, hint, each = 'row', summary, tells: Tells } = field;
  // Of a list that folds its rows, those that are not.
  const [open, setOpen] = useState<number[]>([]);
  const lacksOf = (at: number) => lacks.flatMap((lack) => (lack.startsWith(`${at}.`) ? [lack.slice(`${at}.`.length)] : []));
  const isOpen = (at: number) => summary === undefined || open.includes(at) || lacksOf(at).length > 0;
  const box = useRef<HTMLDivElement>(null);
  const add = useRef<HTMLButtonElement>(null);
  // The row that gets the focus: one that was made, or moved.
  const next = useRef<number>(undefined);
  useEffect(() => {
    if (next.current === undefined) return;
    const row = box.current?.querySelectorAll('fieldset').item(next.current);
    (row?.querySelector<HTMLElement>('input:not([type=hidden]), textarea') ?? row?.querySelector('button'))?.focus();
    next.current = undefined;
  });
  return (
    <div role="group" aria-label={label} ref={box}>
      <Text size="sm" fw={500}>
        {label}
      </Text>
      {hint !== undefined && (
        <Text size="xs" c="dimmed" component="div">
          {hint}
        </Text>
      )}
      <Stack gap="sm" mt={4} align="stretch">
        {rows.map((values, at) => {
          const called = `${each} ${at + 1}`;
          return (
            <Fieldset key={at} legend={called.replace(/^./, (letter) => letter.toUpperCase())} p="sm" pt={4}>
              <Stack gap="xs">
                <Group gap={4} justify="flex-end" mb={isOpen(at) ? -8 : 0} wrap="nowrap">
                  {!isOpen(at) && (
                    <Text size="sm" flex={1} style={{ overflowWrap: 'anywhere' }}>
                      <Name of={summary?.(values) ?? ''} />
                    </Text>
                  )}
                  {summary !== undefined && (
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={isOpen(at) ? `Fold ${called}` : `Open ${called}`}
                      aria-expanded={isOpen(at)}
                      onClick={() => {
                        if (!isOpen(at)) next.current = at;
                        setOpen(isOpen(at) ? open.filter((one) => one !== at) : [...open, at]);
                      }}
                    >
                      {isOpen(at) ? <IconChevronUp size={14} /> : <IconChevronDown size={14} />}
                    </ActionIcon>
                  )}
                  {at > 0 && (
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      aria-label={`Move ${called} up`}
                      onClick={() => {
                        next.current = at - 1;
                        setOpen(open.map((one) => (one === at ? at - 1 : one === at - 1 ? at : one)));
                        onChange([...rows.slice(0, at - 1), values, ...rows.slice(at - 1, at), ...rows.slice(at + 1)]);
                      }}
                    >
                      <IconArrowUp size={14} />
                    </ActionIcon>
                  )}
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label={`Remove ${called}`}
                    onClick={() => {
                      // What had the focus goes with the row.
                      add.current?.focus();
                      setOpen(open.flatMap((one) => (one === at ? [] : [one > at ? one - 1 : one])));
                      onChange(rows.filter((_, other) => other !== at));
                    }}
                  >
                    <IconTrash size={14} />
                  </ActionIcon>
                </Group>
                {isOpen(at) && (
                  <Asked
                    fields={row(rows, at)}
                    values={values}
                    onChange={(next) => onChange(rows.map((one, other) => (other === at ? next : one)))}
                    lacks={lacksOf(at)}
                  />
                )}
              </Stack>
            </Fieldset>
          );
        })}
        {Tells && <Tells rows={rows} />}
        <Button
          ref={add}
          variant="default"
          size="compact-xs"
          style={{ alignSelf: 'flex-start' }}
          leftSection={<IconPlus size={12} />}
          onClick={() => {
            next.current = rows.length;
            setOpen([...open, rows.length]);
            onChange([...rows, initialValues(row([...rows, {}], rows.length))]);
          }}
        >
          Add {/^[aeiou]/.test(each) ? 'an' : 'a'} {each}
        </Button>
      </Stack>
    </div>
  );
}

interface OneProps {
  field: Field;
  value: string;
  isFirst: boolean;
  isLacking: boolean;
  told: string | undefined;
  onChange: (value: string) => void;
}

function One(props: OneProps) {
  const { field, value, isFirst, isLacking, told, onChange } = props;
  const { label, hint, kind = 'text', options = [], isRequired = false, placeholder } = field;
  const fault = value === '' ? undefined : field.fault?.(value);
  const common = {
    label,
    description: hint,
    required: isRequired,
    error: fault ?? told ?? (isLacking ? 'This is needed.' : undefined),
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
  if (field.input) return <field.input {...common} value={value} onChange={onChange} />;
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
    // Rows of a list have fields of their own.
    case 'list':
    case 'text':
      return <TextInput {...typed} />;
  }
}
