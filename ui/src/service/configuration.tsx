import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconEye, IconEyeOff } from '@tabler/icons-react';
import { useState } from 'react';

import { Copy } from '../parts/action';
import { Empty, Facts, Fault, Panel, Waiting } from '../parts/page';
import { Name } from '../parts/text';
import { configurationQuery } from './queries';

/** Its values for templates, each hidden until it is asked for. */
export function Configuration({ cluster, name }: { cluster: string; name: string }) {
  const query = useQuery(configurationQuery(cluster, name));
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="its configuration" retry={() => void query.refetch()} />;
  const values = query.data?.configuration?.flatMap((value) => value ?? []);
  return (
    <Panel title="Values for templates">
      {values === undefined ? (
        <Empty title="You may not see its values">They are secrets: who may change the service may read them.</Empty>
      ) : values.length === 0 ? (
        <Empty title="It has no values of its own">
          Templates of the service read what is set here:{' '}
          <code>plural cd services update {`${cluster}/${name}`} --conf NAME=VALUE</code>
        </Empty>
      ) : (
        <Facts
          facts={values.map(({ name: key, value, valueFrom }) => {
            const from = valueFrom?.secretKeyRef ?? valueFrom?.configMapKeyRef;
            return [
              key,
              from ? (
                <Name key={key} of={`from ${from.namespace ?? ''}/${from.name} ${from.key}`} />
              ) : (
                <Secret key={key} value={value} of={key} />
              ),
            ];
          })}
        />
      )}
    </Panel>
  );
}

function Secret({ value, of }: { value: string; of: string }) {
  const [isShown, setShown] = useState(false);
  return (
    <Group gap="xs" wrap="nowrap">
      <code>{isShown ? <Name of={value} /> : '••••••••'}</code>
      <Button
        variant="subtle"
        color="gray"
        size="compact-xs"
        leftSection={isShown ? <IconEyeOff size={14} /> : <IconEye size={14} />}
        aria-label={`${isShown ? 'Hide' : 'Show'} ${of}`}
        onClick={() => setShown(!isShown)}
      >
        {isShown ? 'Hide' : 'Show'}
      </Button>
      {isShown && <Copy text={value} label={`Copy ${of}`} />}
    </Group>
  );
}
