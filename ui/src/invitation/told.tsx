import { Text } from '@mantine/core';

import { Once } from '../parts/action';
import { Ago, Name } from '../parts/text';

/** The code of an invitation, which is told once. */
export function Invitation(props: {
  invite: { email: string; page?: string | null; token?: string | null; expiresAt?: string | null } | null | undefined;
}) {
  const { invite } = props;
  if (!invite) return null;
  const { email, page, token } = invite;
  return (
    <>
      <Text size="sm">
        Give this to <Name of={email} />, and to nobody else. Whoever has it becomes them.
      </Text>
      <Once text={page == null ? (token ?? '') : `${page}#${token ?? ''}`} what={page == null ? 'The code' : 'The link'} />
      {invite.expiresAt != null && (
        <Text size="xs" c="dimmed">
          It holds until {new Date(invite.expiresAt).toLocaleString()}. Created <Ago at={new Date().toISOString()} />.
        </Text>
      )}
    </>
  );
}
