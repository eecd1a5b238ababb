import { Button, Group, Text } from '@mantine/core';

import classes from './offer.module.css';

/** At the first sign-in, on the first page: takes no focus and covers nothing for good. */
export function Offer({ start, decline }: { start: () => void; decline: () => void }) {
  return (
    <aside aria-label="Tour" className={classes['offer']}>
      <Text size="sm">New here? The tour names what you need first, in a few steps.</Text>
      <Group gap="sm">
        <Button onClick={start}>Take the tour</Button>
        <Button variant="default" onClick={decline}>
          Not now
        </Button>
      </Group>
    </aside>
  );
}
