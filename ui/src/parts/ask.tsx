import { Button, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { explain } from '../lib/client';
import { visible } from '../lib/text';
import { Command, type ActionProps } from './action';
import { Fields } from './form';
import { Name } from './text';
import { faulty, initialValues, missing } from './values';

/** What an action asks before it does something: what that is, what it needs, and the same by command line. */
export default function Ask<Answer>(props: ActionProps<Answer> & { close: () => void }) {
  const { label, explains, command, run, done, noun, close, fields = [], confirm, tells, isDangerous = false } = props;
  const queries = useQueryClient();
  const [begun] = useState(() => initialValues(fields));
  const [values, setValues] = useState(begun);
  const [typed, setTyped] = useState('');
  const [isTried, setTried] = useState(false);
  const change = useMutation({
    mutationFn: () => run(values, begun),
    onSuccess: async () => {
      if (!tells) {
        notifications.show({ message: visible(done) });
        close();
      }
      await queries.invalidateQueries({ queryKey: [noun] });
    },
  });
  const failed = change.isError ? explain(change.error) : undefined;
  const lacks = [...missing(fields, values), ...faulty(fields, values)];
  const isSure = confirm === undefined || typed === confirm;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    setTried(true);
    // In a long form what is lacking may be out of sight.
    const form = event.currentTarget;
    if (lacks.length > 0) requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
    if (isSure && lacks.length === 0 && !change.isPending) change.mutate();
  };
  return (
    <Modal opened onClose={close} title={label} centered size={fields.length > 0 ? 'lg' : 'md'}>
      {tells && change.isSuccess ? (
        <Stack gap="md" role="status">
          {tells(change.data)}
          <Group justify="flex-end">
            <Button data-autofocus onClick={close}>
              Close
            </Button>
          </Group>
        </Stack>
      ) : (
        <form onSubmit={submit} noValidate>
          <Stack gap="md">
            <Text size="sm" component="div">
              {typeof explains === 'function' ? explains(values) : explains}
            </Text>
            {fields.length > 0 && <Fields fields={fields} values={values} onChange={setValues} lacks={isTried ? lacks : []} />}
            {confirm !== undefined && (
              <TextInput
                label={
                  <>
                    Type <Name of={confirm} /> to go on
                  </>
                }
                value={typed}
                autoComplete="off"
                data-autofocus={fields.length === 0 || undefined}
                error={isTried && !isSure ? 'This is another name.' : undefined}
                onChange={({ currentTarget }) => setTyped(currentTarget.value)}
              />
            )}
            <Command line={typeof command === 'function' ? command(values) : command} />
            {failed && (
              <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
                <Name of={failed.what} />. {failed.next}
              </Text>
            )}
            <Group justify="flex-end" gap="sm">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button
                type="submit"
                data-autofocus={(fields.length === 0 && confirm === undefined) || undefined}
                loading={change.isPending}
                {...(isDangerous && { color: 'red' })}
              >
                {label}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
