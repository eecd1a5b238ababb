import { Group, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { IconPencil, IconRefresh, IconTrash } from '@tabler/icons-react';

import { Bindings } from '../access/bindings';
import type { ClusterQuery } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { isOn, pairs } from '../parts/values';
import { Facts, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { paths } from '../paths';
import { DeleteCluster, DetachCluster, RenewToken, UpdateCluster } from './queries';

type Cluster = NonNullable<ClusterQuery['cluster']>;

function object(text: string): string {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return JSON.stringify(value);
  } catch {
    // Told below.
  }
  throw new Error('the metadata is no JSON object: write {"region": "eu", …}');
}

/** What a cluster is called, what it is tagged with, who may do what with it, and how it leaves. */
export function ClusterSettings({ cluster }: { cluster: Cluster }) {
  const navigate = useNavigate();
  const { id } = cluster;
  const handle = cluster.handle ?? id;
  const which = quoted(handle);
  const right = (verb: string) => ({ verb, thing: `cluster/${handle}` });
  const tags = (cluster.tags ?? []).flatMap((tag) => (tag ? [`${tag.name}=${tag.value}`] : []));
  return (
    <Stack gap="md">
      <Panel
        title="Names, tags, metadata"
        aside={
          <Group gap="sm">
            <Action
              noun="cluster"
              label="Change"
              icon={IconPencil}
              right={right('update')}
              explains="Global services, managed namespaces and rollouts select clusters by tags: what is spread follows at once."
              fields={[
                { name: 'name', label: 'Name for people', isRequired: true, initial: cluster.name },
                { name: 'tags', label: 'Tags, one a line', kind: 'area', initial: tags.join('\n') },
                {
                  name: 'metadata',
                  label: 'Metadata, as a JSON object',
                  kind: 'area',
                  initial: JSON.stringify(cluster.metadata ?? {}, null, 2),
                },
                { name: 'protect', label: 'Refuse its deletion', kind: 'check', initial: cluster.protect === true ? 'yes' : '' },
              ]}
              command={(values) =>
                `plural cd clusters update ${which} --name ${quoted(values['name'] ?? '')}\nplural cd clusters tag ${which} ${pairs(
                  values,
                  'tags',
                )
                  .map((tag) => quoted(`${tag.name}=${tag.value}`))
                  .join(' ')}`
              }
              run={async (values) =>
                ask(UpdateCluster, {
                  id,
                  attributes: {
                    name: (values['name'] ?? '').trim(),
                    tags: pairs(values, 'tags'),
                    metadata: object(values['metadata'] ?? ''),
                    protect: isOn(values, 'protect'),
                  },
                })
              }
              done="Changed the cluster"
            />
            <Action
              noun="cluster"
              label="Change the handle"
              icon={IconPencil}
              right={right('update')}
              explains="Commands, addresses and kubeconfigs that name it need the new handle."
              fields={[{ name: 'handle', label: 'Handle', isRequired: true, initial: handle }]}
              command={(values) => `plural cd clusters update ${which} --handle ${quoted(values['handle'] ?? '')}`}
              run={async (values) => {
                const answer = await ask(UpdateCluster, { id, attributes: { handle: (values['handle'] ?? '').trim() } });
                await navigate({
                  to: paths.cluster(answer.updateCluster?.handle ?? handle),
                  search: { tab: 'settings' } as never,
                });
              }}
              done="Changed the handle"
            />
          </Group>
        }
      >
        <Facts
          facts={[
            ['Name', <Name key="n" of={cluster.name} />],
            ['Handle', <Name key="h" of={handle} />],
            ['Tags', tags.length === 0 ? 'none' : <Name of={tags.join(', ')} />],
            ['Deletion', cluster.protect === true ? 'is refused' : 'is allowed'],
          ]}
        />
      </Panel>
      <Bindings thing={{ clusterId: id }} right={`cluster/${handle}`} kind="cluster" name={handle} />
      <Panel title="Agent and removal">
        <Text size="sm" c="dimmed" px="md" pt="md">
          Detach forgets the cluster and leaves what runs in it. Delete first removes the objects of its services from it.
        </Text>
        <Group gap="sm" p="md">
          <Action
            noun="cluster"
            label="Renew the agent’s token"
            icon={IconRefresh}
            right={right('rotate-token')}
            explains="The agent replaces its deploy token by itself, without a gap. The old one ends when the new one is used."
            command={`plural cd clusters rotate-token ${which}`}
            run={() => ask(RenewToken, { id })}
            done="The agent renews its token"
          />
          <Action
            noun="cluster"
            isDangerous
            label="Detach"
            icon={IconTrash}
            right={right('detach')}
            explains="The console forgets the cluster and its services. Everything in it stays and runs on; nobody keeps it as git says."
            confirm={handle}
            command={`plural cd clusters delete ${which} --soft`}
            run={() => ask(DetachCluster, { id })}
            done={`Detached ${handle}`}
          />
          <Action
            noun="cluster"
            isDangerous
            label="Delete"
            icon={IconTrash}
            right={right('delete')}
            unless={cluster.protect === true ? 'It is protected: remove the protection first.' : undefined}
            explains="Its agent removes the objects of all services from the cluster; then the console forgets it. What nobody here made stays."
            confirm={handle}
            command={`plural cd clusters delete ${which}`}
            run={() => ask(DeleteCluster, { id })}
            done={`${handle} is being removed`}
          />
        </Group>
      </Panel>
    </Stack>
  );
}
