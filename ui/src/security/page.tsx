import { Code, Stack, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Button, Group, TextInput } from '@mantine/core';
import { IconDeviceMobile, IconFingerprint, IconKey, IconPencil, IconShieldOff, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';

import { graphql } from '../generated';
import type { PasskeysQuery } from '../generated/graphql';
import { ask, explain } from '../lib/client';
import { Action, Copy, Once } from '../parts/action';
import { text, tracks } from '../parts/cells';
import { given, isOn, password } from '../parts/values';
import { Empty, Facts, Fault, Page, Panel, Waiting } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago, Name } from '../parts/text';

const Passkeys = graphql(/* GraphQL */ `
  query Passkeys {
    me {
      id
      email
      secondFactor
    }
    passkeys {
      id
      name
      insertedAt
      lastUsedAt
    }
  }
`);
const Begin = graphql(/* GraphQL */ `
  mutation BeginFactor($currentPassword: String) {
    beginSecondFactor(currentPassword: $currentPassword) {
      address
      secret
    }
  }
`);
const Confirm = graphql(/* GraphQL */ `
  mutation ConfirmFactor($code: String!) {
    confirmSecondFactor(code: $code)
  }
`);
const End = graphql(/* GraphQL */ `
  mutation EndOwnFactor($currentPassword: String, $code: String) {
    endSecondFactor(currentPassword: $currentPassword, code: $code)
  }
`);
const Rename = graphql(/* GraphQL */ `
  mutation RenamePasskey($id: ID!, $attributes: PasskeyAttributes!) {
    updatePasskey(id: $id, attributes: $attributes) {
      id
    }
  }
`);
const Remove = graphql(/* GraphQL */ `
  mutation RemovePasskey($id: ID!) {
    deletePasskey(id: $id) {
      id
    }
  }
`);
const Password = graphql(/* GraphQL */ `
  mutation OwnPassword($attributes: UserAttributes!, $currentPassword: String, $endTokens: Boolean) {
    updateUser(attributes: $attributes, currentPassword: $currentPassword, endTokens: $endTokens) {
      id
    }
  }
`);

type Key = NonNullable<PasskeysQuery['passkeys']>[number];

const columns: Columns<Key> = [
  { id: 'name', header: 'Passkey', meta: tracks.wide, cell: ({ row }) => text(row.original.name) },
  { id: 'at', header: 'Added', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
  { id: 'used', header: 'Last used', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.lastUsedAt} absent="never" /> },
  {
    id: 'do',
    header: '',
    meta: { track: '190px' },
    cell: ({ row: { original: key } }) => (
      <Group gap="xs" wrap="nowrap">
        <Action
          noun="security"
          isSmall
          label="Rename"
          icon={IconPencil}
          explains="To tell devices apart."
          fields={[{ name: 'name', label: 'Name', initial: key.name, isRequired: true }]}
          command={(values) => `plural passkeys rename ${key.id} '${values['name'] ?? ''}'`}
          run={(values) => ask(Rename, { id: key.id, attributes: { name: (values['name'] ?? '').trim() } })}
          done="Renamed the passkey"
        />
        <Action
          noun="security"
          isSmall
          isDangerous
          label="Remove"
          icon={IconTrash}
          explains="It signs you in no more. Sessions that were opened with it go on."
          command={`plural passkeys delete ${key.id}`}
          run={() => ask(Remove, { id: key.id })}
          done="Removed the passkey"
        />
      </Group>
    ),
  },
];

/** How you sign in: password, second factor, passkeys. */
export function List() {
  const query = useQuery({ queryKey: ['security'], queryFn: ({ signal }) => ask(Passkeys, {}, signal) });
  if (query.isPending)
    return (
      <Page title="Signing in">
        <Waiting />
      </Page>
    );
  if (query.isError)
    return (
      <Page title="Signing in">
        <Fault error={query.error} what="how you sign in" retry={() => void query.refetch()} />
      </Page>
    );
  const { me, passkeys } = query.data;
  return (
    <Page title="Signing in">
      <Panel
        title="Password"
        aside={
          <Action
            noun="security"
            label="Change the password"
            icon={IconKey}
            explains="It ends all of your sessions but this one."
            fields={[
              { name: 'password', label: 'New password', kind: 'secret', isRequired: true },
              { name: 'endTokens', label: 'End my access tokens, too', kind: 'check' },
              password,
            ]}
            command="plural password"
            run={(values) =>
              ask(Password, {
                attributes: { password: values['password'] ?? '' },
                currentPassword: given(values, 'currentPassword'),
                endTokens: isOn(values, 'endTokens'),
              })
            }
            done="Changed the password"
          />
        }
      >
        <Facts facts={[['You are', <Name key="me" of={me?.email ?? ''} />]]} />
      </Panel>
      <Panel
        title="Second factor"
        aside={
          me?.secondFactor === true ? (
            <Action
              noun="security"
              isDangerous
              label="End it"
              icon={IconShieldOff}
              explains="From then on your password alone signs you in."
              fields={[{ name: 'code', label: 'A code of the app, or a recovery code', isRequired: true }, password]}
              command="plural second-factor disable"
              run={(values) => ask(End, { code: given(values, 'code'), currentPassword: given(values, 'currentPassword') })}
              done="Ended the second factor"
            />
          ) : (
            <Action
              noun="security"
              label="Set up"
              icon={IconDeviceMobile}
              explains="Your authenticator app makes a code that is asked for with your password."
              fields={[password]}
              command="plural second-factor enable"
              run={(values) => ask(Begin, { currentPassword: given(values, 'currentPassword') })}
              tells={(answer) => answer.beginSecondFactor && <Enrol {...answer.beginSecondFactor} />}
              done=""
            />
          )
        }
      >
        {me?.secondFactor === true ? (
          <Facts facts={[['Asked for', 'with your password, each time that you sign in']]} />
        ) : (
          <Empty title="No second factor">Whoever knows your password is you. An authenticator app changes that.</Empty>
        )}
      </Panel>
      <Panel
        title="Passkeys"
        aside={
          // The console's own page registers it: it asks to sign in again where the session is not of a moment ago.
          <Button component="a" href="/auth/passkeys" variant="default" leftSection={<IconFingerprint size={14} />}>
            Add a passkey
          </Button>
        }
      >
        <Table
          isShort
          label="Passkeys"
          rows={passkeys ?? []}
          columns={columns}
          id={({ id }) => id}
          empty={
            <Empty title="No passkeys yet">
              A key that your device holds signs you in, in the place of password and code. It cannot be phished.
            </Empty>
          }
        />
      </Panel>
    </Page>
  );
}

/** The secret for the app, then a code of it, then the recovery codes. */
function Enrol({ secret, address }: { secret: string; address: string }) {
  const [code, setCode] = useState('');
  const confirm = useMutation({ mutationFn: () => ask(Confirm, { code: code.trim() }), gcTime: 0 });
  if (confirm.isSuccess)
    return <Once text={(confirm.data.confirmSecondFactor ?? []).join('\n')} what="The list of recovery codes, each good once," />;
  return (
    <Stack gap="md">
      <Text size="sm">Enter this secret into your authenticator app, then a code that the app shows.</Text>
      <Group gap="xs">
        <Code>{secret}</Code>
        <Copy text={secret} label="Copy the secret" />
        <Copy text={address} label="Copy as otpauth address" />
      </Group>
      <Group gap="sm" align="end">
        <TextInput
          label="Code"
          inputMode="numeric"
          autoComplete="one-time-code"
          value={code}
          onChange={({ currentTarget }) => setCode(currentTarget.value)}
          {...(confirm.isError && { error: explain(confirm.error).what })}
        />
        <Button loading={confirm.isPending} onClick={() => confirm.mutate()}>
          Confirm
        </Button>
      </Group>
    </Stack>
  );
}
